//! Coordinators that are restarted one after the other, and coordinators that die, and the view of clients of the Rust crate and of
//! a leader on generated stubs.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod leader;
mod program;
mod site;
mod soak;

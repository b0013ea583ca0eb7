//! Coordinators that are restarted one after the other, and the view of clients of the Rust crate.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod load;
mod soak;

//! Coordinators that are restarted one after the other, and coordinators that die, under clients of the Rust crate: what
//! those who use it see of that.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod site;
mod soak;

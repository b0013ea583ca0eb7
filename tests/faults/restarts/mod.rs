//! Coordinators that are restarted one after the other, and the view of clients of the Rust crate.

mod load;
mod soak;

//! One queue for a name over all coordinators: served fairly and in the order in which Redis saw the acquires, whatever process
//! dies. Whole crowds wait here, so each test runs alone while its crowd is served.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod crowd;
mod leaving;
mod order;
mod soak;
mod turns;

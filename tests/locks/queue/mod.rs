//! One queue for a name over all coordinators: served fairly and in the order in which Redis saw the acquires, whoever
//! gives up.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test fails by panicking"
)]

mod leaving;
mod order;
mod soak;

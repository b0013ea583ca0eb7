//! Faults: processes killed and stopped, connections cut and black-holed, Redis restarted.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod cleanup;
mod contended;
mod late_replies;
mod line;
mod listings;
mod pauses;
mod renewals;
mod shutdown;
mod soak;
mod stepped_clock;
mod transport;
mod waiters;

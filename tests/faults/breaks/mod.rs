//! Faults: processes killed and stopped, connections cut and black-holed, Redis restarted.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod cleanup;
mod contended;
mod flood;
mod last_words;
mod late_replies;
mod line;
mod listings;
mod moved;
mod pauses;
mod renewals;
mod shutdown;
mod soak;
mod stepped_clock;
mod stop;
mod transport;
mod waiters;

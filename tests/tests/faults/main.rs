//! Faults: processes killed and stopped, connections cut and black-holed, Redis restarted. These measure, so each
//! test runs alone.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod abuse;
mod cleanup;
mod clock;
mod contended;
mod flood;
mod kill;
mod last_words;
mod late_grants;
mod late_replies;
mod line;
mod listings;
mod load;
mod moved;
mod pauses;
mod redis_blackhole;
mod redis_replies;
mod redis_restart;
mod renewals;
mod shutdown;
mod stepped_clock;
mod stop;
mod transport;
mod waiters;

//! Tests of watching: watchers get all events, in order, at once, and cost nothing while there are none.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests fail by panicking"
)]

mod cost;
mod ends;
mod events;
mod gaps;
mod snapshots;
mod soak;
mod watch;

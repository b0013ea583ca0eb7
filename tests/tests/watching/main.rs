//! What happens to locks, told to those who watch: all of it, in order, at once, and at no cost while nobody does.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests fail by panicking"
)]

mod cost;
mod crowd;
mod events;
mod gaps;
mod site;
mod snapshots;
mod watch;

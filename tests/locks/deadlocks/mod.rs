//! Deadlocks end, and no wait is aborted without one: over coordinators, modes, actors and kinds of acquire, on Redis and in
//! memory. The tests sleep most of the time and run side by side; those that measure or load the machine run alone.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod client;
mod cost;
mod cycles;
mod innocent;
mod killed;
mod monitor;
mod off;
mod scene;
mod soak;

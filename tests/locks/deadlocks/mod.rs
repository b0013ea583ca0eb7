//! Deadlocks end, and no wait is aborted without one: over coordinators, modes, actors and kinds of acquire, on Redis and in
//! memory.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod client;
mod cost;
mod cycles;
mod monitor;
mod scene;
mod soak;

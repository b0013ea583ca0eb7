//! Elections over several coordinators on one Redis: who leads, for how long, and who is told of it, whoever dies.
//! Candidates speak for themselves on the wire, or are processes; points that are the client's to keep are tried with it.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod coordinator_killed;
mod history;
mod holders;
mod losses;
mod observing;
mod silent_redis;
mod site;
mod soak;
mod values;

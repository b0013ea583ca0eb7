//! Elections over several coordinators on one Redis: the leader, the length of its term, and the observers' view, whatever
//! process dies. Candidates use the wire directly, or are processes; promises of the client are tested with it.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod holders;
mod losses;
mod observing;
mod silent_redis;

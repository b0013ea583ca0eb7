//! Locks, queues and elections over several coordinators on one store: order, hand-off, deadlocks, resumes, watchers.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests fail by panicking"
)]

mod deadlocks;
mod elections;
mod family;
mod resume;
mod watching;

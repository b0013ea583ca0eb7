//! Faults: processes killed and stopped, connections cut, messages lost, coordinators restarted, clients that abuse.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests fail by panicking"
)]

mod abuse;
mod breaks;
mod connections;
mod lost_messages;
mod restarts;

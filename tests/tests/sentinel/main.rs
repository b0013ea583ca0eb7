//! Locks in the master that sentinels name: a master, two replicas and three sentinels, all of them real. These measure,
//! and load the machine, so each test runs alone.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod clock;
mod contended;
mod differing;
mod double_grant;
mod following;
mod killed;
mod load;
mod refusals;
mod replicated;
mod scene;
mod start;
mod waiters;

//! Locks in the master that sentinels name: a master, two replicas and three sentinels, all of them real.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod double_grant;
mod refusals;
mod scene;
mod soak;
mod start;
mod waiters;

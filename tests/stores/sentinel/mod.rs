//! Locks in the master that sentinels name: a master, two replicas and three sentinels, all of them real.

mod double_grant;
mod refusals;
mod scene;
mod soak;
mod start;
mod waiters;

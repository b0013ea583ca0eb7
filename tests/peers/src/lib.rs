//! Leasehold's rivals, measured with the driver that Leasehold's own rows are measured with.
//!
//! [`cycles`] and [`handoff`] are that driver behind the trait [`Rival`]; [`etcd`] and [`rslock`] are what it drives. Each
//! rival is started for one measurement and ended after it, on loopback, on ports of its own. Every grant is checked for
//! exclusion, and for the order of fencing tokens where there are such; after a run, nothing may be held any more.

pub mod cycles;
pub mod etcd;
pub mod handoff;
pub mod rival;
pub mod rslock;

pub use rival::{Grant, Rival, Session};

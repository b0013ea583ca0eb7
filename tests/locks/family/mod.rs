//! Locks of every mode, as their clients have them: exclusive, shared, permits of a semaphore, several names at once,
//! reentrant, with a lock-delay, with values. On a real Redis behind two coordinators, and where it makes no difference
//! also in memory.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod delays;
mod losses;
mod reentrancy;
mod repeated;
mod semaphore;
mod several;
mod shared;
mod unary;
mod values;
mod waits;
mod want;

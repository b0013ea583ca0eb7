//! Shared state of the sessions and unary calls of one coordinator: the store, the waiters, the clean-up.
//!
//! - `handle`: the [`Coordinator`] as everybody has it.
//! - [`registry`]: which owner ids are ours, and whom to tell.
//! - [`executor`]: execution of what the machines of sessions and unary calls ask for.
//! - `contended`, [`contention`]: the task that keeps the queues of contended names alive and finds what a lost message told.
//! - [`inbox`]: what a session hears from the store and from others.
//! - `cleanup`: releases that nobody waits for.
//! - [`ends`], [`end_order`], [`marks`]: the sessions that operators can end here, their orders, and the task that looks for their
//!   marks in the store.
//! - `unary_holds`: the task that looks for ends of the unary calls' holds, for the audit log.
//! - `blocked`, `deadlock`: which actors wait while they hold something, and the task that ends their deadlocks.

mod blocked;
mod cleanup;
mod contended;
pub mod contention;
mod deadlock;
pub mod end_order;
pub mod ends;
pub mod executor;
mod handle;
pub mod inbox;
pub mod marks;
pub mod registry;
#[cfg(test)]
pub(crate) mod tests;
mod unary_holds;

use leasehold_store::WakeUp;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

pub use self::handle::{Coordinator, Parts};

impl Coordinator {
    /// Starts a coordinator, which other coordinators wake up; its background tasks run until `stop`.
    pub fn start(parts: Parts, wake_ups: mpsc::Receiver<WakeUp>, stop: &CancellationToken) -> Self {
        let (liveness, detects) = (parts.liveness.clone(), parts.deadlock_detection);
        let (coordinator, messages, cleanups) = Self::new(parts);
        let cleanup = cleanup::run(coordinator.clone(), cleanups, stop.clone());
        tokio::spawn(liveness.keep("clean-up", stop, cleanup));
        let contention = contention::run(coordinator.clone(), messages, wake_ups, stop.clone());
        tokio::spawn(liveness.keep("contention", stop, contention));
        let ends = marks::run(coordinator.clone(), stop.clone());
        tokio::spawn(liveness.keep("ends of sessions", stop, ends));
        if coordinator.audit().is_on() {
            let holds = unary_holds::run(coordinator.clone(), stop.clone());
            tokio::spawn(liveness.keep("audit of unary holds", stop, holds));
        }
        if detects {
            let deadlock = deadlock::run(coordinator.clone(), stop.clone());
            tokio::spawn(liveness.keep("detection of deadlocks", stop, deadlock));
        }
        coordinator
    }
}

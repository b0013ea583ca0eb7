//! Actors of this coordinator's sessions that wait while they hold something.

use std::sync::Arc;

use leasehold_core::deadlock::{
    BlockedWait, Publication,
    blocked::BlockedWaits,
    share::{self, Lot, Omitted},
};
use leasehold_store::clock;
use parking_lot::Mutex;
use tokio::sync::Notify;

/// Table of the actors of this coordinator's sessions that wait while they hold something.
#[derive(Debug, Default)]
pub(super) struct Blocked {
    waits: Mutex<BlockedWaits>,
    /// Notified of each wait that is added.
    added: Notify,
}

impl Blocked {
    /// Adds a wait of one of this caller's sessions.
    pub(super) fn add(&self, caller: &Arc<str>, wait: &BlockedWait) {
        self.waits.lock().add(caller, wait, clock::now());
        self.added.notify_one();
    }

    /// Removes a wait. Returns whether it was in the table.
    pub(super) fn remove(&self, wait: &BlockedWait) -> bool {
        self.waits.lock().remove(wait)
    }

    /// Waits until there is at least one wait.
    pub(super) async fn any(&self) {
        while self.waits.lock().is_empty() {
            self.added.notified().await;
        }
    }

    pub(super) fn publication(&self, lot: Lot) -> (Publication, Omitted) {
        let candidates = self.waits.lock().candidates(clock::now());
        // The choice takes a while, in which sessions may add and remove waits.
        let (chosen, omitted) = share::choose(candidates, lot);
        (self.waits.lock().publication(&chosen), omitted)
    }
}

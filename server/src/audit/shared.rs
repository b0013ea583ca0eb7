//! State of the audit log that its handles and its writer share.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicI64, Ordering},
    },
    time::{SystemTime, UNIX_EPOCH},
};

use leasehold_core::{id::OwnerId, time::StoreTime};
use leasehold_store::clock;
use tokio::sync::Notify;

use super::{
    event::{EndKind, Event, Why},
    ledger::{Entry, Ledger},
    queue::Queue,
    writer::Counters,
};

/// Most events that wait to be written: what a busy coordinator makes in half a second.
const CAPACITY: usize = 65_536;

/// State of the audit log.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) ledger: Ledger,
    pub(super) queue: Queue,
    counters: Counters,
    /// Microseconds from the coordinator's clock to the store's, as of the last answer of the store.
    offset: AtomicI64,
    reopen: Arc<AtomicBool>,
    /// Notifies of a hold of the unary calls that is due before all others.
    pub(super) due: Notify,
}

impl Shared {
    /// Returns the state of a log that counts here. `reopen` is set if its file is to be opened anew.
    pub(super) fn new(counters: Counters, reopen: Arc<AtomicBool>) -> Self {
        // Until the store has told its time: the host's is as near as there is.
        let wall = SystemTime::now().duration_since(UNIX_EPOCH);
        let wall = StoreTime::from_micros(0).after(wall.unwrap_or_default());
        Self {
            ledger: Ledger::default(),
            queue: Queue::new(CAPACITY),
            counters,
            offset: AtomicI64::new(offset(wall)),
            reopen,
            due: Notify::new(),
        }
    }

    /// Has the file opened anew if it was moved.
    pub(super) fn reopen(&self) {
        self.reopen.store(true, Ordering::Relaxed);
    }

    /// Takes in the store's time of an answer that has just come.
    pub(super) fn learn(&self, at: StoreTime) {
        self.offset.store(offset(at), Ordering::Relaxed);
    }

    /// Returns the store's time, as of its last answer.
    pub(super) fn now(&self) -> StoreTime {
        let micros = i64::try_from(clock::now().as_micros()).unwrap_or(i64::MAX);
        StoreTime::from_micros(micros.saturating_add(self.offset.load(Ordering::Relaxed)))
    }

    /// Puts an event on its way.
    pub(super) fn put(&self, at: StoreTime, event: Event) {
        if !self.queue.put((at, event)) {
            self.counters.dropped.inc();
        }
    }

    /// Tells of the end of a hold for which `condition` holds, and forgets it.
    pub(super) fn end(
        &self,
        owner: &OwnerId,
        kind: EndKind,
        why: Why,
        condition: impl FnOnce(&Entry) -> bool,
    ) {
        let entry = self.ledger.remove_if(owner, condition);
        if let Some(entry) = entry.filter(Entry::is_granted) {
            self.put(self.now(), Event::Ended(entry.facts, kind, why));
        }
    }
}

/// Returns the microseconds from the coordinator's clock to the store's, if the store's time is this now.
fn offset(at: StoreTime) -> i64 {
    let micros = i64::try_from(clock::now().as_micros()).unwrap_or(i64::MAX);
    at.as_micros().saturating_sub(micros)
}

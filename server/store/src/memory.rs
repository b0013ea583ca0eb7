//! The embedded store: the rules of `leasehold-core` behind a mutex.

use std::{
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError},
    time::{SystemTime, UNIX_EPOCH},
};

use leasehold_core::{
    command::Command,
    deadlock::BlockedWait,
    name::{Invalid, LockName},
    table::LockTable,
    time::{Moment, StoreTime},
};
use tokio::sync::{mpsc, watch};

use crate::{
    clock,
    error::StoreError,
    redis::status::LinkStatus as Status,
    store::{Answer, LockStore, Observer, Page, Stamped, WakeUp},
};

/// Locks in memory, for one coordinator. A cheap handle; the locks go with the last one.
#[derive(Clone, Debug)]
pub struct MemoryStore {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    table: Mutex<LockTable>,
    /// The wall clock when the monotonic clock was at `started`: tokens go on rising over restarts, while a step of the
    /// wall clock shortens no lease.
    epoch: StoreTime,
    started: Moment,
    status: watch::Sender<Status>,
    observer: OnceLock<Observer>,
    /// Kept so that the receiver stays open: another coordinator's wake-ups can't happen here.
    _wake_ups: mpsc::Sender<WakeUp>,
}

impl MemoryStore {
    /// An empty store.
    pub fn open() -> (Self, mpsc::Receiver<WakeUp>) {
        let (wake_ups, receiver) = mpsc::channel(1);
        let wall = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        let inner = Inner {
            table: Mutex::default(),
            epoch: StoreTime::from_micros(i64::try_from(wall.as_micros()).unwrap_or(i64::MAX)),
            started: clock::now(),
            status: watch::Sender::new(Status::Up { epoch: 1 }),
            observer: OnceLock::new(),
            _wake_ups: wake_ups,
        };
        (
            Self {
                inner: Arc::new(inner),
            },
            receiver,
        )
    }

    fn table(&self) -> MutexGuard<'_, LockTable> {
        // Nothing panics while it is held; were it to, the table would still be whole, as `apply` replaces single fields.
        self.inner
            .table
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn tell(&self, name: &LockName, stamped: &Stamped) {
        if let Some(observer) = self.inner.observer.get() {
            observer.observe(name, stamped);
        }
    }

    fn run(&self, table: &mut LockTable, command: &Command) -> Stamped {
        let sent_at = clock::now();
        let now = self.inner.epoch.after(self.inner.started.until(sent_at));
        Stamped {
            executed: table.apply(command, now),
            sent_at,
        }
    }
}

impl LockStore for MemoryStore {
    fn send(&self, command: Command, answer: Answer) {
        let stamped = self.run(&mut self.table(), &command);
        self.tell(&command.name, &stamped);
        answer.give(Ok(stamped));
    }

    async fn list(
        &self,
        prefix: &str,
        token: &str,
        size: usize,
    ) -> Result<Result<Page, Invalid>, StoreError> {
        let now = self
            .inner
            .epoch
            .after(self.inner.started.until(clock::now()));
        let after = (!token.is_empty()).then_some(token);
        let mut names = self.table().names(prefix, after, now);
        let more = names.len() > size;
        names.truncate(size);
        let next = match names.last() {
            Some(last) if more => last.as_str().to_owned(),
            _ => String::new(),
        };
        Ok(Ok(Page { names, next }))
    }

    async fn exchange(&self, mine: Vec<BlockedWait>) -> Result<Vec<BlockedWait>, StoreError> {
        // There is no other coordinator.
        Ok(mine)
    }

    fn check_name(&self, _name: &LockName) -> Result<(), Invalid> {
        Ok(())
    }

    fn status(&self) -> watch::Receiver<Status> {
        self.inner.status.subscribe()
    }

    fn observe(&self, observer: Observer) {
        // Set once, when the coordinator starts.
        let _ = self.inner.observer.set(observer);
    }
}

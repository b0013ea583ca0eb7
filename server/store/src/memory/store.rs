//! Store in memory: the rules of `leasehold-core` behind a mutex.

use std::{
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError},
    time::{SystemTime, UNIX_EPOCH},
};

use futures_util::future::{BoxFuture, ready};
use leasehold_core::{
    command::{Command, Executed},
    deadlock::Publication,
    name::{Invalid, LockName},
    table::LockTable,
    time::{Moment, StoreTime},
};
use tokio::sync::{mpsc, watch};

use super::feeds::{self, Feeds};
use crate::{
    clock,
    feed::Feed,
    redis::status::LinkStatus as Status,
    store::{Answer, Exchanged, Listed, LockStore, Observer, Page, Stamped, WakeUp},
};

/// Locks in memory, for one coordinator.
#[derive(Debug)]
pub struct MemoryStore {
    inner: Arc<Inner>,
}

#[derive(Debug)]
pub(super) struct Inner {
    shelf: Mutex<Shelf>,
    /// The wall clock's time when the monotonic clock was at `started`: tokens rise over restarts, and a step of the wall
    /// clock shortens no lease.
    epoch: StoreTime,
    started: Moment,
    status: watch::Sender<Status>,
    observer: OnceLock<Observer>,
    /// Keeps the receiver open: no other coordinator sends wake-ups here.
    _wake_ups: mpsc::Sender<WakeUp>,
}

/// Locks, and the feeds of their changes.
#[derive(Debug, Default)]
pub(super) struct Shelf {
    table: LockTable,
    pub(super) feeds: Feeds,
}

impl Inner {
    pub(super) fn shelf(&self) -> MutexGuard<'_, Shelf> {
        // Nothing panics while it is held; even then the table would be consistent, because `apply` replaces single fields.
        self.shelf.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Shelf {
    fn run(&mut self, command: &Command, now: StoreTime) -> Executed {
        if !self.feeds.hear_of(command) {
            return self.table.apply(command, now);
        }
        let (executed, telling) = self.table.apply_and_tell(command, now);
        self.feeds.tell(command, now, telling);
        executed
    }
}

impl MemoryStore {
    /// Opens an empty store.
    pub fn open() -> (Self, mpsc::Receiver<WakeUp>) {
        let (wake_ups, receiver) = mpsc::channel(1);
        let wall = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        let inner = Inner {
            shelf: Mutex::default(),
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

    fn tell(&self, name: &LockName, stamped: &Stamped) {
        if let Some(observer) = self.inner.observer.get() {
            observer.observe(name, stamped);
        }
    }

    fn now(&self, moment: Moment) -> StoreTime {
        self.inner.epoch.after(self.inner.started.until(moment))
    }
}

impl LockStore for MemoryStore {
    fn send(&self, command: Command, answer: Answer) {
        let stamped = {
            let mut shelf = self.inner.shelf();
            // Read under the mutex, so that time only moves forward.
            let sent_at = clock::now();
            Stamped {
                executed: shelf.run(&command, self.now(sent_at)),
                sent_at,
            }
        };
        self.tell(&command.name, &stamped);
        answer.give(Ok(stamped));
    }

    fn list<'a>(&'a self, prefix: &'a str, token: &'a str, size: usize) -> BoxFuture<'a, Listed> {
        let now = self.now(clock::now());
        let after = (!token.is_empty()).then_some(token);
        let mut names = self.inner.shelf().table.names(prefix, after, now);
        let more = names.len() > size;
        names.truncate(size);
        let next = match names.last() {
            Some(last) if more => last.as_str().to_owned(),
            _ => String::new(),
        };
        Box::pin(ready(Ok(Ok(Page { names, next }))))
    }

    fn exchange(&self, mine: Arc<Publication>) -> BoxFuture<'_, Exchanged> {
        // There is no other coordinator.
        Box::pin(ready(Ok(vec![mine])))
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

    fn feed(&self) -> Feed {
        feeds::open(&self.inner)
    }
}

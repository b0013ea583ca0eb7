//! Store in memory: the rules of `leasehold-core` behind a mutex.

use std::{
    sync::{Arc, OnceLock},
    time::{SystemTime, UNIX_EPOCH},
};

use futures_util::future::{BoxFuture, ready};
use leasehold_core::{
    command::Command,
    deadlock::Publication,
    ended::EndChange,
    name::{Invalid, LockName},
    time::{Moment, StoreTime},
};
use tokio::sync::{mpsc, watch};

use super::feeds::{self, Shelf};
use crate::{
    clock,
    feed::Feed,
    redis::status::LinkStatus as Status,
    store::{Answer, EndedSessions, Exchanged, Listed, LockStore, Observer, Page, Stamped, WakeUp},
};

/// Locks in memory, for one coordinator.
#[derive(Debug)]
pub struct MemoryStore {
    shelf: Arc<Shelf>,
    /// The wall clock's time when the monotonic clock was at `started`: tokens rise over restarts, and a step of the wall
    /// clock shortens no lease.
    epoch: StoreTime,
    started: Moment,
    status: watch::Sender<Status>,
    observer: OnceLock<Observer>,
    /// Keeps the receiver open: no other coordinator sends wake-ups here.
    _wake_ups: mpsc::Sender<WakeUp>,
}

impl MemoryStore {
    /// Opens an empty store.
    pub fn open() -> (Self, mpsc::Receiver<WakeUp>) {
        let (wake_ups, receiver) = mpsc::channel(1);
        let wall = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        let store = Self {
            shelf: Arc::default(),
            epoch: StoreTime::from_micros(i64::try_from(wall.as_micros()).unwrap_or(i64::MAX)),
            started: clock::now(),
            status: watch::Sender::new(Status::Up { epoch: 1 }),
            observer: OnceLock::new(),
            _wake_ups: wake_ups,
        };
        (store, receiver)
    }

    fn now(&self, moment: Moment) -> StoreTime {
        self.epoch.after(self.started.until(moment))
    }
}

impl LockStore for MemoryStore {
    fn send(&self, command: Command, answer: Answer) {
        let stamped = {
            let mut shelf = self.shelf.lock();
            // Read under the mutex, so that time only moves forward.
            let sent_at = clock::now();
            Stamped {
                executed: shelf.run(&command, self.now(sent_at)),
                sent_at,
            }
        };
        if let Some(observer) = self.observer.get() {
            observer.observe(&command.name, &stamped);
        }
        answer.give(Ok(stamped));
    }

    fn list<'a>(&'a self, prefix: &'a str, token: &'a str, size: usize) -> BoxFuture<'a, Listed> {
        let now = self.now(clock::now());
        let after = (!token.is_empty()).then_some(token);
        let mut names = self.shelf.lock().table.names(prefix, after, now);
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

    fn ended_sessions(&self, change: Option<EndChange>) -> BoxFuture<'_, EndedSessions> {
        let now = self.now(clock::now());
        let marks = self.shelf.lock().ended.change(change, now);
        Box::pin(ready(Ok(marks)))
    }

    fn check_name(&self, _name: &LockName) -> Result<(), Invalid> {
        Ok(())
    }

    fn status(&self) -> watch::Receiver<Status> {
        self.status.subscribe()
    }

    fn observe(&self, observer: Observer) {
        // Set once, when the coordinator starts.
        let _ = self.observer.set(observer);
    }

    fn feed(&self) -> Feed {
        feeds::open(&self.shelf)
    }
}

//! Watchers of locks, each of which receives every event.

use std::{collections::VecDeque, future::poll_fn, sync::Arc, task::Poll};

use futures_util::task::AtomicWaker;
use leasehold_core::{
    name::LockName,
    planted::{Fault, is_planted},
    view::NameView,
    watch::Event,
};
use parking_lot::Mutex;
use tokio::sync::mpsc;

use super::signal::Signal;

/// Number of locks in one page of a snapshot.
pub(in crate::watch) const PAGE: usize = 64;

/// Messages that a watcher reads in a turn.
const IN_A_TURN: u32 = 8;

/// Message to a watcher.
#[derive(Clone, Debug)]
pub enum Message {
    /// A lock of the snapshot.
    Lock(LockName, Box<NameView>),
    /// The snapshot is complete; events follow.
    Ready {
        /// The number of its locks.
        lock_count: u64,
    },
    /// An event.
    Event(Arc<Event>),
    /// Events were left out for this reason; another snapshot follows.
    Gap(&'static str),
}

/// The hub's side of all watchers.
#[derive(Debug)]
pub(in crate::watch) struct Watchers {
    watchers: Vec<Told>,
    lined_up: LinedUp,
    last_id: u64,
    /// Most unread events of a watcher. One that is further behind receives a gap and a new snapshot.
    most_unread: usize,
    /// The channel by which watchers reach the hub.
    signals: mpsc::UnboundedSender<Signal>,
}

/// Watchers with unread messages that wait for their turn. Otherwise a thousand watchers of one event would be woken at once, and
/// all other tasks would wait behind them.
type LinedUp = Arc<Mutex<VecDeque<Arc<Queue>>>>;

/// The hub's side of one watcher.
#[derive(Debug)]
pub(in crate::watch) struct Told {
    id: u64,
    pub(in crate::watch) prefix: Arc<str>,
    pub(in crate::watch) stage: Stage,
    queue: Arc<Queue>,
    lined_up: LinedUp,
}

/// Progress of a watcher.
#[derive(Debug)]
pub(in crate::watch) enum Stage {
    /// Its prefix is not loaded yet.
    Loading,
    /// It has the snapshot up to and including this name. It needs no events of later names: the rest of the snapshot will
    /// include them.
    Snapshot { after: Option<LockName>, count: u64 },
    /// It receives every event.
    Live,
}

/// Unread messages of one watcher.
#[derive(Debug, Default)]
struct Queue {
    waiting: Mutex<Waiting>,
    /// Wakes the reader.
    reader: AtomicWaker,
}

#[derive(Debug, Default)]
struct Waiting {
    items: VecDeque<Message>,
    /// Whether more of the snapshot follows these messages.
    is_more: bool,
    /// Whether it waits for a turn, or has one until it has read all messages, or as many as one turn permits. A watcher that does
    /// not read keeps its turn, which costs no other watcher anything.
    place: Place,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Place {
    #[default]
    Nowhere,
    LinedUp,
    HasTurn,
}

impl Watchers {
    pub(in crate::watch) fn new(
        signals: mpsc::UnboundedSender<Signal>,
        most_unread: usize,
    ) -> Self {
        Self {
            watchers: Vec::new(),
            lined_up: LinedUp::default(),
            last_id: 0,
            most_unread,
            signals,
        }
    }

    /// Adds a watcher, and returns its own side.
    pub(in crate::watch) fn add(&mut self, prefix: Arc<str>) -> (u64, Watcher) {
        self.last_id += 1;
        let (id, queue) = (self.last_id, Arc::new(Queue::default()));
        self.watchers.push(Told {
            id,
            prefix,
            stage: Stage::Loading,
            queue: Arc::clone(&queue),
            lined_up: Arc::clone(&self.lined_up),
        });
        (
            id,
            Watcher {
                id,
                queue,
                signals: self.signals.clone(),
                left: IN_A_TURN,
            },
        )
    }

    /// Gives a turn to this share of those that wait for one, at least one.
    pub(in crate::watch) fn give_turns(&self, part: usize) {
        let mut lined_up = self.lined_up.lock();
        let number = lined_up.len().div_ceil(part);
        for queue in lined_up.drain(..number) {
            queue.waiting.lock().place = Place::HasTurn;
            queue.reader.wake();
        }
    }

    /// Returns whether any wait for a turn.
    pub(in crate::watch) fn are_lined_up(&self) -> bool {
        !self.lined_up.lock().is_empty()
    }

    /// Removes a watcher; returns its prefix if no other watches it.
    pub(in crate::watch) fn remove(&mut self, id: u64) -> Option<Arc<str>> {
        let at = self.watchers.iter().position(|told| told.id == id)?;
        let prefix = self.watchers.swap_remove(at).prefix;
        let is_last = !self.watchers.iter().any(|told| told.prefix == prefix);
        is_last.then_some(prefix)
    }

    pub(in crate::watch) fn len(&self) -> usize {
        self.watchers.len()
    }

    pub(in crate::watch) fn is_empty(&self) -> bool {
        self.watchers.is_empty()
    }

    /// Returns the watchers of a prefix that is not loaded yet.
    pub(in crate::watch) fn loading(&self, prefix: &str) -> Vec<u64> {
        let loading = self
            .watchers
            .iter()
            .filter(|told| &*told.prefix == prefix && matches!(told.stage, Stage::Loading));
        loading.map(|told| told.id).collect()
    }

    pub(in crate::watch) fn get(&mut self, id: u64) -> Option<&mut Told> {
        self.watchers.iter_mut().find(|told| told.id == id)
    }

    pub(in crate::watch) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Told> {
        self.watchers.iter_mut()
    }

    /// Delivers an event to the watchers that it concerns. Returns how many were too far behind.
    pub(in crate::watch) fn tell(&mut self, event: &Arc<Event>) -> u64 {
        let name = &event.name;
        let mut behind = 0;
        for told in &mut self.watchers {
            if !name.as_str().starts_with(&*told.prefix) {
                continue;
            }
            let is_known = match &told.stage {
                Stage::Loading => false,
                Stage::Snapshot { after, .. } => after.as_ref().is_some_and(|after| name <= after),
                Stage::Live => true,
            };
            if is_known
                && !told.push(Arc::clone(event), self.most_unread)
                && !is_planted(Fault::GapUntold)
            {
                told.gap("the watcher did not read in time");
                behind += 1;
            }
        }
        behind
    }
}

impl Told {
    /// Begins the snapshot. Returns true if the watcher can have the first page now; otherwise it asks when it has read its
    /// messages.
    pub(in crate::watch) fn begin_snapshot(&mut self) -> bool {
        self.stage = Stage::Snapshot {
            after: None,
            count: 0,
        };
        let mut waiting = self.queue.waiting.lock();
        waiting.is_more = !waiting.items.is_empty();
        !waiting.is_more
    }

    /// Delivers a page of the snapshot; `is_last` marks the last one. There is always room, because the watcher asks for a page
    /// when it has read all before.
    pub(in crate::watch) fn page(&mut self, locks: Vec<(LockName, NameView)>, is_last: bool) {
        let Stage::Snapshot { after, count } = &mut self.stage else {
            return;
        };
        *count += locks.len() as u64;
        if let Some((name, _)) = locks.last() {
            *after = Some(name.clone());
        }
        let ready = Message::Ready { lock_count: *count };
        let mut waiting = self.queue.waiting.lock();
        let locks = locks.into_iter();
        let locks = locks.map(|(name, view)| Message::Lock(name, Box::new(view)));
        waiting.items.extend(locks.chain(is_last.then_some(ready)));
        waiting.is_more = !is_last;
        drop(waiting);
        if is_last {
            self.stage = Stage::Live;
        }
        self.line_up();
    }

    /// Notes a gap: drops the unread events, and begins a snapshot when the watcher has read the gap.
    pub(in crate::watch) fn gap(&mut self, why: &'static str) {
        let mut waiting = self.queue.waiting.lock();
        waiting.items.clear();
        waiting.items.push_back(Message::Gap(why));
        waiting.is_more = true;
        drop(waiting);
        self.stage = Stage::Snapshot {
            after: None,
            count: 0,
        };
        self.line_up();
    }

    /// Notes a gap after which its prefix must be loaded again.
    pub(in crate::watch) fn start_over(&mut self, why: &'static str) {
        if !matches!(self.stage, Stage::Loading) {
            self.gap(why);
            self.queue.waiting.lock().is_more = false;
            self.stage = Stage::Loading;
        }
    }

    /// Adds an event; returns false if too many are unread.
    fn push(&self, event: Arc<Event>, most: usize) -> bool {
        let mut waiting = self.queue.waiting.lock();
        if waiting.items.len() >= most {
            return false;
        }
        waiting.items.push_back(Message::Event(event));
        drop(waiting);
        self.line_up();
        true
    }

    /// Lines the watcher up for a turn, unless it is already.
    pub(in crate::watch) fn line_up(&self) {
        let mut waiting = self.queue.waiting.lock();
        if waiting.place == Place::Nowhere {
            waiting.place = Place::LinedUp;
            drop(waiting);
            self.lined_up.lock().push_back(Arc::clone(&self.queue));
        }
    }
}

/// Messages of one watcher, in order. Dropping this ends them.
#[derive(Debug)]
pub struct Watcher {
    id: u64,
    queue: Arc<Queue>,
    signals: mpsc::UnboundedSender<Signal>,
    /// Number of messages left in this turn.
    left: u32,
}

impl Watcher {
    /// Waits for the watcher's turn, and returns the next message.
    ///
    /// # Cancel safety
    ///
    /// If it is cancelled, no message is lost.
    pub async fn next(&mut self) -> Message {
        poll_fn(|context| {
            // First, so that no message comes unseen in between.
            self.queue.reader.register(context.waker());
            let mut waiting = self.queue.waiting.lock();
            if waiting.items.is_empty() {
                if waiting.place == Place::HasTurn {
                    waiting.place = Place::Nowhere;
                    self.left = IN_A_TURN;
                }
                if std::mem::take(&mut waiting.is_more) {
                    // The hub is gone when the coordinator stops, and the stream with it.
                    let _ = self.signals.send(Signal::More { id: self.id });
                }
                return Poll::Pending;
            }
            if waiting.place != Place::HasTurn {
                return Poll::Pending;
            }
            self.left -= 1;
            if self.left == 0 {
                self.left = IN_A_TURN;
                waiting.place = Place::Nowhere;
                let _ = self.signals.send(Signal::Again { id: self.id });
            }
            waiting.items.pop_front().map_or(Poll::Pending, Poll::Ready)
        })
        .await
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        let _ = self.signals.send(Signal::Unwatch { id: self.id });
    }
}

#[cfg(test)]
mod tests;

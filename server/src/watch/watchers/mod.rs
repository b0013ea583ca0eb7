//! Watchers of locks, each of which receives every event.

use std::{
    collections::VecDeque,
    future::poll_fn,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::Poll,
};

use futures_util::task::AtomicWaker;
use leasehold_core::name::LockName;
use leasehold_proto::v1::{
    LockView, WatchGap, WatchLocksResponse, WatchReady, watch_locks_response::Response,
};
use tokio::sync::mpsc;

use super::hub::Request;

/// Most that waits for a watcher to read. One that is behind by more is told of a gap, and has a snapshot again.
const BEHIND: usize = 1024;
/// How much of a snapshot a watcher is given at a time.
pub(in crate::watch) const PAGE: usize = 64;

/// Messages that a watcher reads in a turn.
const IN_A_TURN: u32 = 8;

/// The hub's side of all watchers.
#[derive(Debug, Default)]
pub(in crate::watch) struct Watchers {
    watchers: Vec<Told>,
    lined_up: LinedUp,
    last_id: u64,
}

/// Those that have something to read and wait for their turn. A thousand watchers of one event would otherwise be woken at once,
/// and everybody else wait behind all of them.
type LinedUp = Arc<Mutex<VecDeque<Arc<Queue>>>>;

/// One of them.
#[derive(Debug)]
pub(in crate::watch) struct Told {
    id: u64,
    pub(in crate::watch) prefix: Arc<str>,
    pub(in crate::watch) stage: Stage,
    queue: Arc<Queue>,
    lined_up: LinedUp,
}

/// How far a watcher is.
#[derive(Debug)]
pub(in crate::watch) enum Stage {
    /// What it watches is not known yet.
    Loading,
    /// It has had the snapshot up to a name, itself included. Of the locks behind, it need not be told: the rest of the
    /// snapshot will have what became of them.
    Snapshot { after: Option<LockName>, count: u64 },
    /// It is told every event.
    Live,
}

/// What waits for one watcher.
#[derive(Debug, Default)]
struct Queue {
    waiting: Mutex<Waiting>,
    /// The one that reads.
    reader: AtomicWaker,
}

#[derive(Debug, Default)]
struct Waiting {
    items: VecDeque<Arc<WatchLocksResponse>>,
    /// There is more of the snapshot once this has been read.
    is_more: bool,
    /// It is among those that wait for their turn, or has it until it has read what there is, or as much as is of one turn. One that
    /// does not read keeps its turn, which costs nobody anything.
    place: Place,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Place {
    #[default]
    Nowhere,
    LinedUp,
    HasTurn,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Nothing panics while one is held.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Queue {
    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        locked(&self.waiting)
    }
}

impl Watchers {
    /// Adds one, and gives its own side.
    pub(in crate::watch) fn add(
        &mut self,
        prefix: Arc<str>,
        requests: mpsc::UnboundedSender<Request>,
    ) -> (u64, Watcher) {
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
                requests,
                left: IN_A_TURN,
            },
        )
    }

    /// Gives this part of those that wait for it their turn, one at least.
    pub(in crate::watch) fn give_turns(&self, part: usize) {
        let mut lined_up = locked(&self.lined_up);
        let number = lined_up.len().div_ceil(part);
        for queue in lined_up.drain(..number) {
            queue.waiting().place = Place::HasTurn;
            queue.reader.wake();
        }
    }

    /// Whether any wait for their turn.
    pub(in crate::watch) fn are_lined_up(&self) -> bool {
        !locked(&self.lined_up).is_empty()
    }

    /// Removes one; gives its prefix if nobody else watches that.
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

    /// Those of a prefix that is not known yet.
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

    /// Tells an event to everybody that it concerns. Gives how many were too far behind.
    pub(in crate::watch) fn tell(
        &mut self,
        name: &LockName,
        event: &Arc<WatchLocksResponse>,
    ) -> u64 {
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
            if is_known && !told.push(Arc::clone(event)) {
                told.gap("the watcher did not read in time");
                behind += 1;
            }
        }
        behind
    }
}

impl Told {
    /// Begins with the snapshot. True if it can have the first part now; otherwise it asks when it has read what waits.
    pub(in crate::watch) fn begin_snapshot(&mut self) -> bool {
        self.stage = Stage::Snapshot {
            after: None,
            count: 0,
        };
        let mut waiting = self.queue.waiting();
        waiting.is_more = !waiting.items.is_empty();
        !waiting.is_more
    }

    /// Gives it part of the snapshot; `is_last` is the end of it. There is always room: it is asked for when all before was
    /// read.
    pub(in crate::watch) fn page(&mut self, locks: Vec<(LockName, LockView)>, is_last: bool) {
        let Stage::Snapshot { after, count } = &mut self.stage else {
            return;
        };
        *count += locks.len() as u64;
        if let Some((name, _)) = locks.last() {
            *after = Some(name.clone());
        }
        let ready = Response::Ready(WatchReady { lock_count: *count });
        let mut waiting = self.queue.waiting();
        let locks = locks.into_iter().map(|(_, view)| Response::Lock(view));
        for response in locks.chain(is_last.then_some(ready)) {
            waiting.items.push_back(message(response));
        }
        waiting.is_more = !is_last;
        drop(waiting);
        if is_last {
            self.stage = Stage::Live;
        }
        self.line_up();
    }

    /// Events were missed: what waits is dropped, and a snapshot begins once it has read so.
    pub(in crate::watch) fn gap(&mut self, why: &str) {
        let gap = WatchGap {
            message: why.to_owned(),
        };
        let mut waiting = self.queue.waiting();
        waiting.items.clear();
        waiting.items.push_back(message(Response::Gap(gap)));
        waiting.is_more = true;
        drop(waiting);
        self.stage = Stage::Snapshot {
            after: None,
            count: 0,
        };
        self.line_up();
    }

    /// Events were missed, and what it watches is not known any more.
    pub(in crate::watch) fn start_over(&mut self, why: &str) {
        if !matches!(self.stage, Stage::Loading) {
            self.gap(why);
            self.queue.waiting().is_more = false;
            self.stage = Stage::Loading;
        }
    }

    /// False if too much waits already.
    fn push(&self, event: Arc<WatchLocksResponse>) -> bool {
        let mut waiting = self.queue.waiting();
        if waiting.items.len() >= BEHIND {
            return false;
        }
        waiting.items.push_back(event);
        drop(waiting);
        self.line_up();
        true
    }

    /// It has something to read, if it has not been lined up for it already.
    pub(in crate::watch) fn line_up(&self) {
        let mut waiting = self.queue.waiting();
        if waiting.place == Place::Nowhere {
            waiting.place = Place::LinedUp;
            drop(waiting);
            locked(&self.lined_up).push_back(Arc::clone(&self.queue));
        }
    }
}

pub(in crate::watch) fn message(response: Response) -> Arc<WatchLocksResponse> {
    Arc::new(WatchLocksResponse {
        response: Some(response),
    })
}

/// What a watcher is told, in order. It stops being told when this is dropped.
#[derive(Debug)]
pub struct Watcher {
    id: u64,
    queue: Arc<Queue>,
    requests: mpsc::UnboundedSender<Request>,
    /// How many messages more are of this turn.
    left: u32,
}

impl Watcher {
    /// The next message, when it has its turn.
    ///
    /// # Cancel safety
    ///
    /// A message is given or still there.
    pub async fn next(&mut self) -> Arc<WatchLocksResponse> {
        poll_fn(|context| {
            // First, so that nothing comes unseen in between.
            self.queue.reader.register(context.waker());
            let mut waiting = self.queue.waiting();
            if waiting.items.is_empty() {
                if waiting.place == Place::HasTurn {
                    waiting.place = Place::Nowhere;
                    self.left = IN_A_TURN;
                }
                if std::mem::take(&mut waiting.is_more) {
                    // The hub is gone when the coordinator stops, and the stream with it.
                    let _ = self.requests.send(Request::More { id: self.id });
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
                let _ = self.requests.send(Request::Again { id: self.id });
            }
            waiting.items.pop_front().map_or(Poll::Pending, Poll::Ready)
        })
        .await
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        let _ = self.requests.send(Request::Unwatch { id: self.id });
    }
}

#[cfg(test)]
mod tests;

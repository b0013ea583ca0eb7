//! Admission of acquires to the store. Bounds how many acquires each sender has in flight, so that a sender of thousands does not
//! make the others wait behind all of them.
//!
//! A sender is a session, or the unary calls of a connection. While the senders together want no more than there is room for, each
//! has as many acquires in flight as it likes; otherwise each has an equal part of the room. Further acquires wait with their
//! sender, where a cancel removes them at no cost.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use parking_lot::Mutex;
use tokio::sync::Semaphore;

/// Acquires in flight, of all senders together, beyond which a sender that has its share waits. They fill a call or two, which is
/// more than it takes to keep the store busy, and delay other senders by a few milliseconds.
const ROOM: usize = 64;
/// Acquires that each sender may have in flight whatever the others have. With a single one, each answer would be a message.
const LEAST: usize = 2;

/// Senders of acquires to one store. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct Admission {
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    /// Number of acquires in flight.
    under_way: AtomicUsize,
    /// Number of senders that have further acquires waiting.
    waiting: AtomicUsize,
}

/// One sender's share of the room.
#[derive(Debug)]
pub struct Share {
    admission: Admission,
    /// Number of acquires in flight.
    under_way: usize,
    /// Whether further ones wait.
    is_waiting: bool,
}

impl Admission {
    /// Returns the share of one more sender.
    #[must_use]
    pub fn share(&self) -> Share {
        Share {
            admission: self.clone(),
            under_way: 0,
            is_waiting: false,
        }
    }
}

impl Share {
    /// Returns whether another acquire may be sent now: then the sender calls [`start`](Self::start). A sender with fewer than two
    /// always may.
    #[must_use]
    pub fn has_room(&self) -> bool {
        if self.under_way < LEAST {
            return true;
        }
        let shared = &self.admission.shared;
        let waiting = shared.waiting.load(Ordering::Relaxed);
        self.under_way < ROOM / waiting.max(1) && shared.under_way.load(Ordering::Relaxed) < ROOM
    }

    /// Counts an acquire that is sent.
    pub fn start(&mut self) {
        self.under_way += 1;
        self.admission
            .shared
            .under_way
            .fetch_add(1, Ordering::Relaxed);
    }

    /// Counts an acquire that was answered, if only with its place in the lock's queue.
    pub fn finish(&mut self) {
        debug_assert!(self.under_way > 0, "more finished than started");
        self.under_way -= 1;
        self.admission
            .shared
            .under_way
            .fetch_sub(1, Ordering::Relaxed);
    }

    /// Notes whether further acquires wait. While one does, at least one is in flight, and its answer is the next chance.
    pub fn set_waiting(&mut self, is_waiting: bool) {
        if is_waiting == std::mem::replace(&mut self.is_waiting, is_waiting) {
            return;
        }
        let waiting = &self.admission.shared.waiting;
        if is_waiting {
            waiting.fetch_add(1, Ordering::Relaxed);
        } else {
            waiting.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.set_waiting(false);
        // What was let go of is not counted any more, wherever it is.
        let shared = &self.admission.shared;
        shared
            .under_way
            .fetch_sub(self.under_way, Ordering::Relaxed);
    }
}

/// Queue of the unary calls of a connection, which have one share together.
#[derive(Debug)]
pub struct CallQueue {
    state: Mutex<State>,
    /// Permits that were given and not taken yet. Calls take them in the order in which they came.
    given: Semaphore,
}

#[derive(Debug)]
struct State {
    share: Share,
    /// Number of calls that have not taken a permit.
    waiting: usize,
    /// Number of permits that were given to them.
    given: usize,
}

/// Call that has not taken its permit. Dropping it leaves the queue.
#[derive(Debug)]
struct Waiting<'a> {
    queue: &'a CallQueue,
    has_permit: bool,
}

/// Permission to have one acquire in flight, until it is dropped.
#[derive(Debug)]
pub struct Permit(Arc<CallQueue>);

impl CallQueue {
    /// Returns an empty queue with this share.
    #[must_use]
    pub fn new(share: Share) -> Self {
        Self {
            state: Mutex::new(State {
                share,
                waiting: 0,
                given: 0,
            }),
            given: Semaphore::new(0),
        }
    }

    /// Waits for a permit.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves the queue.
    pub async fn permit(self: &Arc<Self>) -> Permit {
        self.update(|state| state.waiting += 1);
        let mut waiting = Waiting {
            queue: self,
            has_permit: false,
        };
        // The semaphore is never closed.
        if let Ok(permit) = self.given.acquire().await {
            permit.forget();
        }
        waiting.has_permit = true;
        Permit(Arc::clone(self))
    }

    /// Changes the state, and gives a permit to each waiting call for which there is room then.
    fn update(&self, change: impl FnOnce(&mut State)) {
        let mut state = self.state.lock();
        change(&mut state);
        while state.given < state.waiting && state.share.has_room() {
            state.share.start();
            state.given += 1;
            self.given.add_permits(1);
        }
        let is_waiting = state.given < state.waiting;
        state.share.set_waiting(is_waiting);
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.queue.update(|state| {
            state.waiting -= 1;
            if self.has_permit {
                state.given -= 1;
            } else if state.given > state.waiting
                && let Ok(permit) = self.queue.given.try_acquire()
            {
                // The call was given up after it was given a permit, which nobody else waits for.
                permit.forget();
                state.given -= 1;
                state.share.finish();
            }
        });
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.0.update(|state| state.share.finish());
    }
}

#[cfg(test)]
mod tests {
    use futures_util::{FutureExt, future::join_all};

    use super::*;

    /// Sends as long as there is room.
    fn send(share: &mut Share) -> usize {
        let mut sent = 0;
        while share.has_room() {
            share.start();
            sent += 1;
        }
        share.set_waiting(true);
        sent
    }

    fn counted(admission: &Admission) -> (usize, usize) {
        let shared = &admission.shared;
        (
            shared.under_way.load(Ordering::Relaxed),
            shared.waiting.load(Ordering::Relaxed),
        )
    }

    #[test]
    fn senders_that_want_more_than_the_room_share_it() {
        let admission = Admission::default();
        let mut first = admission.share();
        assert_eq!(send(&mut first), ROOM);
        let mut second = admission.share();
        assert_eq!(send(&mut second), LEAST, "each has so many in any case");
        for _ in 0..ROOM / 2 {
            first.finish();
            assert!(!first.has_room(), "half of the room is the other's now");
        }
        assert_eq!(send(&mut second), ROOM / 2 - LEAST);
        first.finish();
        assert!(first.has_room());
        drop(second);
        assert_eq!(counted(&admission), (ROOM / 2 - 1, 1));
        assert_eq!(send(&mut first), ROOM / 2 + 1);
        drop(first);
        assert_eq!(counted(&admission), (0, 0));
    }

    #[test]
    fn everybody_may_have_some_however_many_there_are() {
        let admission = Admission::default();
        let mut shares: Vec<Share> = (0..10 * ROOM).map(|_| admission.share()).collect();
        let sent: Vec<usize> = shares.iter_mut().map(send).collect();
        assert!(sent[1..].iter().all(|sent| *sent == LEAST));
    }

    #[tokio::test]
    async fn calls_get_permits_in_order_and_those_given_up_are_passed_over() {
        let admission = Admission::default();
        let queue = Arc::new(CallQueue::new(admission.share()));
        let permits = join_all((0..ROOM).map(|_| queue.permit())).await;
        let mut second = Box::pin(queue.permit());
        let mut third = Box::pin(queue.permit());
        let mut fourth = Box::pin(queue.permit());
        for waiting in [&mut second, &mut third, &mut fourth] {
            assert!(waiting.now_or_never().is_none());
        }
        drop(second);
        let mut permits = permits.into_iter();
        drop(permits.next());
        assert!(
            (&mut fourth).now_or_never().is_none(),
            "the third is before"
        );
        // It got its permit, and never knew.
        drop(third);
        drop(fourth.await);
        drop(permits);
        assert_eq!(counted(&admission), (0, 0));
        assert_eq!(queue.state.lock().waiting, 0);
        assert_eq!(queue.given.available_permits(), 0);
    }

    #[tokio::test]
    async fn calls_given_up_leave_the_queue_wherever_they_are_in_it() {
        let admission = Admission::default();
        let queue = Arc::new(CallQueue::new(admission.share()));
        let permits = join_all((0..ROOM).map(|_| queue.permit())).await;
        let wait = || {
            let mut waiting = Box::pin(queue.permit());
            assert!((&mut waiting).now_or_never().is_none());
            waiting
        };
        let first = wait();
        let mut last = Vec::new();
        for _ in 0..1000 {
            drop(wait());
            last.push(wait());
            assert_eq!(queue.state.lock().waiting, last.len() + 1);
        }
        last.truncate(3);
        assert_eq!(queue.state.lock().waiting, 4);
        drop(permits);
        assert_eq!(join_all(last).await.len(), 3);
        drop(first);
        assert_eq!(counted(&admission), (0, 0));

        let permits = join_all((0..ROOM).map(|_| queue.permit())).await;
        drop([wait(), wait()]);
        assert_eq!(counted(&admission), (ROOM, 0), "nobody waits any more");
        drop(permits);
    }
}

//! Admission of acquires to the store. Bounds how many acquires each sender has in flight, so that a sender of thousands does not
//! make the others wait behind all of them.
//!
//! A sender is a session, or the unary calls of a connection. While the senders together want no more than there is room for, each
//! has as many acquires in flight as it likes; otherwise each has an equal part of the room. Further acquires wait with their
//! sender, where a cancel removes them at no cost.

use std::{
    collections::VecDeque,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use parking_lot::Mutex;
use tokio::sync::oneshot;

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
}

#[derive(Debug)]
struct State {
    share: Share,
    waiting: VecDeque<oneshot::Sender<Permit>>,
    /// Number of those that were given up. One that gets its permit while it is given up may count.
    given_up: usize,
}

/// Call that waits in a queue. Dropping it before it has its permit gives it up.
#[derive(Debug)]
struct Waiting<'a> {
    queue: &'a CallQueue,
    given: oneshot::Receiver<Permit>,
    is_given: bool,
}

/// Permission to have one acquire in flight, until it is dropped.
#[derive(Debug)]
pub struct Permit {
    queue: Option<Arc<CallQueue>>,
}

impl CallQueue {
    /// Returns an empty queue with this share.
    #[must_use]
    pub fn new(share: Share) -> Self {
        Self {
            state: Mutex::new(State {
                share,
                waiting: VecDeque::new(),
                given_up: 0,
            }),
        }
    }

    /// Waits for a permit.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves the queue.
    pub async fn permit(self: &Arc<Self>) -> Permit {
        let (permit, given) = oneshot::channel();
        {
            let mut state = self.state.lock();
            if state.waiting.is_empty() && state.share.has_room() {
                state.share.start();
                return self.own();
            }
            state.waiting.push_back(permit);
            state.share.set_waiting(true);
        }
        let mut waiting = Waiting {
            queue: self,
            given,
            is_given: false,
        };
        let given = (&mut waiting.given).await;
        waiting.is_given = true;
        // It is given before the queue is gone.
        given.unwrap_or(Permit { queue: None })
    }

    /// Counts a call that was given up. Such calls are removed when they are most of the queue, so that they never take more memory
    /// than the others, and each costs little.
    fn given_up(&self) {
        let mut state = self.state.lock();
        state.given_up += 1;
        if state.given_up <= state.waiting.len() / 2 {
            return;
        }
        state.waiting.retain(|waiting| !waiting.is_closed());
        state.given_up = 0;
        let is_waiting = !state.waiting.is_empty();
        state.share.set_waiting(is_waiting);
    }

    fn own(self: &Arc<Self>) -> Permit {
        Permit {
            queue: Some(Arc::clone(self)),
        }
    }

    fn ended(self: &Arc<Self>) {
        let mut next = {
            let mut state = self.state.lock();
            state.share.finish();
            self.next(&mut state)
        };
        // Not while it is locked: one that nobody waits for any more comes back at once.
        while let Some((waiting, permit)) = next {
            drop(waiting.send(permit));
            next = self.next(&mut self.state.lock());
        }
    }

    fn next(self: &Arc<Self>, state: &mut State) -> Option<(oneshot::Sender<Permit>, Permit)> {
        // Calls that were given up get no permit.
        while state
            .waiting
            .front()
            .is_some_and(oneshot::Sender::is_closed)
        {
            state.waiting.pop_front();
            state.given_up = state.given_up.saturating_sub(1);
        }
        let next = if state.share.has_room() {
            state.waiting.pop_front()
        } else {
            None
        };
        if next.is_some() {
            state.share.start();
        }
        let is_waiting = !state.waiting.is_empty();
        state.share.set_waiting(is_waiting);
        Some((next?, self.own()))
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        if self.is_given {
            return;
        }
        self.given.close();
        // One that got its permit and never knew has left the queue.
        if self.given.try_recv().is_err() {
            self.queue.given_up();
        }
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        if let Some(queue) = self.queue.take() {
            queue.ended();
        }
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
        assert!(queue.state.lock().waiting.is_empty());
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
            let waiting = queue.state.lock().waiting.len();
            assert!(waiting <= 2 * last.len() + 2, "{waiting}");
        }
        last.truncate(3);
        assert!(queue.state.lock().waiting.len() <= 8);
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

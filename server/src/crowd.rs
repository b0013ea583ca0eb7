//! The way to the store is shared: who has how many acquires on it at a time.
//!
//! Nobody overtakes on that way, so whoever sends thousands at once would have everybody else wait behind all of them. A session,
//! or the unary calls of a connection, has a share instead: as much as it likes while nobody else wants more than has room, and an
//! equal part of the room otherwise. What is beyond waits for its turn where it came from, and holds up nobody but its sender.

use std::{
    collections::VecDeque,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
};

use tokio::sync::oneshot;

/// Acquires on their way, of all together, beyond which whoever has some there waits: a call or two full, more than it takes to
/// keep the store busy, and for everybody else a wait of a few milliseconds.
const ROOM: usize = 64;
/// How many each may have on the way whatever the others have: with a single one, each answer would be a message of its own.
const LEAST: usize = 2;

/// Everybody who sends acquires to one store. Clones are one crowd.
#[derive(Clone, Debug, Default)]
pub struct Crowd {
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    /// Number of acquires on their way.
    under_way: AtomicUsize,
    /// Number of senders whose further acquires wait for their turn.
    waiting: AtomicUsize,
}

/// One sender's part of the way.
#[derive(Debug)]
pub struct Share {
    crowd: Crowd,
    /// Number of acquires on their way.
    under_way: usize,
    /// Whether others wait for their turn.
    is_waiting: bool,
}

impl Crowd {
    /// The share of one more sender.
    #[must_use]
    pub fn share(&self) -> Share {
        Share {
            crowd: self.clone(),
            under_way: 0,
            is_waiting: false,
        }
    }
}

impl Share {
    /// Whether another may be sent now; [`went`](Self::went) is to follow if it is. Two always may.
    #[must_use]
    pub fn has_room(&self) -> bool {
        if self.under_way < LEAST {
            return true;
        }
        let shared = &self.crowd.shared;
        let waiting = shared.waiting.load(Ordering::Relaxed);
        self.under_way < ROOM / waiting.max(1) && shared.under_way.load(Ordering::Relaxed) < ROOM
    }

    /// One was sent.
    pub fn went(&mut self) {
        self.under_way += 1;
        self.crowd.shared.under_way.fetch_add(1, Ordering::Relaxed);
    }

    /// One was answered, if only with its place in the queue.
    pub fn came_back(&mut self) {
        debug_assert!(self.under_way > 0, "more came back than went");
        self.under_way -= 1;
        self.crowd.shared.under_way.fetch_sub(1, Ordering::Relaxed);
    }

    /// Notes whether any wait for their turn. As long as one does, one at least is under way, whose end is the next chance.
    pub fn set_waiting(&mut self, is_waiting: bool) {
        if is_waiting == std::mem::replace(&mut self.is_waiting, is_waiting) {
            return;
        }
        let waiting = &self.crowd.shared.waiting;
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
        let shared = &self.crowd.shared;
        shared
            .under_way
            .fetch_sub(self.under_way, Ordering::Relaxed);
    }
}

/// Several who have a share together, in the order in which they come: the unary calls of a connection.
#[derive(Debug)]
pub struct Line {
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    share: Share,
    waiting: VecDeque<oneshot::Sender<Turn>>,
    /// How many of those were given up, or nearly: one that is given its turn as it is given up may count.
    given_up: usize,
}

/// One that waits in a line. Dropped before it was given its turn, it was given up.
#[derive(Debug)]
struct Waiting<'a> {
    line: &'a Line,
    given: oneshot::Receiver<Turn>,
    is_given: bool,
}

/// The right to have one acquire under way. It ends when this is dropped.
#[derive(Debug)]
pub struct Turn {
    line: Option<Arc<Line>>,
}

impl Line {
    /// One that shares this.
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

    /// Waits for a turn. May be dropped at any point.
    pub async fn turn(self: &Arc<Self>) -> Turn {
        let (turn, given) = oneshot::channel();
        {
            let mut state = self.state();
            if state.waiting.is_empty() && state.share.has_room() {
                state.share.went();
                return self.own();
            }
            state.waiting.push_back(turn);
            state.share.set_waiting(true);
        }
        let mut waiting = Waiting {
            line: self,
            given,
            is_given: false,
        };
        let given = (&mut waiting.given).await;
        waiting.is_given = true;
        // It is given before the line is gone.
        given.unwrap_or(Turn { line: None })
    }

    /// One that waits was given up. They leave when they are most of those who wait, so that what is kept of them is never more
    /// than what is kept of others, and each costs little.
    fn given_up(&self) {
        let mut state = self.state();
        state.given_up += 1;
        if state.given_up <= state.waiting.len() / 2 {
            return;
        }
        state.waiting.retain(|waiting| !waiting.is_closed());
        state.given_up = 0;
        let is_waiting = !state.waiting.is_empty();
        state.share.set_waiting(is_waiting);
    }

    fn own(self: &Arc<Self>) -> Turn {
        Turn {
            line: Some(Arc::clone(self)),
        }
    }

    fn ended(self: &Arc<Self>) {
        let mut next = {
            let mut state = self.state();
            state.share.came_back();
            self.next(&mut state)
        };
        // Not while it is locked: one that nobody waits for any more comes back at once.
        while let Some((waiting, turn)) = next {
            drop(waiting.send(turn));
            next = self.next(&mut self.state());
        }
    }

    fn next(self: &Arc<Self>, state: &mut State) -> Option<(oneshot::Sender<Turn>, Turn)> {
        // Those that were given up are nobody's turn.
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
            state.share.went();
        }
        let is_waiting = !state.waiting.is_empty();
        state.share.set_waiting(is_waiting);
        Some((next?, self.own()))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Nothing panics while it is held.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        if self.is_given {
            return;
        }
        self.given.close();
        // One that was given its turn and never knew is not in line any more.
        if self.given.try_recv().is_err() {
            self.line.given_up();
        }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        if let Some(line) = self.line.take() {
            line.ended();
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
            share.went();
            sent += 1;
        }
        share.set_waiting(true);
        sent
    }

    fn counted(crowd: &Crowd) -> (usize, usize) {
        let shared = &crowd.shared;
        (
            shared.under_way.load(Ordering::Relaxed),
            shared.waiting.load(Ordering::Relaxed),
        )
    }

    #[test]
    fn those_who_want_more_than_there_is_room_for_share_it() {
        let crowd = Crowd::default();
        let mut first = crowd.share();
        assert_eq!(send(&mut first), ROOM);
        let mut second = crowd.share();
        assert_eq!(send(&mut second), LEAST, "so many always may");
        for _ in 0..ROOM / 2 {
            first.came_back();
            assert!(!first.has_room(), "half of the room is the other's now");
        }
        assert_eq!(send(&mut second), ROOM / 2 - LEAST);
        first.came_back();
        assert!(first.has_room());
        drop(second);
        assert_eq!(counted(&crowd), (ROOM / 2 - 1, 1));
        assert_eq!(send(&mut first), ROOM / 2 + 1);
        drop(first);
        assert_eq!(counted(&crowd), (0, 0));
    }

    #[test]
    fn everybody_may_have_some_however_many_there_are() {
        let crowd = Crowd::default();
        let mut shares: Vec<Share> = (0..10 * ROOM).map(|_| crowd.share()).collect();
        let sent: Vec<usize> = shares.iter_mut().map(send).collect();
        assert!(sent[1..].iter().all(|sent| *sent == LEAST));
    }

    #[tokio::test]
    async fn calls_have_their_turns_in_order_and_those_given_up_are_passed_over() {
        let crowd = Crowd::default();
        let line = Arc::new(Line::new(crowd.share()));
        let turns = join_all((0..ROOM).map(|_| line.turn())).await;
        let mut second = Box::pin(line.turn());
        let mut third = Box::pin(line.turn());
        let mut fourth = Box::pin(line.turn());
        for waiting in [&mut second, &mut third, &mut fourth] {
            assert!(waiting.now_or_never().is_none());
        }
        drop(second);
        let mut turns = turns.into_iter();
        drop(turns.next());
        assert!(
            (&mut fourth).now_or_never().is_none(),
            "the third is before"
        );
        // It was given its turn, and never knew.
        drop(third);
        drop(fourth.await);
        drop(turns);
        assert_eq!(counted(&crowd), (0, 0));
        assert!(line.state().waiting.is_empty());
    }

    #[tokio::test]
    async fn those_given_up_leave_the_line_wherever_they_are_in_it() {
        let crowd = Crowd::default();
        let line = Arc::new(Line::new(crowd.share()));
        let turns = join_all((0..ROOM).map(|_| line.turn())).await;
        let wait = || {
            let mut waiting = Box::pin(line.turn());
            assert!((&mut waiting).now_or_never().is_none());
            waiting
        };
        let first = wait();
        let mut last = Vec::new();
        for _ in 0..1000 {
            drop(wait());
            last.push(wait());
            let waiting = line.state().waiting.len();
            assert!(waiting <= 2 * last.len() + 2, "{waiting}");
        }
        last.truncate(3);
        assert!(line.state().waiting.len() <= 8);
        drop(turns);
        assert_eq!(join_all(last).await.len(), 3);
        drop(first);
        assert_eq!(counted(&crowd), (0, 0));

        let turns = join_all((0..ROOM).map(|_| line.turn())).await;
        drop([wait(), wait()]);
        assert_eq!(counted(&crowd), (ROOM, 0), "nobody waits any more");
        drop(turns);
    }
}

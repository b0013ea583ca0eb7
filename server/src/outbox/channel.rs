//! Channel of answers from a session to the stream that tonic sends from. It takes next to no memory while it is empty, because most
//! of ten thousand sessions are idle: tokio's has a block of 32 slots from the beginning, which is 7 KiB of answers.

use std::{
    collections::VecDeque,
    fmt,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use futures_util::{Stream, task::AtomicWaker};
use parking_lot::Mutex;
use tokio::task::coop;

use crate::convert::session::Answer;

/// Number of answers for which an empty channel keeps memory.
const KEPT: usize = 4;

/// Makes a channel with room for so many answers.
pub fn channel(room: usize) -> (Sender, Receiver) {
    let shared = Arc::new(Shared {
        room,
        state: Mutex::default(),
        room_waker: AtomicWaker::new(),
        answer_waker: AtomicWaker::new(),
    });
    let sender = Sender(Arc::clone(&shared));
    (sender, Receiver(shared))
}

struct Shared {
    room: usize,
    state: Mutex<State>,
    /// Of the sender, which waits for room or the end. Each is registered while the state is locked, so that no change is missed.
    room_waker: AtomicWaker,
    /// Of the receiver, which waits for an answer or the end.
    answer_waker: AtomicWaker,
}

#[derive(Default)]
struct State {
    answers: VecDeque<Answer>,
    /// Nothing more is offered.
    is_over: bool,
    /// Nothing more is taken.
    is_gone: bool,
}

/// A session's end. When it is dropped, the stream ends after what was accepted.
pub struct Sender(Arc<Shared>);

impl Sender {
    /// Offers an answer. Returns it if there is no room for it. One that nobody will take is dropped.
    #[must_use]
    pub fn offer(&self, answer: Answer) -> Option<Answer> {
        let mut state = self.0.state.lock();
        if state.is_gone {
            return None;
        }
        if state.answers.len() >= self.0.room {
            return Some(answer);
        }
        state.answers.push_back(answer);
        drop(state);
        self.0.answer_waker.wake();
        None
    }

    /// Returns the number of answers that were accepted and are not taken; 0 if nobody will take them.
    pub fn untaken(&self) -> usize {
        self.0.state.lock().answers.len()
    }

    /// Waits until there is room. Returns false if nobody takes answers any more. Only one task may wait; it may give up at any point.
    pub async fn has_room(&self) -> bool {
        std::future::poll_fn(|context| {
            let coop = ready!(coop::poll_proceed(context));
            let state = self.0.state.lock();
            if !state.is_gone && state.answers.len() >= self.0.room {
                self.0.room_waker.register(context.waker());
                return Poll::Pending;
            }
            coop.made_progress();
            Poll::Ready(!state.is_gone)
        })
        .await
    }
}

impl Drop for Sender {
    fn drop(&mut self) {
        self.0.state.lock().is_over = true;
        self.0.answer_waker.wake();
    }
}

impl fmt::Debug for Sender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sender")
            .field("untaken", &self.untaken())
            .finish_non_exhaustive()
    }
}

/// A stream's end: what it sends.
pub struct Receiver(Arc<Shared>);

impl Stream for Receiver {
    type Item = Answer;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Answer>> {
        let coop = ready!(coop::poll_proceed(context));
        let shared = &self.0;
        let mut state = shared.state.lock();
        let Some(answer) = state.answers.pop_front() else {
            if state.is_over {
                return Poll::Ready(None);
            }
            shared.answer_waker.register(context.waker());
            return Poll::Pending;
        };
        let was_full = state.answers.len() + 1 == shared.room;
        // Memory that a burst needed is freed.
        if state.answers.is_empty() && state.answers.capacity() > KEPT {
            state.answers.shrink_to(KEPT);
        }
        drop(state);
        if was_full {
            shared.room_waker.wake();
        }
        coop.made_progress();
        Poll::Ready(Some(answer))
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        let mut state = self.0.state.lock();
        state.is_gone = true;
        let unread = std::mem::take(&mut state.answers);
        drop(state);
        drop(unread);
        self.0.room_waker.wake();
    }
}

impl fmt::Debug for Receiver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Receiver").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use futures_util::{FutureExt, StreamExt};
    use leasehold_proto::v1::SessionResponse;

    use super::*;

    const ROOM: usize = 8;

    fn answer(request_id: u64) -> Answer {
        let response = None;
        Ok(SessionResponse {
            request_id,
            response,
        })
    }

    fn fill(sender: &Sender) {
        for id in 0..ROOM as u64 {
            assert!(sender.offer(answer(id)).is_none());
        }
        assert!(sender.offer(answer(99)).is_some());
        assert_eq!(sender.untaken(), ROOM);
    }

    #[tokio::test]
    async fn answers_are_taken_in_their_order_and_then_the_stream_ends() {
        let (sender, answers) = channel(ROOM);
        let taken = tokio::spawn(answers.map(|it| it.ok().map(|it| it.request_id)).collect());
        for id in 0..100 * ROOM as u64 {
            assert!(sender.has_room().await);
            assert!(sender.offer(answer(id)).is_none());
        }
        drop(sender);
        let taken: Vec<_> = taken.await.unwrap_or_default();
        let offered: Vec<_> = (0..100 * ROOM as u64).map(Some).collect();
        assert_eq!(taken, offered);
    }

    #[tokio::test]
    async fn who_waits_for_room_goes_on_when_one_is_taken_or_nobody_takes_any() {
        let (sender, mut answers) = channel(ROOM);
        fill(&sender);
        assert_eq!(sender.has_room().now_or_never(), None);
        let sender = Arc::new(sender);
        let waiting = |sender: &Arc<Sender>| {
            let sender = Arc::clone(sender);
            tokio::spawn(async move { sender.has_room().await })
        };
        let waits = waiting(&sender);
        tokio::task::yield_now().await;
        assert!(answers.next().await.is_some());
        assert!(matches!(waits.await, Ok(true)));
        assert!(sender.offer(answer(8)).is_none());
        let waits = waiting(&sender);
        tokio::task::yield_now().await;
        drop(answers);
        assert!(matches!(waits.await, Ok(false)));
        assert!(sender.offer(answer(9)).is_none());
        assert_eq!(sender.untaken(), 0);
    }

    #[tokio::test]
    async fn an_empty_one_keeps_next_to_no_memory() {
        let (sender, mut answers) = channel(ROOM);
        assert_eq!(sender.0.state.lock().answers.capacity(), 0);
        fill(&sender);
        for _ in 0..ROOM {
            assert!(answers.next().await.is_some());
        }
        assert!(sender.0.state.lock().answers.capacity() <= KEPT);
        assert!(answers.next().now_or_never().is_none());
    }
}

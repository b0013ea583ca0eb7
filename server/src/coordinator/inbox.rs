//! Inbox of a session for events of the store and of other sessions. Takes next to no memory while it is empty,
//! because most of ten thousand sessions are idle.

use std::{
    fmt,
    future::poll_fn,
    sync::{Mutex, MutexGuard, PoisonError},
    task::Poll,
};

use futures_util::task::AtomicWaker;
use leasehold_proto::v1::SessionQueued;
use leasehold_store::{Answers, Stamped, StoreError};

use super::registry::Taken;

/// What there is to hear.
#[derive(Debug)]
pub enum News {
    /// The store has answered the command of this number.
    Answered(u64, Result<Stamped, StoreError>),
    /// The acquire of this request id, for several names, has to wait.
    Queued(u64, SessionQueued),
    /// A hold was taken.
    Taken(Taken),
}

/// The queue of one session. At most one answer for each command in flight and one loss for each hold are in it, so it is
/// bounded by what the session may have.
#[derive(Default)]
pub struct Inbox {
    news: Mutex<Vec<News>>,
    reader: AtomicWaker,
}

impl Inbox {
    /// Puts something in. Nobody may be left to hear it.
    pub fn put(&self, news: News) {
        self.news().push(news);
        self.reader.wake();
    }

    /// Waits until there is something. Only one task may; it may give up at any point.
    pub async fn arrived(&self) {
        poll_fn(|context| {
            // Before looking, so that what comes in between is not missed.
            self.reader.register(context.waker());
            if self.news().is_empty() {
                Poll::Pending
            } else {
                Poll::Ready(())
            }
        })
        .await;
    }

    /// Takes everything out, the oldest first, and puts in the memory of `taken`, which must be empty, for what comes next.
    pub fn take(&self, taken: &mut Vec<News>) {
        debug_assert!(taken.is_empty());
        std::mem::swap(&mut *self.news(), taken);
    }

    fn news(&self) -> MutexGuard<'_, Vec<News>> {
        // A panic elsewhere can't leave it torn: each use is a push, a look or a swap.
        self.news.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Answers for Inbox {
    fn answered(&self, number: u64, result: Result<Stamped, StoreError>) {
        self.put(News::Answered(number, result));
    }
}

impl fmt::Debug for Inbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Inbox")
            .field("news", &self.news().len())
            .finish_non_exhaustive()
    }
}

//! Inbox of a session for events of the store and of other sessions. Takes next to no memory while it is empty,
//! because most of ten thousand sessions are idle.

use std::{fmt, future::poll_fn, sync::Arc, task::Poll};

use futures_util::task::AtomicWaker;
use leasehold_core::{
    command::ReleaseRequest,
    id::{FencingToken, OwnerId},
    session::{CommandId, RegistryEvent},
};
use leasehold_store::{Answers, Stamped, StoreError};
use parking_lot::Mutex;

use super::end_order::EndOrder;

/// Something for a session.
#[derive(Debug)]
pub enum InboxEvent {
    /// The store has answered a command.
    Answered(CommandId, Result<Stamped, StoreError>),
    /// Something happened to an owner id of the session's.
    Registry(OwnerId, RegistryEvent),
    /// An operator has ended this session, or one from which it has resumed something.
    EndedByOperator(Arc<EndOrder>),
    /// An operator asks the session's client to release the hold that has this token.
    ReleaseRequested(OwnerId, FencingToken, Arc<ReleaseRequest>),
}

/// The queue of one session. At most one answer for each command in flight, one loss and one request to release for each hold, and
/// one end for each session that it has resumed something from are in it, so it is bounded by what the session may have.
#[derive(Default)]
pub struct Inbox {
    events: Mutex<Vec<InboxEvent>>,
    reader: AtomicWaker,
}

impl Inbox {
    /// Puts something in. Nobody may be left to hear it.
    pub fn put(&self, event: InboxEvent) {
        self.events.lock().push(event);
        self.reader.wake();
    }

    /// Puts in a request to release a hold, in the place of an earlier one that was not taken out yet; one for a grant before that
    /// one's is dropped.
    pub fn ask(&self, owner: OwnerId, token: FencingToken, request: Arc<ReleaseRequest>) {
        let mut events = self.events.lock();
        let earlier = events.iter_mut().find_map(|event| match event {
            InboxEvent::ReleaseRequested(of, token, earlier) if *of == owner => {
                Some((token, earlier))
            }
            _ => None,
        });
        match earlier {
            Some((of, _)) if *of > token => {}
            Some(earlier) => (*earlier.0, *earlier.1) = (token, request),
            None => events.push(InboxEvent::ReleaseRequested(owner, token, request)),
        }
        drop(events);
        self.reader.wake();
    }

    /// Waits until there is something. Only one task may; it may give up at any point.
    pub async fn arrived(&self) {
        poll_fn(|context| {
            // Before looking, so that what comes in between is not missed.
            self.reader.register(context.waker());
            if self.events.lock().is_empty() {
                Poll::Pending
            } else {
                Poll::Ready(())
            }
        })
        .await;
    }

    /// Takes everything out, the oldest first, and puts in the memory of `taken`, which must be empty, for what comes next.
    pub fn take(&self, taken: &mut Vec<InboxEvent>) {
        debug_assert!(taken.is_empty());
        std::mem::swap(&mut *self.events.lock(), taken);
    }
}

impl Answers for Inbox {
    fn answered(&self, number: u64, result: Result<Stamped, StoreError>) {
        self.put(InboxEvent::Answered(CommandId::new(number), result));
    }
}

impl fmt::Debug for Inbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Inbox")
            .field("events", &self.events.lock().len())
            .finish_non_exhaustive()
    }
}

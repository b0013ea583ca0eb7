//! A session whose actors take and wait for locks.

use std::{
    ops::{Deref, DerefMut},
    time::Duration,
};

use leasehold_proto::v1::{
    GrantedLock, SessionAcquire, SessionFailure, session_response::Response,
};
use leasehold_tests::{
    RawSession, Site,
    raw::{self, PROMPT, by},
};
use tonic::{Code, transport::Channel};

/// A session, and its id as others see it.
pub(crate) struct Client {
    pub(crate) session: RawSession,
    pub(crate) id: String,
}

/// An acquire that waits.
#[derive(Clone, Debug)]
pub(crate) struct Waiting {
    pub(crate) request_id: u64,
    pub(crate) ticket: Vec<u8>,
}

/// Returns a request for an exclusive lock for an actor.
pub(crate) fn exclusive(actor: u64, name: &str) -> SessionAcquire {
    by(actor, raw::exclusive(name))
}

/// Returns a request for a shared lock.
pub(crate) fn shared(actor: u64, name: &str) -> SessionAcquire {
    by(actor, raw::shared(name))
}

/// Returns a request for this many permits of a semaphore that has `limit`.
pub(crate) fn permits(actor: u64, name: &str, permits: u32, limit: u32) -> SessionAcquire {
    by(actor, raw::semaphore(name, permits, limit))
}

/// Returns a request for several names, all or none.
pub(crate) fn several<'a>(actor: u64, names: impl IntoIterator<Item = &'a str>) -> SessionAcquire {
    by(actor, raw::several(names))
}

/// The TTL of sessions that nothing happens to.
const TTL: Duration = Duration::from_secs(20);

impl Deref for Client {
    type Target = RawSession;

    fn deref(&self) -> &RawSession {
        &self.session
    }
}

impl DerefMut for Client {
    fn deref_mut(&mut self) -> &mut RawSession {
        &mut self.session
    }
}

impl Client {
    /// Opens a session at a coordinator, on the connection that all share.
    pub(crate) async fn at(site: &Site, at: usize) -> Self {
        Self::open(site.channel(at), TTL).await
    }

    /// Opens a session on a connection; heartbeats go by themselves.
    pub(crate) async fn open(channel: Channel, ttl: Duration) -> Self {
        let mut session = RawSession::stream(channel).await.expect("a stream begins");
        let id = session.say_open(ttl).await.session_id;
        session.keep_alive(ttl / 4);
        Self { session, id }
    }

    /// Asks for a lock that is not free, and waits for its place in the queue.
    ///
    /// # Panics
    ///
    /// If it is not queued.
    pub(crate) async fn wait_for(&mut self, acquire: SessionAcquire) -> Waiting {
        let request_id = self.ask_for(acquire).await;
        match self.answer(request_id, PROMPT).await {
            Response::Queued(queued) => Waiting {
                request_id,
                ticket: queued.ticket,
            },
            other => panic!("not queued: {other:?}"),
        }
    }

    /// Gives locks back.
    ///
    /// # Panics
    ///
    /// If one of them was lost.
    pub(crate) async fn release(&mut self, locks: &[GrantedLock]) {
        let mut asked = Vec::with_capacity(locks.len());
        for lock in locks {
            asked.push((self.ask_release(lock).await, &lock.name));
        }
        for (request_id, name) in asked {
            match self.answer(request_id, PROMPT).await {
                Response::Released(released) => assert!(released.released, "{name} was lost"),
                other => panic!("the release of {name} was answered by {other:?}"),
            }
        }
    }

    /// Ends the session cleanly.
    ///
    /// # Panics
    ///
    /// If something was said to be lost meanwhile.
    pub(crate) async fn close(self) {
        let unasked = self.unread_unasked();
        assert!(unasked.is_empty(), "{unasked:?}");
        self.session.close().await;
    }
}

/// Returns the refusal of a wait that was part of a deadlock.
///
/// # Panics
///
/// If it is another answer.
pub(crate) fn deadlock(answer: Response) -> SessionFailure {
    match answer {
        Response::Error(failure)
            if failure.code == i32::from(Code::Aborted) && failure.reason == "DEADLOCK" =>
        {
            failure
        }
        other => panic!("not ended because of a deadlock, but by {other:?}"),
    }
}

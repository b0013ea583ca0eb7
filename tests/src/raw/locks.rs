//! Acquires and releases.

use std::time::{Duration, Instant};

use leasehold_proto::v1::{
    GrantedLock, SessionAcquire, SessionCancel, SessionGranted, SessionRelease,
    session_request::Request, session_response::Response,
};

use super::{Granted, PROMPT, RawSession, parse, wire};

impl RawSession {
    /// Asks for a lock and returns the request's id; the answers are left to be read. No `wait` waits for ever.
    ///
    /// # Panics
    ///
    /// If the stream has ended.
    pub async fn ask(&mut self, name: &str, wait: Option<Duration>) -> u64 {
        self.send(Request::Acquire(SessionAcquire {
            name: name.to_owned(),
            wait: wait.and_then(wire),
            ..SessionAcquire::default()
        }))
        .await
    }

    /// Returns the grant of an earlier acquire; skips `queued`.
    ///
    /// # Panics
    ///
    /// If anything else is answered, or nothing within `limit`.
    pub async fn granted(&mut self, request_id: u64, limit: Duration) -> Granted {
        let deadline = Instant::now() + limit;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            match self.answer(request_id, left).await {
                Response::Queued(_) => {}
                Response::Granted(granted) => {
                    let good_until = self.good_until_of(&granted);
                    let [lock] = <[_; 1]>::try_from(granted.locks).expect("one lock");
                    return Granted { lock, good_until };
                }
                other => panic!("not granted: {other:?}"),
            }
        }
    }

    /// Returns the moment until which the client may believe in a grant, by the message that brought it.
    pub fn good_until_of(&self, granted: &SessionGranted) -> Instant {
        self.heart.sent(granted.acked_heartbeat) + parse(granted.valid_for)
    }

    /// Waits until an acquire has been queued, and returns its place.
    ///
    /// # Panics
    ///
    /// If anything else is answered.
    pub async fn queued(&mut self, request_id: u64) -> u64 {
        match self.answer(request_id, PROMPT).await {
            Response::Queued(queued) => queued.position,
            other => panic!("not queued: {other:?}"),
        }
    }

    /// Takes a lock that is free.
    ///
    /// # Panics
    ///
    /// If it is not granted at once.
    pub async fn acquire(&mut self, name: &str) -> Granted {
        let id = self.ask(name, Some(Duration::ZERO)).await;
        self.granted(id, PROMPT).await
    }

    /// Gives up on an acquire.
    ///
    /// # Panics
    ///
    /// If the stream has ended.
    pub async fn cancel(&mut self, acquire_request_id: u64) {
        self.send(Request::Cancel(SessionCancel { acquire_request_id }))
            .await;
    }

    /// Asks to give a lock back and returns the request's id; the answer is left to be read.
    ///
    /// # Panics
    ///
    /// If the stream has ended.
    pub async fn ask_release(&mut self, lock: &GrantedLock) -> u64 {
        let release = SessionRelease {
            name: lock.name.clone(),
            owner_id: lock.owner_id.clone(),
        };
        self.send(Request::Release(release)).await
    }

    /// Gives a lock back; false if there was nothing to release.
    ///
    /// # Panics
    ///
    /// If anything else is answered.
    pub async fn release(&mut self, lock: &GrantedLock) -> bool {
        let id = self.ask_release(lock).await;
        match self.answer(id, PROMPT).await {
            Response::Released(released) => released.released,
            other => panic!("a release was answered by {other:?}"),
        }
    }

    /// Takes a lock that is free, and gives it back when `next` waits for it. Returns the time until `next` is granted it, which
    /// gives it back too.
    ///
    /// # Panics
    ///
    /// If the lock is not free, or `next` is not granted it at once.
    pub async fn hand_over(&mut self, next: &mut Self, name: &str) -> Duration {
        let held = self.acquire(name).await;
        let id = next.ask(name, None).await;
        assert_eq!(next.queued(id).await, 1);
        let released = Instant::now();
        assert!(self.release(&held.lock).await);
        let granted = next.granted(id, PROMPT).await;
        let took = released.elapsed();
        assert!(next.release(&granted.lock).await);
        took
    }

    /// Gives a lock back as soon as the store can be reached, asking again after each error.
    ///
    /// The coordinator goes on with a release that failed, so that a later one may find the lock released already.
    ///
    /// # Panics
    ///
    /// If the first answer that is not an error takes longer than `limit`, or says that the lock was lost.
    pub async fn release_when_possible(&mut self, lock: &GrantedLock, limit: Duration) {
        let started = Instant::now();
        let mut failures = 0;
        while started.elapsed() < limit {
            let id = self.ask_release(lock).await;
            match self.answer(id, limit).await {
                Response::Released(released) => {
                    return assert!(released.released || failures > 0, "the lock was lost");
                }
                Response::Error(_) => failures += 1,
                other => panic!("a release was answered by {other:?}"),
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        panic!("{failures} releases failed within {limit:?}");
    }
}

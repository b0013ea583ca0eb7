//! Locks of every mode: the requests, and the answers that only some modes get.

use std::time::Duration;

use leasehold_proto::v1::{
    GrantedLock, LockMode, LockSpec, LostLock, SessionAcquire, SessionDowngrade, SessionFailure,
    SessionNotGranted, SessionReduce, SessionReleaseRequested, SessionReleased, SessionSetValue,
    session_request::Request, session_response::Response,
};

use super::{PROMPT, RawSession, wire};

/// Returns a request for an exclusive lock, without a bound on the wait.
pub fn exclusive(name: &str) -> SessionAcquire {
    SessionAcquire {
        name: name.to_owned(),
        ..SessionAcquire::default()
    }
}

/// Returns a request for a shared lock.
pub fn shared(name: &str) -> SessionAcquire {
    SessionAcquire {
        mode: LockMode::Shared.into(),
        ..exclusive(name)
    }
}

/// Returns a request for this many permits of a semaphore that has `limit`.
pub fn semaphore(name: &str, permits: u32, limit: u32) -> SessionAcquire {
    SessionAcquire {
        mode: LockMode::Semaphore.into(),
        permits,
        limit,
        ..exclusive(name)
    }
}

/// Returns the same, content with fewer permits.
pub fn at_least(permits_at_least: u32, acquire: SessionAcquire) -> SessionAcquire {
    SessionAcquire {
        permits_at_least,
        ..acquire
    }
}

/// Returns the same with a revision of the limit.
pub fn revised(limit_revision: u32, acquire: SessionAcquire) -> SessionAcquire {
    SessionAcquire {
        limit_revision,
        ..acquire
    }
}

/// Returns a request for several names, all or none.
pub fn several<'a>(names: impl IntoIterator<Item = &'a str>) -> SessionAcquire {
    SessionAcquire {
        names: names.into_iter().map(ToOwned::to_owned).collect(),
        ..SessionAcquire::default()
    }
}

/// Returns a request for the locks of these requests, each in its own mode, all or none.
pub fn each(locks: impl IntoIterator<Item = SessionAcquire>) -> SessionAcquire {
    let spec = |lock: SessionAcquire| LockSpec {
        name: lock.name,
        mode: lock.mode,
        permits: lock.permits,
        limit: lock.limit,
        limit_revision: lock.limit_revision,
        permits_at_least: lock.permits_at_least,
    };
    SessionAcquire {
        locks: locks.into_iter().map(spec).collect(),
        ..SessionAcquire::default()
    }
}

/// Returns the same, waited for no longer than this.
pub fn for_at_most(wait: Duration, acquire: SessionAcquire) -> SessionAcquire {
    SessionAcquire {
        wait: wire(wait),
        ..acquire
    }
}

/// Returns the same for one of the client's flows.
pub fn by(actor: u64, acquire: SessionAcquire) -> SessionAcquire {
    SessionAcquire { actor, ..acquire }
}

/// Returns the same, held once more if that flow holds it already.
pub fn once_more(actor: u64, acquire: SessionAcquire) -> SessionAcquire {
    SessionAcquire {
        reentrant: true,
        ..by(actor, acquire)
    }
}

/// Returns the same, with a lock-delay.
pub fn closing_for(lock_delay: Duration, acquire: SessionAcquire) -> SessionAcquire {
    SessionAcquire {
        lock_delay: wire(lock_delay),
        ..acquire
    }
}

/// Returns the same, held for no longer than this.
pub fn held_for_at_most(max_hold: Duration, acquire: SessionAcquire) -> SessionAcquire {
    SessionAcquire {
        max_hold: wire(max_hold),
        ..acquire
    }
}

/// Returns the same, with a value.
pub fn with_value(value: &str, acquire: SessionAcquire) -> SessionAcquire {
    SessionAcquire {
        value: value.into(),
        ..acquire
    }
}

impl RawSession {
    /// Asks for locks in any way and returns the request's id; the answers are left to be read.
    ///
    /// # Panics
    ///
    /// If the stream has ended.
    pub async fn ask_for(&mut self, acquire: SessionAcquire) -> u64 {
        self.send(Request::Acquire(acquire)).await
    }

    /// Takes one free lock, or all that are named.
    ///
    /// # Panics
    ///
    /// If it is not granted at once.
    pub async fn take(&mut self, acquire: SessionAcquire) -> Vec<GrantedLock> {
        let id = self.ask_for(for_at_most(Duration::ZERO, acquire)).await;
        self.granted_all(id, PROMPT).await
    }

    /// Does the same for one lock.
    ///
    /// # Panics
    ///
    /// If it is not granted at once.
    pub async fn take_one(&mut self, acquire: SessionAcquire) -> GrantedLock {
        let locks = self.take(acquire).await;
        let [lock] = <[_; 1]>::try_from(locks).expect("one lock");
        lock
    }

    /// Asks for a lock that is not free, waits for its place in the queue, and returns the request's id.
    ///
    /// # Panics
    ///
    /// If it is not queued.
    pub async fn wait_for(&mut self, acquire: SessionAcquire) -> u64 {
        let id = self.ask_for(acquire).await;
        self.queued(id).await;
        id
    }

    /// Waits for the final answer to an acquire; skips `queued`.
    ///
    /// # Panics
    ///
    /// If it came to nothing within `limit`.
    pub async fn outcome(&mut self, request_id: u64, limit: Duration) -> Response {
        self.find(limit, |message| {
            message.request_id == request_id
                && !matches!(message.response, Some(Response::Queued(_)))
        })
        .await
        .response
        .expect("an answer says something")
    }

    /// Returns everything that an acquire was granted, in the order of the answer.
    ///
    /// # Panics
    ///
    /// If anything else is answered, or nothing within `limit`.
    pub async fn granted_all(&mut self, request_id: u64, limit: Duration) -> Vec<GrantedLock> {
        match self.outcome(request_id, limit).await {
            Response::Granted(granted) => granted.locks,
            other => panic!("not granted: {other:?}"),
        }
    }

    /// Returns the end of an acquire that is not granted.
    ///
    /// # Panics
    ///
    /// If it is granted or refused, or nothing is answered within `limit`.
    pub async fn not_granted(&mut self, request_id: u64, limit: Duration) -> SessionNotGranted {
        match self.outcome(request_id, limit).await {
            Response::NotGranted(not_granted) => not_granted,
            other => panic!("not `not_granted`: {other:?}"),
        }
    }

    /// Returns the refusal of any request.
    ///
    /// # Panics
    ///
    /// If anything else is answered, or nothing within `limit`.
    pub async fn refusal(&mut self, request_id: u64, limit: Duration) -> SessionFailure {
        match self.outcome(request_id, limit).await {
            Response::Error(failure) => failure,
            other => panic!("not refused: {other:?}"),
        }
    }

    /// Gives a lock back once.
    ///
    /// # Panics
    ///
    /// If anything but `released` is answered.
    pub async fn release_once(&mut self, lock: &GrantedLock) -> SessionReleased {
        let id = self.ask_release(lock).await;
        match self.answer(id, PROMPT).await {
            Response::Released(released) => released,
            other => panic!("a release was answered by {other:?}"),
        }
    }

    /// Asks to turn an exclusive hold into a shared one and returns the request's id.
    ///
    /// # Panics
    ///
    /// If the stream has ended.
    pub async fn ask_downgrade(&mut self, lock: &GrantedLock) -> u64 {
        let downgrade = SessionDowngrade {
            name: lock.name.clone(),
            owner_id: lock.owner_id.clone(),
        };
        self.send(Request::Downgrade(downgrade)).await
    }

    /// Turns an exclusive hold into a shared one; false if it was lost.
    ///
    /// # Panics
    ///
    /// If anything else is answered.
    pub async fn downgrade(&mut self, lock: &GrantedLock) -> bool {
        let id = self.ask_downgrade(lock).await;
        match self.answer(id, PROMPT).await {
            Response::Downgraded(downgraded) => downgraded.downgraded,
            other => panic!("a downgrade was answered by {other:?}"),
        }
    }

    /// Asks to give permits of a hold back except this many and returns the request's id.
    ///
    /// # Panics
    ///
    /// If the stream has ended.
    pub async fn ask_reduce(&mut self, lock: &GrantedLock, permits: u32) -> u64 {
        let reduce = SessionReduce {
            name: lock.name.clone(),
            owner_id: lock.owner_id.clone(),
            permits,
        };
        self.send(Request::Reduce(reduce)).await
    }

    /// Gives permits of a hold back except this many; false if it was lost.
    ///
    /// # Panics
    ///
    /// If anything else is answered.
    pub async fn reduce(&mut self, lock: &GrantedLock, permits: u32) -> bool {
        let id = self.ask_reduce(lock, permits).await;
        match self.answer(id, PROMPT).await {
            Response::Reduced(reduced) => reduced.reduced,
            other => panic!("a reduce was answered by {other:?}"),
        }
    }

    /// Changes the value of a hold; false if it was lost.
    ///
    /// # Panics
    ///
    /// If anything else is answered.
    pub async fn set_value(&mut self, lock: &GrantedLock, value: &str) -> bool {
        let set_value = SessionSetValue {
            name: lock.name.clone(),
            owner_id: lock.owner_id.clone(),
            value: value.into(),
        };
        let id = self.send(Request::SetValue(set_value)).await;
        match self.answer(id, PROMPT).await {
            Response::ValueSet(set) => set.value_set,
            other => panic!("a set_value was answered by {other:?}"),
        }
    }

    /// Returns what an operator asks of the session, in the coordinator's next message about that.
    ///
    /// # Panics
    ///
    /// If none comes within `limit`.
    pub async fn asked(&mut self, limit: Duration) -> SessionReleaseRequested {
        let is_request = |message: &leasehold_proto::v1::SessionResponse| {
            matches!(message.response, Some(Response::ReleaseRequested(_)))
        };
        match self.find(limit, is_request).await.response {
            Some(Response::ReleaseRequested(asked)) => asked,
            _ => unreachable!("only those were wanted"),
        }
    }

    /// Returns the locks that the coordinator says are lost, in its next message about that.
    ///
    /// # Panics
    ///
    /// If none comes within `limit`.
    pub async fn lost(&mut self, limit: Duration) -> Vec<LostLock> {
        let is_loss = |message: &leasehold_proto::v1::SessionResponse| {
            matches!(message.response, Some(Response::Lost(_)))
        };
        match self.find(limit, is_loss).await.response {
            Some(Response::Lost(lost)) => lost.locks,
            _ => unreachable!("only those were wanted"),
        }
    }
}

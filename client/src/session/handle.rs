//! Handle of a session.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use tokio::sync::{mpsc, oneshot, watch};

use super::{
    driver::{AcquireCommand, Note, Status},
    spec::AcquireSpec,
};
use crate::{
    Actor, Election, LockAllRequest, LockRequest, LockWatch, Semaphore, WithLockError,
    calls::Calls, clock::Moment, error::AcquireError, guard::LockGuard,
};

/// Description of an open session, as its coordinator gave it.
///
/// ```
/// # leasehold_tests::doc(async |client| {
/// let info = client.default_session().info().expect("there is a connection");
/// assert!(info.heartbeat_interval < info.ttl);
/// # Ok(()) });
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct SessionInfo {
    /// The session's name in listings. Not secret. Every reconnect brings a new one.
    pub session_id: String,
    /// The coordinator's name in listings.
    pub coordinator: String,
    /// The TTL in force.
    pub ttl: Duration,
    /// Time between heartbeats.
    pub heartbeat_interval: Duration,
}

/// Session, through which a client holds locks for as long as its stream lives.
///
/// Cheap to clone; all clones are the same session. It closes when its last clone, its last guard and its last pending
/// acquire are gone.
///
/// When its coordinator is about to go away, or falls silent, it moves to another one, and takes along what it holds and
/// waits for. When its coordinator stops before that, guards stay held until their own deadlines, and the session resumes them on
/// the first coordinator that it reaches. When its stream breaks, every lock of it is lost at once, or [suspended](crate::LockState::Suspended) if it
/// has a [grace](crate::SessionBuilder::disconnect_grace), and it reconnects by itself; acquires that were waiting go on waiting,
/// in their old place where that still stands. Locks are never re-taken by themselves.
///
/// ```
/// # leasehold_tests::doc(async |client| {
/// let session = client.session().open().await?;
/// let guard = session.lock("orders/42").await?;
/// assert!(guard.is_held());
/// guard.release().await?;
/// session.close().await;
/// # Ok(()) });
/// ```
#[derive(Clone)]
pub struct Session(Arc<Handle>);

struct Handle {
    acquires: mpsc::Sender<AcquireCommand>,
    notes: mpsc::UnboundedSender<Note>,
    last_acquire: AtomicU64,
    status: watch::Receiver<Status>,
    /// The calls for requests about locks that need no hold.
    calls: Calls,
}

impl Session {
    pub(super) fn new(
        acquires: mpsc::Sender<AcquireCommand>,
        notes: mpsc::UnboundedSender<Note>,
        status: watch::Receiver<Status>,
        calls: Calls,
    ) -> Self {
        Self(Arc::new(Handle {
            acquires,
            notes,
            last_acquire: AtomicU64::new(0),
            status,
            calls,
        }))
    }

    /// Requests the lock of this name: 1 to 512 bytes of UTF-8 without control characters, matched whole.
    ///
    /// ```
    /// # leasehold_tests::doc(async |client| {
    /// let session = client.session().open().await?;
    /// let guard = session.lock("orders/42").await?;
    /// # Ok(()) });
    /// ```
    pub fn lock(&self, name: impl Into<Arc<str>>) -> LockRequest {
        LockRequest::one(self.clone(), name.into())
    }

    /// Returns the semaphore of this name with `limit` permits: 1 to 1000000.
    ///
    /// ```
    /// # leasehold_tests::doc(async |client| {
    /// let session = client.session().open().await?;
    /// let permits = session.semaphore("downloads", 3).permits(2).await?;
    /// # Ok(()) });
    /// ```
    pub fn semaphore(&self, name: impl Into<Arc<str>>, limit: u32) -> Semaphore {
        Semaphore::new(self.clone(), name.into(), limit)
    }

    /// Requests the locks of these names, 1 to 64 different ones, all together or none.
    ///
    /// ```
    /// # leasehold_tests::doc(async |client| {
    /// let session = client.session().open().await?;
    /// let guards = session.lock_all(["account/7", "account/9"]).await?;
    /// # Ok(()) });
    /// ```
    pub fn lock_all(&self, names: impl IntoIterator<Item: Into<Arc<str>>>) -> LockAllRequest {
        LockAllRequest::all(self.clone(), names.into_iter().map(Into::into).collect())
    }

    /// Returns the election of this name, with this session for its campaigns. The name has 1 to 512 bytes of UTF-8
    /// without control characters, and is matched whole. The election is the exclusive lock of its name.
    ///
    /// ```
    /// # leasehold_tests::doc(async |client| {
    /// let session = client.session().open().await?;
    /// let leadership = session.election("scheduler").campaign("10.0.0.7:8080").await?;
    /// assert!(leadership.is_leader());
    /// # Ok(()) });
    /// ```
    pub fn election(&self, name: impl Into<Arc<str>>) -> Election {
        Election::new(self, name.into())
    }

    /// Makes a new actor, different from all others, for one of the flows inside this client: a task or a thread.
    ///
    /// ```
    /// # leasehold_tests::doc(async |client| {
    /// let session = client.session().open().await?;
    /// let me = session.actor();
    /// assert_ne!(me, session.actor());
    /// let guard = session.lock("orders/42").actor(me).await?;
    /// # Ok(()) });
    /// ```
    pub fn actor(&self) -> Actor {
        Actor::new()
    }

    /// Runs work while holding a lock; see [`LockRequest::with`].
    ///
    /// ```
    /// # leasehold_tests::doc(async |client| {
    /// let session = client.session().open().await?;
    /// let sum = session.with_lock("sums", |_lock| async { 1 + 1 }).await?;
    /// assert_eq!(sum, 2);
    /// # Ok(()) });
    /// ```
    ///
    /// # Errors
    ///
    /// As for [`LockRequest::with`].
    pub async fn with_lock<T, F>(
        &self,
        name: impl Into<Arc<str>>,
        work: impl FnOnce(LockWatch) -> F,
    ) -> Result<T, WithLockError>
    where
        F: Future<Output = T>,
    {
        self.lock(name).with(work).await
    }

    /// Runs work that can fail while holding a lock; see [`LockRequest::try_with`].
    ///
    /// ```
    /// # leasehold_tests::doc(async |client| {
    /// use std::error::Error;
    ///
    /// let sold = client
    ///     .try_with_lock("stock/apples", |_lock| async {
    ///         Ok::<u32, Box<dyn Error>>("3".parse()?)
    ///     })
    ///     .await?;
    /// assert_eq!(sold, 3);
    /// # Ok(()) });
    /// ```
    ///
    /// # Errors
    ///
    /// As for [`LockRequest::try_with`].
    pub async fn try_with_lock<T, E, F>(
        &self,
        name: impl Into<Arc<str>>,
        work: impl FnOnce(LockWatch) -> F,
    ) -> Result<T, E>
    where
        E: From<WithLockError>,
        F: Future<Output = Result<T, E>>,
    {
        self.lock(name).try_with(work).await
    }

    /// Returns the description of the session; none while there is no connection.
    pub fn info(&self) -> Option<SessionInfo> {
        self.0.status.borrow().info.clone()
    }

    /// Completes when the coordinator is about to go away, with the time left until it does. Completes with zero if the
    /// session has been closed. Nothing needs to be done about it: the session moves to another coordinator by itself, with
    /// all that it holds and waits for, and [`Session::info`] tells of the new one. If there is none, its guards stay held until
    /// their own deadlines, and it goes on when it reaches one, the same one after a restart included.
    ///
    /// ```
    /// # leasehold_tests::doc(async |client| {
    /// let session = client.session().open().await?;
    /// tokio::select! {
    ///     left = session.draining() => println!("to be finished within {left:?}"),
    ///     () = async { /* work */ } => {}
    /// }
    /// # Ok(()) });
    /// ```
    pub fn draining(&self) -> impl Future<Output = Duration> + Send + use<> {
        let mut status = self.0.status.clone();
        async move {
            let until = match status.wait_for(|status| status.draining.is_some()).await {
                Ok(status) => status.draining,
                Err(_) => None,
            };
            until.map_or(Duration::ZERO, |until| until.since(Moment::now()))
        }
    }

    /// Returns the time left until the coordinator goes away, once it has said that it will; none before, and while there is no
    /// connection. See [`Session::draining`].
    ///
    /// ```
    /// # leasehold_tests::doc(async |client| {
    /// assert_eq!(client.default_session().drains_in(), None);
    /// # Ok(()) });
    /// ```
    pub fn drains_in(&self) -> Option<Duration> {
        let draining = self.0.status.borrow().draining;
        draining.map(|until| until.since(Moment::now()))
    }

    /// Closes the session: its guards are lost first (with
    /// [`LostReason::SessionClosed`](crate::LostReason::SessionClosed)), then the coordinator releases everything and
    /// hands it to the next waiters. Returns when it has confirmed that, or after two seconds. Acquires fail from then
    /// on. If this future is dropped, the session closes all the same.
    ///
    /// ```
    /// # leasehold_tests::doc(async |client| {
    /// let session = client.session().open().await?;
    /// let guard = session.lock("orders/42").await?;
    /// session.close().await;
    /// assert!(!guard.is_held());
    /// # Ok(()) });
    /// ```
    pub async fn close(&self) {
        let (done, closed) = oneshot::channel();
        if self.0.notes.send(Note::Close(done)).is_ok() {
            // Never sent: the sender is dropped when the task ends.
            closed.await.ok();
        }
    }

    pub(crate) fn calls(&self) -> &Calls {
        &self.0.calls
    }

    /// Returns one guard for each lock, in the order of the names.
    pub(crate) async fn acquire(
        &self,
        mut spec: AcquireSpec,
    ) -> Result<Vec<LockGuard>, AcquireError> {
        let names = spec.names.clone();
        // Here, where the caller's span is the current one.
        let traces = &self.0.calls.settings().traces;
        spec.trace = spec.trace.or_else(|| traces.current());
        let (reply, answer) = oneshot::channel();
        let mut pending = PendingAcquire {
            id: self.0.last_acquire.fetch_add(1, Ordering::Relaxed) + 1,
            answer: Some(answer),
            notes: &self.0.notes,
        };
        let command = AcquireCommand {
            id: pending.id,
            spec,
            reply,
        };
        let sent = self.0.acquires.send(command).await;
        let answer = match (sent, &mut pending.answer) {
            (Ok(()), Some(answer)) => answer.await.ok(),
            _ => None,
        };
        // Answered, or nobody is there to be told: nothing is left to cancel.
        pending.answer = None;
        answer.unwrap_or_else(|| {
            let name = names.label();
            Err(AcquireError::SessionClosed { name })
        })
    }
}

impl std::fmt::Debug for Session {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Session")
            .field("info", &self.info())
            .finish_non_exhaustive()
    }
}

/// An acquire whose caller may go away at any await.
struct PendingAcquire<'a> {
    id: u64,
    answer: Option<oneshot::Receiver<Result<Vec<LockGuard>, AcquireError>>>,
    notes: &'a mpsc::UnboundedSender<Note>,
}

impl Drop for PendingAcquire<'_> {
    fn drop(&mut self) {
        if let Some(answer) = self.answer.take() {
            // First the receiver, so that a command that is still in the queue is seen to have no caller. A guard that
            // is in it already gives its lock back as it drops.
            drop(answer);
            self.notes.send(Note::Cancel(self.id)).ok();
        }
    }
}

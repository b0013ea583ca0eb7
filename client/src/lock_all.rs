//! Asking for several locks at once.

use std::{fmt, sync::Arc, time::Duration};

use crate::{
    actor::Actor,
    error::{AcquireError, WithLockError},
    guard::LockWatch,
    guards::LockGuards,
    session::{AcquireSpec, Mode, Names, Session},
    trace::TraceContext,
};

/// Several locks that are asked for, to be granted all together or not at all. Made by
/// [`Client::lock_all`](crate::Client::lock_all) and [`Session::lock_all`]; nothing happens before one of `acquire`,
/// `try_acquire` and `with` is called.
///
/// The order in which they are named does not matter for deadlocks: acquires of several names never block one another
/// for good. A flow that holds one lock and then asks for others can still be in a deadlock; see [`Actor`].
///
/// All three calls may be dropped at any point, as those of [`LockRequest`](crate::LockRequest).
///
/// ```
/// # leasehold_tests::doc(async |client| {
/// use std::time::Duration;
///
/// let guards = client
///     .lock_all(["account/7", "account/9"])
///     .wait(Duration::from_secs(5))
///     .value("transfer 1234")
///     .acquire()
///     .await?;
/// assert!(guards.is_held());
/// # Ok(()) });
/// ```
#[derive(Clone)]
#[must_use = "nothing is asked for before `acquire`, `try_acquire` or `with`"]
pub struct LockAllRequest {
    session: Session,
    spec: AcquireSpec,
}

impl LockAllRequest {
    pub(crate) fn new(session: Session, names: Arc<[Arc<str>]>) -> Self {
        Self {
            session,
            spec: AcquireSpec::new(Names::All(names), Mode::Exclusive),
        }
    }

    /// Holds all of them together with other shared holders; see [`LockRequest::shared`](crate::LockRequest::shared).
    ///
    /// ```
    /// # leasehold_tests::doc(async |client| {
    /// let guards = client.lock_all(["prices", "stock"]).shared().acquire().await?;
    /// assert!(client.lock("stock").shared().try_acquire().await?.is_some());
    /// # Ok(()) });
    /// ```
    pub fn shared(mut self) -> Self {
        self.spec.mode = Mode::Shared;
        self
    }

    /// How long to wait for all of them together; see [`LockRequest::wait`](crate::LockRequest::wait).
    ///
    /// ```
    /// # leasehold_tests::doc(async |client| {
    /// use std::time::Duration;
    ///
    /// let guards = client.lock_all(["a", "b"]).wait(Duration::from_secs(2)).acquire().await?;
    /// # Ok(()) });
    /// ```
    pub fn wait(mut self, wait: Duration) -> Self {
        self.spec.wait = Some(wait);
        self
    }

    /// Attached to each of the holds for others to see: at most 4 KiB. Default: empty.
    ///
    /// ```
    /// # leasehold_tests::doc(async |client| {
    /// let guards = client.lock_all(["a", "b"]).value("worker 3").acquire().await?;
    /// let view = client.admin().get_lock("b").await?;
    /// assert_eq!(view.holders[0].value, b"worker 3");
    /// # Ok(()) });
    /// ```
    pub fn value(mut self, value: impl Into<Vec<u8>>) -> Self {
        self.spec.value = value.into();
        self
    }

    /// How long each of the names stays closed if its hold ends uncleanly; see
    /// [`LockRequest::lock_delay`](crate::LockRequest::lock_delay).
    ///
    /// ```
    /// # leasehold_tests::doc(async |client| {
    /// use std::time::Duration;
    ///
    /// let guards = client.lock_all(["a", "b"]).lock_delay(Duration::from_secs(10)).acquire().await?;
    /// # Ok(()) });
    /// ```
    pub fn lock_delay(mut self, lock_delay: Duration) -> Self {
        self.spec.lock_delay = lock_delay;
        self
    }

    /// Asks in the name of a flow of this process; see [`LockRequest::actor`](crate::LockRequest::actor).
    ///
    /// ```
    /// # leasehold_tests::doc(async |client| {
    /// let me = client.actor();
    /// let guards = client.lock_all(["a", "b"]).actor(me).acquire().await?;
    /// # Ok(()) });
    /// ```
    pub fn actor(mut self, actor: Actor) -> Self {
        self.spec.actor = actor.get();
        self
    }

    /// The actor may hold some of them already; see [`LockRequest::reentrant`](crate::LockRequest::reentrant).
    ///
    /// ```
    /// # leasehold_tests::doc(async |client| {
    /// let me = client.actor();
    /// let first = client.lock("a").actor(me).acquire().await?;
    /// let guards = client.lock_all(["a", "b"]).actor(me).reentrant().acquire().await?;
    /// assert_eq!(guards.guards()[0].hold_count(), 2);
    /// assert_eq!(guards.guards()[1].hold_count(), 1);
    /// # Ok(()) });
    /// ```
    pub fn reentrant(mut self) -> Self {
        self.spec.reentrant = true;
        self
    }

    /// The trace that an acquire is part of; see [`LockRequest::trace_context`](crate::LockRequest::trace_context).
    pub fn trace_context(mut self, context: TraceContext) -> Self {
        self.spec.trace = Some(context);
        self
    }

    /// Waits for all of the locks.
    ///
    /// ```
    /// # leasehold_tests::doc(async |client| {
    /// let guards = client.lock_all(["b", "a"]).acquire().await?;
    /// assert_eq!(guards.guards()[0].name(), "b");
    /// assert_eq!(guards.guards()[1].name(), "a");
    /// # Ok(()) });
    /// ```
    ///
    /// # Errors
    ///
    /// As for [`LockRequest::acquire`](crate::LockRequest::acquire); also [`AcquireError::Refused`] if none, more
    /// than 64 or one name twice were given. The name in the error is all of them, with commas in between.
    pub async fn acquire(self) -> Result<LockGuards, AcquireError> {
        let guards = self.session.acquire(self.spec).await?;
        Ok(LockGuards::new(guards))
    }

    /// Takes the locks if all of them are free, and returns none if one is not. Whatever was said by
    /// [`LockAllRequest::wait`] is not heeded.
    ///
    /// ```
    /// # leasehold_tests::doc(async |client| {
    /// let one = client.lock("b").acquire().await?;
    /// assert!(client.lock_all(["a", "b"]).try_acquire().await?.is_none());
    /// // Nothing of it is held.
    /// assert!(client.lock("a").try_acquire().await?.is_some());
    /// # Ok(()) });
    /// ```
    ///
    /// # Errors
    ///
    /// As for [`LockRequest::try_acquire`](crate::LockRequest::try_acquire).
    pub async fn try_acquire(self) -> Result<Option<LockGuards>, AcquireError> {
        match self.wait(Duration::ZERO).acquire().await {
            Ok(guards) => Ok(Some(guards)),
            Err(AcquireError::Busy { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Waits for all of the locks, runs the work while holding them, and releases them. When one of them is lost, the
    /// work is dropped at the await where it stands. The work is given one watch for each lock, in the order named.
    ///
    /// ```
    /// # leasehold_tests::doc(async |client| {
    /// let tokens: Vec<i64> = client
    ///     .lock_all(["account/7", "account/9"])
    ///     .with(|locks| async move {
    ///         locks.iter().map(|lock| lock.fencing_token().get()).collect()
    ///     })
    ///     .await?;
    /// assert_eq!(tokens.len(), 2);
    /// # Ok(()) });
    /// ```
    ///
    /// # Errors
    ///
    /// As for [`LockRequest::with`](crate::LockRequest::with); [`WithLockError::Lost`] tells of the lock that was lost
    /// first.
    pub async fn with<T, F>(
        self,
        work: impl FnOnce(Vec<LockWatch>) -> F,
    ) -> Result<T, WithLockError>
    where
        F: Future<Output = T>,
    {
        let guards = self.acquire().await?;
        let work = work(guards.watches());
        guards.run(work).await
    }
}

impl fmt::Debug for LockAllRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.spec.debug("LockAllRequest", f)
    }
}

//! Asking for a lock.

use std::{fmt, sync::Arc, time::Duration};

use crate::{
    actor::Actor,
    error::{AcquireError, WithLockError},
    guard::{LockGuard, LockWatch},
    guards::LockGuards,
    session::{AcquireSpec, Mode, Names, Session},
    trace::TraceContext,
};

/// A lock that is asked for. Made by [`Client::lock`](crate::Client::lock) and [`Session::lock`]; nothing happens before
/// one of `acquire`, `try_acquire` and `with` is called.
///
/// All three may be dropped at any point: the request is then cancelled, and a grant that crossed the cancellation is
/// given back at once.
///
/// ```
/// # leasehold_tests::doc(async |client| {
/// use std::time::Duration;
///
/// let guard = client
///     .lock("orders/42")
///     .wait(Duration::from_secs(5))
///     .value("order service, worker 3")
///     .acquire()
///     .await?;
/// # Ok(()) });
/// ```
#[derive(Clone)]
#[must_use = "nothing is asked for before `acquire`, `try_acquire` or `with`"]
pub struct LockRequest {
    session: Session,
    spec: AcquireSpec,
}

impl LockRequest {
    pub(crate) fn new(session: Session, name: Arc<str>) -> Self {
        Self {
            session,
            spec: AcquireSpec::new(Names::One(name), Mode::Exclusive),
        }
    }

    /// Holds it together with other shared holders, and never with an exclusive one: readers, where exclusive holders
    /// are writers. Who comes behind a waiting writer waits for it, so that writers are not starved. Default:
    /// exclusive.
    ///
    /// Each shared holder has a fencing token of its own. What the lock protects is to refuse tokens that are smaller
    /// than the largest of an exclusive holder; those of shared holders say nothing of one another.
    ///
    /// ```
    /// # leasehold_tests::doc(async |client| {
    /// let one = client.lock("catalogue").shared().acquire().await?;
    /// let another = client.lock("catalogue").shared().acquire().await?;
    /// assert!(one.is_held() && another.is_held());
    /// assert!(client.lock("catalogue").try_acquire().await?.is_none());
    /// # Ok(()) });
    /// ```
    pub fn shared(mut self) -> Self {
        self.spec.mode = Mode::Shared;
        self
    }

    /// How long to wait for the lock, at most 24 h; zero means not to wait. Default: for as long as it takes, over
    /// reconnects too.
    ///
    /// ```
    /// # leasehold_tests::doc(async |client| {
    /// use std::time::Duration;
    ///
    /// let guard = client.lock("orders/42").wait(Duration::from_secs(2)).acquire().await?;
    /// # Ok(()) });
    /// ```
    pub fn wait(mut self, wait: Duration) -> Self {
        self.spec.wait = Some(wait);
        self
    }

    /// Attached to the hold for others to see: at most 4 KiB. Default: empty.
    ///
    /// ```
    /// # leasehold_tests::doc(async |client| {
    /// let guard = client.lock("orders/42").value("worker 3").acquire().await?;
    /// let view = client.admin().get_lock("orders/42").await?;
    /// assert_eq!(view.holders[0].value, b"worker 3");
    /// # Ok(()) });
    /// ```
    pub fn value(mut self, value: impl Into<Vec<u8>>) -> Self {
        self.spec.value = value.into();
        self
    }

    /// How long the name stays closed if the hold ends uncleanly, that is in any way but a release: 0 to the maximum
    /// TTL. Default: 0.
    ///
    /// For work that can neither be fenced nor be stopped the moment its lock is lost: asked for as the TTL, it keeps
    /// the next holder out until the former one must have noticed.
    ///
    /// ```
    /// # leasehold_tests::doc(async |client| {
    /// use std::time::Duration;
    ///
    /// let guard = client.lock("tape").lock_delay(Duration::from_secs(10)).acquire().await?;
    /// # Ok(()) });
    /// ```
    pub fn lock_delay(mut self, lock_delay: Duration) -> Self {
        self.spec.lock_delay = lock_delay;
        self
    }

    /// Asks in the name of a flow of this process, made by [`Session::actor`]. Default: nobody, a stranger to all
    /// others.
    ///
    /// ```
    /// # leasehold_tests::doc(async |client| {
    /// use leasehold_client::AcquireError;
    ///
    /// let me = client.actor();
    /// let guard = client.lock("orders/42").actor(me).acquire().await?;
    /// // It would wait for itself.
    /// let error = client.lock("orders/42").actor(me).acquire().await.unwrap_err();
    /// assert!(matches!(error, AcquireError::SelfDeadlock { .. }));
    /// # Ok(()) });
    /// ```
    pub fn actor(mut self, actor: Actor) -> Self {
        self.spec.actor = actor.get();
        self
    }

    /// The actor may hold the lock already: then it holds it once more, under the same fencing token, and the lock is
    /// free when the last of its guards has been released. Needs [`LockRequest::actor`].
    ///
    /// What is held shared can't be had exclusively on top: that is refused with [`AcquireError::UpgradeRefused`],
    /// since two who try would wait for each other.
    ///
    /// ```
    /// # leasehold_tests::doc(async |client| {
    /// let me = client.actor();
    /// let request = client.lock("orders/42").actor(me).reentrant();
    /// let outer = request.clone().acquire().await?;
    /// let inner = request.acquire().await?;
    /// assert_eq!(inner.hold_count(), 2);
    ///
    /// inner.release().await?;
    /// assert!(client.lock("orders/42").try_acquire().await?.is_none());
    /// outer.release().await?;
    /// assert!(client.lock("orders/42").try_acquire().await?.is_some());
    /// # Ok(()) });
    /// ```
    pub fn reentrant(mut self) -> Self {
        self.spec.reentrant = true;
        self
    }

    /// The trace that this acquire is part of, with its wait. Default: what the client's
    /// [source](crate::ClientBuilder::trace_context_from) says, which goes for what the guard asks later too.
    ///
    /// ```
    /// # leasehold_tests::doc(async |client| {
    /// let context = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01".parse()?;
    /// let guard = client.lock("orders/42").trace_context(context).acquire().await?;
    /// # Ok(()) });
    /// ```
    pub fn trace_context(mut self, context: TraceContext) -> Self {
        self.spec.trace = Some(context);
        self
    }

    /// Waits for the lock.
    ///
    /// ```
    /// # leasehold_tests::doc(async |client| {
    /// let guard = client.lock("orders/42").acquire().await?;
    /// assert_eq!(guard.name(), "orders/42");
    /// # Ok(()) });
    /// ```
    ///
    /// # Errors
    ///
    /// [`AcquireError::TimedOut`] if it did not come free within the wait, [`AcquireError::Busy`] if the wait was zero;
    /// [`AcquireError::Refused`] if the coordinator could not serve the request; [`AcquireError::Unavailable`] if none
    /// answered within the wait. Without a wait, a lost connection is not an error: the acquire is asked again on the
    /// next one. With an actor also [`AcquireError::SelfDeadlock`], [`AcquireError::UpgradeRefused`] and
    /// [`AcquireError::Deadlock`].
    pub async fn acquire(self) -> Result<LockGuard, AcquireError> {
        self.session.acquire_one(self.spec).await
    }

    /// Takes the lock if it is free, and returns none if it is not. Whatever was said by [`LockRequest::wait`] is not
    /// heeded. To learn who holds it, ask for a wait of zero and look at [`AcquireError::Busy`].
    ///
    /// ```
    /// # leasehold_tests::doc(async |client| {
    /// let first = client.lock("orders/42").try_acquire().await?;
    /// assert!(first.is_some());
    /// assert!(client.lock("orders/42").try_acquire().await?.is_none());
    /// # Ok(()) });
    /// ```
    ///
    /// # Errors
    ///
    /// [`AcquireError::Refused`] if the coordinator could not serve the request, [`AcquireError::Unavailable`] if there
    /// is no connection and attempts to make one fail, at all coordinators there are, or if it breaks before the answer.
    pub async fn try_acquire(self) -> Result<Option<LockGuard>, AcquireError> {
        match self.wait(Duration::ZERO).acquire().await {
            Ok(guard) => Ok(Some(guard)),
            Err(AcquireError::Busy { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Waits for the lock, runs the work while holding it, and releases it. When the lock is lost, the work is dropped
    /// at the await where it stands (not while it is only [suspended](crate::LockState::Suspended)); work that blocks its thread can't be stopped, and should pass on the fencing token.
    ///
    /// ```
    /// # leasehold_tests::doc(async |client| {
    /// let total = client
    ///     .lock("orders/42")
    ///     .with(|lock| async move { lock.fencing_token().get() })
    ///     .await?;
    /// assert!(total > 0);
    /// # Ok(()) });
    /// ```
    ///
    /// # Errors
    ///
    /// [`WithLockError::Acquire`] if the lock was not acquired, [`WithLockError::Lost`] if it was lost before the work
    /// was done, also where that was found out only afterwards: the work's result is dropped then, since it was not
    /// made under the lock from beginning to end.
    pub async fn with<T, F>(self, work: impl FnOnce(LockWatch) -> F) -> Result<T, WithLockError>
    where
        F: Future<Output = T>,
    {
        let guard = self.acquire().await?;
        let work = work(guard.watch());
        LockGuards::new(vec![guard]).run(work).await
    }
}

impl fmt::Debug for LockRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.spec.debug("LockRequest", f)
    }
}

//! Requests for locks and permits: settings first, then one await.

mod future;
mod grant;

use std::{fmt, marker::PhantomData, sync::Arc, time::Duration};

pub use future::AcquireFuture;
pub use grant::Grant;

use crate::{
    actor::Actor,
    error::{AcquireError, Failure, WithLockError},
    guard::LockGuard,
    guards::{LockGuards, Unprotected},
    permit::SemaphorePermit,
    session::{AcquireSpec, Body, LockSpec, Locks, Mode, Session},
    trace::TraceContext,
};

/// Request for a lock, made by [`Client::lock`](crate::Client::lock) and [`Session::lock`]. Await it to acquire the lock;
/// the request sends nothing before it is awaited.
///
/// Requests for [several locks](LockAllRequest) and for [permits](PermitRequest) are the same type and differ in what the
/// coordinator grants, `G`.
///
/// ```
/// # leasehold_tests::doc(async |client| {
/// use std::time::Duration;
///
/// let guard = client
///     .lock("orders/42")
///     .wait(Duration::from_secs(5))
///     .value("order service, worker 3")
///     .await?;
/// assert_eq!(guard.name(), "orders/42");
/// # Ok(()) });
/// ```
///
/// # Errors
///
/// Awaiting the request fails with
///
/// - [`AcquireError::TimedOut`] if the lock did not come free within the wait, and [`AcquireError::Busy`] if the wait was
///   zero;
/// - [`AcquireError::Unavailable`] if no coordinator answered within the wait. Without a wait, a lost connection is not an
///   error: the session asks again on the next one;
/// - [`AcquireError::SelfDeadlock`], [`AcquireError::UpgradeRefused`] or [`AcquireError::Deadlock`] if the request has an
///   actor whose wait could not end;
/// - [`AcquireError::Refused`] or a narrower variant if the coordinator could not serve the request.
///
/// # Cancel safety
///
/// The future may be dropped at any point. That cancels the request; if the coordinator granted it meanwhile, the session
/// gives the lock back at once.
#[must_use = "a request sends nothing before it is awaited"]
pub struct LockRequest<G = LockGuard> {
    session: Session,
    spec: AcquireSpec,
    granted: PhantomData<fn() -> G>,
}

/// Request for several locks, which the coordinator grants all together or not at all. Made by
/// [`Client::lock_all`](crate::Client::lock_all) and [`Session::lock_all`].
///
/// The order of the names does not matter for deadlocks: requests for several names never block one another for good. A
/// flow that holds one lock and then asks for others can still be in a deadlock; see [`Actor`].
///
/// Each lock is held in its own mode: an exclusive one if only its name is given, another one by a [`LockSpec`].
///
/// The coordinator refuses a request without names, with more than 64, or with one name twice. Errors name all of the
/// locks, with commas in between.
///
/// ```
/// # leasehold_tests::doc(async |client| {
/// let guards = client.lock_all(["account/9", "account/7"]).value("transfer 1234").await?;
/// assert!(guards.is_held());
/// assert_eq!(guards.guards()[0].name(), "account/9");
/// # Ok(()) });
/// ```
pub type LockAllRequest = LockRequest<LockGuards>;

/// Request for permits of a semaphore, made by [`Semaphore::permits`](crate::Semaphore::permits) or
/// [`Semaphore::permits_between`](crate::Semaphore::permits_between).
///
/// The coordinator refuses a request for no permits or for more than the limit, and, with
/// [`AcquireError::LimitMismatch`], one with another limit of the same revision than that of present holders and waiters, or that
/// needs more permits than the limit in force.
///
/// ```
/// # leasehold_tests::doc(async |client| {
/// let permit = client.semaphore("downloads", 3).permits(2).value("worker 3").await?;
/// assert_eq!(permit.permits(), 2);
/// # Ok(()) });
/// ```
pub type PermitRequest = LockRequest<SemaphorePermit>;

impl LockRequest {
    pub(crate) fn one(session: Session, name: Arc<str>) -> Self {
        Self::new(session, Locks::One(LockSpec::exclusive(name)))
    }

    /// Asks for a shared hold: together with other shared holders, and never with an exclusive one. Use it for readers,
    /// where exclusive holders are writers. A request behind a waiting writer waits for that writer, so that readers do
    /// not starve writers. Default: exclusive.
    ///
    /// Each shared holder has a fencing token of its own. The protected resource must refuse tokens that are smaller than
    /// the largest of an exclusive holder; the order of shared holders' tokens has no meaning.
    ///
    /// ```
    /// # leasehold_tests::doc(async |client| {
    /// let one = client.lock("catalogue").shared().await?;
    /// let another = client.lock("catalogue").shared().await?;
    /// assert!(one.is_held() && another.is_held());
    /// assert!(client.lock("catalogue").try_acquire().await?.is_none());
    /// # Ok(()) });
    /// ```
    pub fn shared(mut self) -> Self {
        self.spec.locks = self.spec.locks.in_mode(Mode::Shared);
        self
    }
}

impl LockAllRequest {
    pub(crate) fn all(session: Session, locks: Arc<[LockSpec]>) -> Self {
        Self::new(session, Locks::All(locks))
    }

    /// Asks for shared holds of all of the locks, whatever their own modes; see [`LockRequest::shared`]. For a mode of each,
    /// pass [`LockSpec`]s.
    ///
    /// ```
    /// # leasehold_tests::doc(async |client| {
    /// let guards = client.lock_all(["prices", "stock"]).shared().await?;
    /// assert!(client.lock("stock").shared().try_acquire().await?.is_some());
    /// # Ok(()) });
    /// ```
    pub fn shared(mut self) -> Self {
        self.spec.locks = self.spec.locks.in_mode(Mode::Shared);
        self
    }
}

impl PermitRequest {
    pub(crate) fn permits(session: Session, name: Arc<str>, mode: Mode) -> Self {
        Self::new(session, Locks::One(LockSpec::new(name, mode)))
    }
}

impl<G> LockRequest<G> {
    fn new(session: Session, locks: Locks) -> Self {
        let mut spec = AcquireSpec::new(locks);
        spec.wait = session.default_wait();
        Self {
            session,
            spec,
            granted: PhantomData,
        }
    }

    /// Removes the bound of the wait, the client's default too.
    pub(crate) fn without_bound(mut self) -> Self {
        self.spec.wait = None;
        self
    }

    /// Counts work under what this asks for.
    pub(crate) fn begin_body(&self) -> Body {
        self.session.begin_body()
    }

    /// Sets the time to wait: at most 24 h; zero means not to wait. Default: the client's
    /// [`default_wait`](crate::ClientBuilder::default_wait), or as long as it takes, over reconnects too.
    ///
    /// ```
    /// # leasehold_tests::doc(async |client| {
    /// use std::time::Duration;
    ///
    /// let guard = client.lock("orders/42").wait(Duration::from_secs(2)).await?;
    /// # Ok(()) });
    /// ```
    pub fn wait(mut self, wait: Duration) -> Self {
        self.spec.wait = Some(wait);
        self
    }

    /// Attaches a value to each hold for others to see: at most 4 KiB. Default: empty.
    ///
    /// ```
    /// # leasehold_tests::doc(async |client| {
    /// let guard = client.lock("orders/42").value("worker 3").await?;
    /// let view = client.admin().get_lock("orders/42").await?;
    /// assert_eq!(view.holders[0].value, b"worker 3");
    /// # Ok(()) });
    /// ```
    pub fn value(mut self, value: impl Into<Vec<u8>>) -> Self {
        self.spec.value = value.into();
        self
    }

    /// Sets the time for which each name stays closed, or the permits stay taken, if the hold ends uncleanly, that is in
    /// any way other than a release: 0 to the maximum TTL. Default: 0.
    ///
    /// Use it for work that can neither be fenced nor be stopped at the moment its lock is lost: a delay of the TTL keeps
    /// the next holder out until the former one must have noticed.
    ///
    /// ```
    /// # leasehold_tests::doc(async |client| {
    /// use std::time::Duration;
    ///
    /// let guard = client.lock("tape").lock_delay(Duration::from_secs(10)).await?;
    /// # Ok(()) });
    /// ```
    pub fn lock_delay(mut self, lock_delay: Duration) -> Self {
        self.spec.lock_delay = lock_delay;
        self
    }

    /// Bounds the time for which each lock is held, however healthy this client is: 1 s to 365 days, counted from its grant. Time
    /// in the queue does not count, and moving to another coordinator does not begin it anew. Default: no bound but that of the
    /// coordinator's rules.
    ///
    /// The guard knows its end from the start, [`LockGuard::ends_in`]; [`LockGuard::ends_soon`] warns ahead. It is lost at the
    /// end with [`LostReason::MaxHold`](crate::LostReason::MaxHold), 1 % of the bound early for clocks that run at different
    /// speeds. The lock-delay applies, since the work was not done. Of a lock that the actor holds already, the bound of the first
    /// guard stays.
    ///
    /// ```
    /// # leasehold_tests::doc(async |client| {
    /// use std::time::Duration;
    ///
    /// let guard = client.lock("nightly").max_hold(Duration::from_secs(3600)).await?;
    /// assert!(guard.ends_in().is_some_and(|left| left > Duration::from_secs(3500)));
    /// tokio::select! {
    ///     () = guard.ends_soon(Duration::from_secs(60)) => println!("one minute left"),
    ///     () = async { /* work */ } => {}
    /// }
    /// # Ok(()) });
    /// ```
    pub fn max_hold(mut self, max_hold: Duration) -> Self {
        self.spec.max_hold = Some(max_hold);
        self
    }

    /// Asks in the name of an actor, made by [`Session::actor`]. Default: no actor.
    ///
    /// ```
    /// # leasehold_tests::doc(async |client| {
    /// use leasehold_client::AcquireError;
    ///
    /// let me = client.actor();
    /// let guard = client.lock("orders/42").actor(me).await?;
    /// // The actor would wait for itself.
    /// let error = client.lock("orders/42").actor(me).await.unwrap_err();
    /// assert!(matches!(error, AcquireError::SelfDeadlock { .. }));
    /// # Ok(()) });
    /// ```
    pub fn actor(mut self, actor: Actor) -> Self {
        self.spec.actor = actor.get();
        self
    }

    /// Allows the actor to hold what it holds already once more, under the same fencing token. The lock comes free when
    /// the last of its guards is released. Needs [`LockRequest::actor`].
    ///
    /// An actor that holds the lock shared can't have it exclusively on top: the coordinator refuses that with
    /// [`AcquireError::UpgradeRefused`], because two actors that try would wait for each other. Permits that the actor
    /// has count once.
    ///
    /// ```
    /// # leasehold_tests::doc(async |client| {
    /// let me = client.actor();
    /// let request = client.lock("orders/42").actor(me).reentrant();
    /// let outer = request.clone().await?;
    /// let inner = request.await?;
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

    /// Fails as soon as a coordinator can't serve the request because of its store, for programs that say why they wait, and ask
    /// again themselves. Default: the session asks again until the wait is over.
    ///
    /// ```
    /// # leasehold_tests::doc(async |client| {
    /// let guard = client.lock("orders/42").without_retries().await?;
    /// # Ok(()) });
    /// ```
    pub fn without_retries(mut self) -> Self {
        self.spec.without_retries = true;
        self
    }

    /// Makes the request, with its wait, a part of this trace. Default: the context from the client's
    /// [source](crate::ClientBuilder::trace_context_from), which also applies to later requests of the guard.
    ///
    /// ```
    /// # leasehold_tests::doc(async |client| {
    /// let context = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01".parse()?;
    /// let guard = client.lock("orders/42").trace_context(context).await?;
    /// # Ok(()) });
    /// ```
    pub fn trace_context(mut self, context: TraceContext) -> Self {
        self.spec.trace = Some(context);
        self
    }
}

impl<G: Grant> LockRequest<G> {
    /// Acquires the lock if it is free, and returns none if it is not, or if others wait for it. Ignores
    /// [`LockRequest::wait`]. To learn who holds the lock, await the request with a wait of zero and look at
    /// [`AcquireError::Busy`].
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
    /// Fails as the request itself does, and with [`AcquireError::Unavailable`] if there is no connection and attempts to
    /// make one fail at all coordinators, or if it breaks before the answer.
    pub async fn try_acquire(self) -> Result<Option<G>, AcquireError> {
        match self.wait(Duration::ZERO).await {
            Ok(granted) => Ok(Some(granted)),
            Err(AcquireError::Busy { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Acquires the lock, runs the work while holding it, and releases it. If the lock is lost, the work is dropped at the
    /// await where it stands; while the lock is only [suspended](crate::LockState::Suspended), the work goes on. Work that
    /// blocks its thread can't be stopped, and should pass on the fencing token.
    ///
    /// The work gets a watch of the hold; for several locks, one watch for each lock in the order of the names.
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
    /// [`WithLockError::Acquire`] if the lock was not acquired, and [`WithLockError::Lost`] if it was lost before the work
    /// was done. That includes a loss that is noticed only afterwards: the work's result is dropped then, since the work
    /// did not run under the lock from beginning to end.
    pub async fn with<T, F>(self, work: impl FnOnce(G::Watch) -> F) -> Result<T, WithLockError>
    where
        F: Future<Output = T>,
    {
        let session = self.session.clone();
        let granted = self.await?;
        let body = session.begin_body();
        let work = work(granted.watch());
        let done = LockGuards::new(granted.into_guards()).run(body, work).await;
        done.map_err(|unprotected| unprotected.loss)
    }

    /// Runs work that can fail, as [`LockRequest::with`] does. The work's error and that of the lock become one: `E` is
    /// any error that is made from a [`WithLockError`], such as `Box<dyn Error>` or an enum of the program.
    ///
    /// ```
    /// # leasehold_tests::doc(async |client| {
    /// use leasehold_client::WithLockError;
    ///
    /// #[derive(thiserror::Error, Debug)]
    /// enum SaleError {
    ///     #[error(transparent)]
    ///     Lock(#[from] WithLockError),
    ///     #[error("sold out")]
    ///     SoldOut,
    /// }
    ///
    /// let sale = client
    ///     .lock("stock/apples")
    ///     .try_with(|lock| async move {
    ///         let left: u32 = 0; // Read with lock.fencing_token().
    ///         left.checked_sub(1).ok_or(SaleError::SoldOut)
    ///     })
    ///     .await;
    /// assert!(matches!(sale, Err(SaleError::SoldOut)));
    /// # Ok(()) });
    /// ```
    ///
    /// # Errors
    ///
    /// Fails with the work's own error, or with that of [`LockRequest::with`]. If the lock was lost before the work was
    /// done, the loss is the error, unless the work had failed by itself: no loss hides the work's own error, and the watch
    /// that the work got tells of the loss.
    pub async fn try_with<T, E, F>(self, work: impl FnOnce(G::Watch) -> F) -> Result<T, E>
    where
        E: From<WithLockError>,
        F: Future<Output = Result<T, E>>,
    {
        let session = self.session.clone();
        let granted = self.await.map_err(WithLockError::from)?;
        let body = session.begin_body();
        let work = work(granted.watch());
        match LockGuards::new(granted.into_guards()).run(body, work).await {
            Ok(done) => done,
            Err(Unprotected {
                loss,
                done: Some(Err(own)),
            }) => {
                tracing::info!("the work failed before its lock was lost: {loss}");
                Err(own)
            }
            Err(unprotected) => Err(unprotected.loss.into()),
        }
    }

    async fn acquire(self) -> Result<G, AcquireError> {
        let Self { session, spec, .. } = self;
        let locks = spec.locks.clone();
        let refused = |source| AcquireError::Refused {
            name: locks.label(),
            source,
        };
        let guards = session.acquire(spec).await?;
        G::granted(guards)
            .ok_or_else(|| refused(Failure::protocol("the coordinator granted nothing")))
    }
}

impl<G: Grant> IntoFuture for LockRequest<G> {
    type Output = Result<G, AcquireError>;
    type IntoFuture = AcquireFuture<G>;

    fn into_future(self) -> AcquireFuture<G> {
        AcquireFuture(Box::pin(self.acquire()))
    }
}

impl<G> Clone for LockRequest<G> {
    fn clone(&self) -> Self {
        Self {
            session: self.session.clone(),
            spec: self.spec.clone(),
            granted: PhantomData,
        }
    }
}

impl<G> fmt::Debug for LockRequest<G> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.spec.debug("LockRequest", f)
    }
}

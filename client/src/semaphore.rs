//! Asking for permits of a semaphore.

use std::{fmt, sync::Arc, time::Duration};

use crate::{
    actor::Actor,
    error::{AcquireError, Failure},
    guard::LockGuard,
    session::{AcquireSpec, Mode, Names, Session},
    trace::TraceContext,
};

/// A semaphore: a name that is held by permits, of which there are so many. Made by
/// [`Client::semaphore`](crate::Client::semaphore) and [`Session::semaphore`]; nothing happens before `acquire` or
/// `try_acquire` is called, and both can be called many times.
///
/// The limit is not stored anywhere: those who hold or wait for permits agree on it, and somebody with another one is
/// refused. Waiters are served in order, so that one who wants many is not starved by others who want few. The fencing
/// tokens of those who hold permits at the same time differ, and say nothing of one another.
///
/// ```
/// # leasehold_tests::doc(async |client| {
/// let downloads = client.semaphore("downloads", 3);
/// let one = downloads.acquire(1).await?;
/// let two = downloads.acquire(2).await?;
/// assert!(downloads.try_acquire(1).await?.is_none());
/// one.release().await?;
/// assert!(downloads.try_acquire(1).await?.is_some());
/// # Ok(()) });
/// ```
#[derive(Clone)]
#[must_use = "nothing is asked for before `acquire` or `try_acquire`"]
pub struct Semaphore {
    session: Session,
    limit: u32,
    /// But for the permits.
    spec: AcquireSpec,
}

impl Semaphore {
    pub(crate) fn new(session: Session, name: Arc<str>, limit: u32) -> Self {
        let mode = Mode::Semaphore { permits: 1, limit };
        Self {
            session,
            limit,
            spec: AcquireSpec::new(Names::One(name), mode),
        }
    }

    /// How long each acquire waits; see [`LockRequest::wait`](crate::LockRequest::wait).
    ///
    /// ```
    /// # leasehold_tests::doc(async |client| {
    /// use std::time::Duration;
    ///
    /// let downloads = client.semaphore("downloads", 3).wait(Duration::from_secs(2));
    /// let permit = downloads.acquire(1).await?;
    /// # Ok(()) });
    /// ```
    pub fn wait(mut self, wait: Duration) -> Self {
        self.spec.wait = Some(wait);
        self
    }

    /// Attached to each hold for others to see: at most 4 KiB. Default: empty.
    ///
    /// ```
    /// # leasehold_tests::doc(async |client| {
    /// let permit = client.semaphore("downloads", 3).value("worker 3").acquire(2).await?;
    /// let view = client.admin().get_lock("downloads").await?;
    /// assert_eq!(view.holders[0].value, b"worker 3");
    /// assert_eq!((view.permits_taken, view.limit), (2, 3));
    /// # Ok(()) });
    /// ```
    pub fn value(mut self, value: impl Into<Vec<u8>>) -> Self {
        self.spec.value = value.into();
        self
    }

    /// How long the permits stay taken if a hold ends uncleanly; see
    /// [`LockRequest::lock_delay`](crate::LockRequest::lock_delay).
    ///
    /// ```
    /// # leasehold_tests::doc(async |client| {
    /// use std::time::Duration;
    ///
    /// let tapes = client.semaphore("tapes", 3).lock_delay(Duration::from_secs(10));
    /// let permit = tapes.acquire(1).await?;
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
    /// let permit = client.semaphore("downloads", 3).actor(client.actor()).acquire(1).await?;
    /// # Ok(()) });
    /// ```
    pub fn actor(mut self, actor: Actor) -> Self {
        self.spec.actor = actor.get();
        self
    }

    /// The actor may hold permits already: then it holds the same permits once more, and no further ones are taken; see
    /// [`LockRequest::reentrant`](crate::LockRequest::reentrant).
    ///
    /// ```
    /// # leasehold_tests::doc(async |client| {
    /// let downloads = client.semaphore("downloads", 3).actor(client.actor()).reentrant();
    /// let outer = downloads.acquire(2).await?;
    /// let inner = downloads.acquire(2).await?;
    /// assert_eq!(inner.hold_count(), 2);
    /// let view = client.admin().get_lock("downloads").await?;
    /// assert_eq!(view.permits_taken, 2);
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

    /// Waits for so many permits, at least 1; asking for the whole limit waits until nobody else holds one. All of them
    /// are released with the guard. May be dropped at any point, and does not borrow the semaphore.
    ///
    /// ```
    /// # leasehold_tests::doc(async |client| {
    /// let downloads = client.semaphore("downloads", 3);
    /// let everything = downloads.acquire(3).await?;
    /// let waiting = tokio::spawn(downloads.acquire(1));
    /// everything.release().await?;
    /// assert!(waiting.await??.is_held());
    /// # Ok(()) });
    /// ```
    ///
    /// # Errors
    ///
    /// As for [`LockRequest::acquire`](crate::LockRequest::acquire); also [`AcquireError::LimitMismatch`] if others
    /// hold or wait for permits of another limit, and [`AcquireError::Refused`] if no permit or more than the limit
    /// are asked for.
    pub fn acquire(
        &self,
        permits: u32,
    ) -> impl Future<Output = Result<LockGuard, AcquireError>> + Send + use<> {
        let (session, limit, mut spec) = (self.session.clone(), self.limit, self.spec.clone());
        spec.mode = Mode::Semaphore { permits, limit };
        async move {
            if permits == 0 {
                // The coordinator would take it for the default, 1.
                return Err(AcquireError::Refused {
                    name: spec.names.label(),
                    source: Failure::invalid_field("acquire.permits", "must be at least 1"),
                });
            }
            session.acquire_one(spec).await
        }
    }

    /// Takes so many permits if they are free, and returns none if they are not, or if others wait. Whatever was said
    /// by [`Semaphore::wait`] is not heeded.
    ///
    /// ```
    /// # leasehold_tests::doc(async |client| {
    /// let downloads = client.semaphore("downloads", 3);
    /// let two = downloads.try_acquire(2).await?;
    /// assert!(two.is_some());
    /// assert!(downloads.try_acquire(2).await?.is_none());
    /// # Ok(()) });
    /// ```
    ///
    /// # Errors
    ///
    /// As for [`LockRequest::try_acquire`](crate::LockRequest::try_acquire) and [`Semaphore::acquire`].
    pub fn try_acquire(
        &self,
        permits: u32,
    ) -> impl Future<Output = Result<Option<LockGuard>, AcquireError>> + Send + use<> {
        let acquire = self.clone().wait(Duration::ZERO).acquire(permits);
        async move {
            match acquire.await {
                Ok(guard) => Ok(Some(guard)),
                Err(AcquireError::Busy { .. }) => Ok(None),
                Err(error) => Err(error),
            }
        }
    }
}

impl fmt::Debug for Semaphore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.spec.debug("Semaphore", f)
    }
}

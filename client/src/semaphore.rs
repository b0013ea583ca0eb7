//! Semaphores, which permits are requested from.

use std::{ops::RangeInclusive, sync::Arc};

use crate::{
    request::PermitRequest,
    session::{Mode, Session},
};

/// Semaphore: a name that is held by permits, up to a limit. Made by [`Client::semaphore`](crate::Client::semaphore) and
/// [`Session::semaphore`]. Cheap to clone.
///
/// Every request names the limit. Those who hold or wait for permits agree on one, and the coordinator refuses a request with
/// another, unless it has a [revision](Semaphore::limit_revision). Waiters are served in order, so that a request for many
/// permits is not starved by others for few. Holders of permits at the same time have different fencing tokens, whose order
/// has no meaning.
///
/// ```
/// # leasehold_tests::doc(async |client| {
/// let downloads = client.semaphore("downloads", 3);
/// let one = downloads.permits(1).await?;
/// let two = downloads.permits(2).await?;
/// assert!(downloads.permits(1).try_acquire().await?.is_none());
/// one.release().await?;
/// assert!(downloads.permits(1).try_acquire().await?.is_some());
/// # Ok(()) });
/// ```
#[derive(Clone, Debug)]
pub struct Semaphore {
    session: Session,
    name: Arc<str>,
    limit: u32,
    revision: u32,
}

impl Semaphore {
    pub(crate) fn new(session: Session, name: Arc<str>, limit: u32) -> Self {
        Self {
            session,
            name,
            limit,
            revision: 0,
        }
    }

    /// Sets the revision of the decision for this limit, for example the number of the deployment that changes
    /// the limit. Default: 0.
    ///
    /// A request with a greater revision than the one in force replaces the limit at once, also if it has to wait. One with a
    /// smaller revision, as of programs that are not updated yet, follows the limit in force. So the limit changes while
    /// permits are held, and changes once, whatever the order of the requests. To go back, use a greater revision again.
    ///
    /// A greater limit lets waiters in at once. A smaller one takes no permits away: nobody gets any until enough are given
    /// back. Requests for more permits than the limit in force fail with
    /// [`AcquireError::LimitMismatch`](crate::AcquireError::LimitMismatch); those that wait already, when their turn comes.
    ///
    /// ```
    /// # leasehold_tests::doc(async |client| {
    /// let before = client.semaphore("downloads", 1);
    /// let after = client.semaphore("downloads", 2).limit_revision(1);
    /// let one = before.permits(1).await?;
    /// let two = after.permits(1).await?;
    /// two.release().await?;
    /// // The former version gets along with the new limit.
    /// let two = before.permits(1).await?;
    /// # Ok(()) });
    /// ```
    pub fn limit_revision(mut self, revision: u32) -> Self {
        self.revision = revision;
        self
    }

    /// Returns the semaphore's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns how many permits there are, according to this program.
    pub fn limit(&self) -> u32 {
        self.limit
    }

    /// Requests this many permits: 1 to the limit. A request for the whole limit waits until nobody else holds a permit.
    ///
    /// ```
    /// # leasehold_tests::doc(async |client| {
    /// let downloads = client.semaphore("downloads", 3);
    /// let everything = downloads.permits(3).await?;
    /// let waiting = tokio::spawn(downloads.permits(1).into_future());
    /// everything.release().await?;
    /// assert!(waiting.await??.is_held());
    /// # Ok(()) });
    /// ```
    pub fn permits(&self, permits: u32) -> PermitRequest {
        self.request(permits, None)
    }

    /// Requests as many permits as are free, but no fewer than the start of the range and no more than its end: 1 to the limit
    /// each. [`SemaphorePermit::permits`](crate::SemaphorePermit::permits) says how many were granted.
    ///
    /// The request waits like any other, behind those that asked before it, until the least number is free. It never gets more
    /// permits later on; to give some of them back, use [`SemaphorePermit::keep`](crate::SemaphorePermit::keep).
    ///
    /// ```
    /// # leasehold_tests::doc(async |client| {
    /// let workers = client.semaphore("workers", 8);
    /// let five = workers.permits(5).await?;
    /// // As many as are left, if it is two at least.
    /// let left = workers.permits_between(2..=6).await?;
    /// assert_eq!(left.permits(), 3);
    /// assert!(workers.permits_between(1..=6).try_acquire().await?.is_none());
    /// # Ok(()) });
    /// ```
    pub fn permits_between(&self, permits: RangeInclusive<u32>) -> PermitRequest {
        self.request(*permits.end(), Some(*permits.start()))
    }

    fn request(&self, permits: u32, at_least: Option<u32>) -> PermitRequest {
        let mode = Mode::Semaphore {
            permits,
            at_least,
            limit: self.limit,
            revision: self.revision,
        };
        PermitRequest::permits(self.session.clone(), self.name.clone(), mode)
    }
}

//! Semaphores, which permits are requested from.

use std::sync::Arc;

use crate::{request::PermitRequest, session::Session};

/// Semaphore: a name that is held by permits, up to a limit. Made by [`Client::semaphore`](crate::Client::semaphore) and
/// [`Session::semaphore`]. Cheap to clone.
///
/// The store keeps no limit: those who hold or wait for permits agree on one, and the coordinator refuses a request with
/// another. Waiters are served in order, so that a request for many permits is not starved by others for few. Holders of
/// permits at the same time have different fencing tokens, whose order has no meaning.
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
}

impl Semaphore {
    pub(crate) fn new(session: Session, name: Arc<str>, limit: u32) -> Self {
        Self {
            session,
            name,
            limit,
        }
    }

    /// Returns the semaphore's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns how many permits there are.
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
        PermitRequest::permits(self.session.clone(), self.name.clone(), permits, self.limit)
    }
}

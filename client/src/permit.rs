//! Permits of a semaphore.

use std::sync::{
    Arc,
    atomic::{AtomicU32, Ordering::Relaxed},
};

use crate::{
    error::HoldError,
    guard::{LockGuard, LockWatch, hold_methods},
    lease::Lease,
    session::Change,
};

/// Permits of a semaphore that are held together until released, dropped or lost.
///
/// A permit promises what a [`LockGuard`] promises. Dropping it releases all of its permits in the background; that never
/// blocks and needs no runtime.
///
/// ```
/// # leasehold_tests::doc(async |client| {
/// let permit = client.semaphore("downloads", 3).permits(2).await?;
/// assert_eq!((permit.name(), permit.permits()), ("downloads", 2));
/// permit.release().await?;
/// # Ok(()) });
/// ```
#[must_use = "the permits are released when this is dropped"]
pub struct SemaphorePermit {
    guard: LockGuard,
    permits: AtomicU32,
}

hold_methods!(SemaphorePermit: name, is_held; "semaphore", "permit");

impl SemaphorePermit {
    pub(crate) fn new(guard: LockGuard) -> Self {
        let permits = AtomicU32::new(guard.permits().unwrap_or(0));
        Self { guard, permits }
    }

    fn lease(&self) -> &Arc<Lease> {
        self.guard.lease()
    }

    /// Returns how many permits this holds: at least 1, and from a call of [`SemaphorePermit::keep`] on no more than those.
    pub fn permits(&self) -> u32 {
        self.permits.load(Relaxed)
    }

    /// Gives permits back, so that at most `permits` are left, at least 1, and lets waiters in that fit then. From the call on,
    /// the others count as given back. Does nothing if this holds no more. The fencing token stays.
    ///
    /// If the actor holds the permits more than once, all of its guards share the one hold, which has no more permits from
    /// then on, although the others still say how many they were granted.
    ///
    /// ```
    /// # leasehold_tests::doc(async |client| {
    /// let downloads = client.semaphore("downloads", 3);
    /// let permit = downloads.permits(3).await?;
    /// // Two of the three files are there.
    /// permit.keep(1).await?;
    /// assert_eq!(permit.permits(), 1);
    /// assert!(downloads.permits(2).try_acquire().await?.is_some());
    /// # Ok(()) });
    /// ```
    ///
    /// # Errors
    ///
    /// If the permits have been lost, if no answer came within ten seconds or before the stream ended, or if the coordinator
    /// could not carry it out. After an error they may have been given back or not; ask again to be sure.
    pub async fn keep(&self, permits: u32) -> Result<(), HoldError> {
        if permits > 0 {
            self.permits.fetch_min(permits, Relaxed);
        }
        self.guard.change(Change::Reduce(permits)).await
    }

    /// Returns how many times its actor held these permits when they were granted; see [`LockGuard::hold_count`].
    pub fn hold_count(&self) -> u32 {
        self.guard.hold_count()
    }

    /// Returns a view of this hold that can be cloned and sent around, and does not keep it.
    pub fn watch(&self) -> LockWatch {
        self.guard.watch()
    }

    /// Changes the value attached to the hold; see [`LockGuard::set_value`].
    ///
    /// # Errors
    ///
    /// As for [`LockGuard::set_value`].
    pub async fn set_value(&self, value: impl Into<Vec<u8>>) -> Result<(), HoldError> {
        self.guard.set_value(value).await
    }

    /// Turns this into a guard of the same hold, for programs that treat locks and permits alike.
    ///
    /// ```
    /// # leasehold_tests::doc(async |client| {
    /// let permit = client.semaphore("downloads", 3).permits(2).await?;
    /// let guards = [client.lock("orders/42").await?, permit.into_guard()];
    /// assert!(guards.iter().all(|guard| guard.is_held()));
    /// # Ok(()) });
    /// ```
    pub fn into_guard(self) -> LockGuard {
        self.guard
    }

    /// Gives the permits back; see [`LockGuard::release`].
    ///
    /// # Errors
    ///
    /// As for [`LockGuard::release`].
    pub async fn release(self) -> Result<(), HoldError> {
        self.guard.release().await
    }
}

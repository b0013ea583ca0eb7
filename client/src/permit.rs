//! Permits of a semaphore.

use std::sync::Arc;

use crate::{
    error::HoldError,
    guard::{LockGuard, LockWatch, hold_methods},
    lease::Lease,
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
    permits: u32,
}

hold_methods!(SemaphorePermit: name, is_held; "semaphore", "permit");

impl SemaphorePermit {
    pub(crate) fn new(guard: LockGuard, permits: u32) -> Self {
        Self { guard, permits }
    }

    fn lease(&self) -> &Arc<Lease> {
        self.guard.lease()
    }

    /// Returns how many permits this holds: at least 1.
    pub fn permits(&self) -> u32 {
        self.permits
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

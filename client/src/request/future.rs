//! Future of a request that is under way.

use std::{
    fmt,
    future::Future,
    pin::Pin,
    task::{Context, Poll},
};

use crate::error::AcquireError;

/// Future of a [`LockRequest`](crate::LockRequest) that is under way. It borrows nothing, so that it can be spawned.
///
/// ```
/// # leasehold_tests::doc(async |client| {
/// let held = client.lock("orders/42").await?;
/// let waiting = tokio::spawn(client.lock("orders/42").into_future());
/// held.release().await?;
/// assert!(waiting.await??.is_held());
/// # Ok(()) });
/// ```
#[must_use = "futures do nothing unless they are polled"]
pub struct AcquireFuture<G>(
    pub(super) Pin<Box<dyn Future<Output = Result<G, AcquireError>> + Send>>,
);

impl<G> Future for AcquireFuture<G> {
    type Output = Result<G, AcquireError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.0.as_mut().poll(cx)
    }
}

impl<G> fmt::Debug for AcquireFuture<G> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AcquireFuture").finish_non_exhaustive()
    }
}

//! Streams on which only the coordinator speaks: what happens to locks, who leads.

use futures_util::{StreamExt, stream, stream::BoxStream};
use leasehold_store::{LockStore, Status as StoreStatus, Store};
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;
use tonic::Status;

use super::streams::draining;
use crate::status::{Reason, Refusal};

/// What such a stream gives.
pub(super) type ServerStream<T> = BoxStream<'static, Result<T, Status>>;

/// Source of a stream's messages.
pub(super) trait Source: Send + 'static {
    /// A message.
    type Message: Send + 'static;

    /// The next one; `None` when the coordinator stops. It may be dropped at any point.
    fn next(&mut self) -> impl Future<Output = Option<Self::Message>> + Send;
}

/// Gives what a source has, until the client goes, or the coordinator, which tells it to go elsewhere, or its right to it is
/// `lost`. A client that does not read costs what its source keeps for it, and no more. `kept` is dropped with the stream.
pub(super) fn tell<S: Source>(
    source: S,
    gone: CancellationToken,
    lost: impl Future<Output = Refusal> + Send + 'static,
    kept: impl Send + 'static,
) -> ServerStream<S::Message> {
    let messages = stream::unfold((source, kept), |(mut source, kept)| async {
        let message = source.next().await?;
        Some((Ok(message), (source, kept)))
    });
    let (why, told) = oneshot::channel();
    let ended = async move {
        let refusal = tokio::select! {
            biased;
            () = gone.cancelled_owned() => draining(),
            refusal = lost => refusal,
        };
        // It is about to be asked for.
        let _ = why.send(refusal);
    };
    // One future for as long as the stream lives: to make one for each message would cost more than the message.
    let messages = messages.take_until(ended);
    let last = stream::once(async { Err(told.await.unwrap_or_else(|_| draining()).into()) });
    messages.chain(last).boxed()
}

/// Refuses what the store does not offer, or what can't begin while it is out of reach.
pub(super) fn check_feeds(store: &Store) -> Result<(), Refusal> {
    store.offers_feeds()?;
    match &*store.status().borrow() {
        StoreStatus::Up { .. } => Ok(()),
        StoreStatus::Down { reason, .. } => Err(Refusal::new(
            Reason::StoreUnavailable,
            format!("the store is out of reach: {reason}; try again"),
        )),
    }
}

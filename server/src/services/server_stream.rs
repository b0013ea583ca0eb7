//! Streams on which only the coordinator sends: events of locks, and leaders of elections.

use futures_util::{Stream, StreamExt, stream, stream::BoxStream};
use leasehold_store::{Status as StoreStatus, Store};
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;
use tonic::Status;

use super::streams::draining;
use crate::status::{Reason, Refusal};

/// Messages of such a stream.
pub(super) type ServerStream<T> = BoxStream<'static, Result<T, Status>>;

/// Streams the messages until the client or the coordinator goes away, or until the client's right to them is `lost`. A
/// coordinator that goes away tells the client to go elsewhere. A client that does not read costs no more than the source of the
/// messages keeps for it.
pub(super) fn tell<T: Send + 'static>(
    messages: impl Stream<Item = T> + Send + 'static,
    gone: CancellationToken,
    lost: impl Future<Output = Refusal> + Send + 'static,
) -> ServerStream<T> {
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
    let messages = messages.map(Ok).take_until(ended);
    let last = stream::once(async { Err(told.await.unwrap_or_else(|_| draining()).into()) });
    messages.chain(last).boxed()
}

/// Checks that the store offers feeds, and that one can begin now.
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

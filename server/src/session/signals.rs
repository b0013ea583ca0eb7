//! What seldom happens to a session from outside, in one stream. Each source is looked at only when it has something to
//! say, so that a session that is busy with messages does not pay for watching all of them.

use futures_util::{
    StreamExt,
    stream::{self, BoxStream, SelectAll},
};
use leasehold_store::Status;
use tokio::sync::watch;

use super::task::Shutdown;
use crate::listener::{ConnectionHandle, Ending};

/// What has happened.
#[derive(Clone, Copy, Debug)]
pub(super) enum Signal {
    /// Sessions end now.
    Stopping,
    /// Sessions are to finish.
    Draining,
    /// The connection has ended.
    Ended(Ending),
    /// The store is back, or had been away.
    StoreUp,
}

/// Watches all of it.
pub(super) fn signals(
    shutdown: &Shutdown,
    connection: &ConnectionHandle,
    status: watch::Receiver<Status>,
) -> SelectAll<BoxStream<'static, Signal>> {
    let stopping = shutdown.stopping.clone().cancelled_owned();
    let draining = shutdown.draining.clone().cancelled_owned();
    let connection = connection.clone();
    let ended = async move { Signal::Ended(connection.ended().await) };
    let up = stream::unfold(status, |mut status| async {
        loop {
            status.changed().await.ok()?;
            if matches!(*status.borrow_and_update(), Status::Up { .. }) {
                return Some((Signal::StoreUp, status));
            }
        }
    });
    let mut signals = SelectAll::new();
    signals.push(
        stream::once(async {
            stopping.await;
            Signal::Stopping
        })
        .boxed(),
    );
    signals.push(stream::once(ended).boxed());
    signals.push(
        stream::once(async {
            draining.await;
            Signal::Draining
        })
        .boxed(),
    );
    signals.push(up.boxed());
    signals
}

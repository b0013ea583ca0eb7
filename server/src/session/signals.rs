//! Rare signals to a session from outside, in one stream that is polled only when it has one, so that a session that
//! is busy with messages does not pay for watching all of them.

use std::pin::pin;

use futures_util::{
    StreamExt,
    stream::{self, BoxStream, SelectAll},
};
use leasehold_store::Status;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::{
    access::{Rights, rules::Granted},
    listener::{ConnectionHandle, Ending},
    status::Refusal,
};

/// Stages of a coordinator's shutdown, for its sessions.
#[derive(Clone, Debug)]
pub struct Shutdown {
    /// Sessions are told to finish.
    pub draining: CancellationToken,
    /// Sessions end, and leave what they hold to expire.
    pub stopping: CancellationToken,
    /// Changes when the machine was suspended.
    pub suspended: watch::Receiver<()>,
}

#[cfg(test)]
impl Shutdown {
    /// Returns one of which nothing has begun.
    pub(crate) fn idle() -> Self {
        Self {
            draining: CancellationToken::new(),
            stopping: CancellationToken::new(),
            suspended: watch::channel(()).1,
        }
    }
}

/// Event from outside a session.
#[derive(Clone, Debug)]
pub(super) enum Signal {
    /// Sessions end now.
    Stopping,
    /// Sessions are to finish.
    Draining,
    /// The connection has ended.
    Ended(Ending),
    /// The store can be reached, or can't be.
    Store(bool),
    /// The client may do this from now on, or is nobody any more.
    Rights(Result<Granted, Refusal>),
    /// The machine was suspended: deadlines have come nearer than timers know.
    Suspended,
}

/// All that is watched.
pub(super) type Signals = SelectAll<BoxStream<'static, Signal>>;

/// Watched sources, and the signals already given.
struct Watched {
    shutdown: Shutdown,
    connection: ConnectionHandle,
    status: watch::Receiver<Status>,
    told_draining: bool,
    told_ended: bool,
}

/// Watches all of it.
pub(super) fn signals(
    shutdown: &Shutdown,
    connection: &ConnectionHandle,
    status: watch::Receiver<Status>,
    rights: Rights,
) -> Signals {
    let watched = Watched {
        shutdown: shutdown.clone(),
        connection: connection.clone(),
        status,
        told_draining: false,
        told_ended: false,
    };
    let signals = stream::unfold(watched, |mut watched| async {
        let signal = watched.next().await;
        Some((signal, watched))
    });
    let changes = stream::unfold(Some(rights), |rights| async {
        let mut rights = rights?;
        match rights.changed().await {
            Ok(()) => {
                let granted = rights.granted().clone();
                Some((Signal::Rights(Ok(granted)), Some(rights)))
            }
            Err(refusal) => Some((Signal::Rights(Err(refusal)), None)),
        }
    });
    // Its members are polled only when they were woken.
    SelectAll::from_iter([signals.boxed(), changes.boxed()])
}

impl Watched {
    async fn next(&mut self) -> Signal {
        let mut ended = pin!(self.connection.ended());
        tokio::select! {
            biased;
            () = self.shutdown.stopping.cancelled() => Signal::Stopping,
            ending = &mut ended, if !self.told_ended => {
                self.told_ended = true;
                Signal::Ended(ending)
            }
            () = self.shutdown.draining.cancelled(), if !self.told_draining => {
                self.told_draining = true;
                Signal::Draining
            }
            Ok(()) = self.status.changed() => {
                let is_up = self.status.borrow_and_update().is_up();
                Signal::Store(is_up)
            }
            Ok(()) = self.shutdown.suspended.changed() => Signal::Suspended,
        }
    }
}

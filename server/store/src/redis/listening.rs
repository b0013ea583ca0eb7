//! Separate connection that listens to channels.

use std::{sync::Arc, time::Duration};

use redis::{Pipeline, PushInfo, PushKind, RedisResult, Value, aio::MultiplexedConnection};
use tokio::{
    sync::{mpsc, watch},
    time::timeout,
};
use tokio_util::task::AbortOnDropHandle;
use tracing::debug;

use super::{
    dial::{Full, Listener, Purpose},
    place::Place,
    slot::Slot,
    status::{Board, DownCause, Fault, LinkStatus},
    upkeep::{Timing, Upkeep},
};
use crate::{feed::FeedItem, measure::Meter};

/// Channels and patterns that are subscribed from the beginning.
#[derive(Debug, Default)]
pub(super) struct Heard {
    pub(super) channels: Vec<Vec<u8>>,
    pub(super) patterns: Vec<Vec<u8>>,
}

/// Listening connection. It is closed when this is dropped.
pub struct Listening {
    slot: Arc<Slot>,
    board: Arc<Board>,
    command_timeout: Duration,
    _task: AbortOnDropHandle<()>,
}

impl Listening {
    /// Starts to connect to `place`; each connection listens to `of`. The log calls it `what`, `commands` are the command
    /// connections to the same place, and `meter` notes refusals.
    pub(super) fn start(
        place: Place,
        timing: Timing,
        (what, commands, meter): (String, &Arc<Board>, &Meter),
        of: Heard,
        listener: Listener,
    ) -> Self {
        let fault = Fault::new(
            DownCause::Connecting,
            format!("still connecting to {place}"),
        );
        let board = Arc::new(Board::new(what, 1, &fault).beside(commands));
        let slot = Arc::new(Slot::new(0, Arc::clone(&board), fault));
        let upkeep = Upkeep {
            slot: Arc::clone(&slot),
            place,
            purpose: Purpose::Subscription {
                channels: of.channels.into(),
                patterns: of.patterns.into(),
                listener,
            },
            timing,
            meter: meter.clone(),
            warns_of_eviction: false,
        };
        Self {
            slot,
            board,
            command_timeout: timing.command_timeout,
            _task: AbortOnDropHandle::new(tokio::spawn(upkeep.run())),
        }
    }

    /// Returns whether it listens, as it changes.
    pub fn status(&self) -> watch::Receiver<LinkStatus> {
        self.board.watch()
    }

    /// Subscribes to more channels, for as long as this connection lasts. Does nothing without a connection; one that does not
    /// confirm is given up.
    pub(super) async fn subscribe(&self, channels: &[Vec<u8>]) {
        self.change("SUBSCRIBE", channels).await;
    }

    /// Unsubscribes from channels.
    pub(super) async fn unsubscribe(&self, channels: &[Vec<u8>]) {
        self.change("UNSUBSCRIBE", channels).await;
    }

    /// Sends one command for each of these channels of slots, separately, because their slots differ. Returns Redis's answer to
    /// each; `None` without a connection, or if it did not answer and was given up.
    pub(super) async fn ask_of_slots(
        &self,
        command: &str,
        channels: &[Vec<u8>],
    ) -> Option<Vec<Value>> {
        let mut pipeline = Pipeline::with_capacity(channels.len());
        for channel in channels {
            pipeline.cmd(command).arg(channel);
        }
        let asked = async |mut connection: MultiplexedConnection| {
            let asked = connection.send_packed_commands(&pipeline, 0, channels.len());
            asked.await
        };
        self.ask(command, DownCause::Lost, asked).await
    }

    async fn change(&self, command: &str, channels: &[Vec<u8>]) {
        let changed = async |mut connection: MultiplexedConnection| match command {
            "SUBSCRIBE" => connection.subscribe(channels).await,
            _ => connection.unsubscribe(channels).await,
        };
        self.ask(command, DownCause::Rejected, changed).await;
    }

    /// Asks over the live connection, if there is one. Gives it up if it does not answer, or fails, which is for the cause
    /// `failed`.
    async fn ask<T>(
        &self,
        command: &str,
        failed: DownCause,
        ask: impl AsyncFnOnce(MultiplexedConnection) -> RedisResult<T>,
    ) -> Option<T> {
        let live = self.slot.live().ok()?;
        let fault = match timeout(self.command_timeout, ask(live.connection.clone())).await {
            Ok(Ok(replies)) => {
                live.answered();
                return Some(replies);
            }
            // The text of an error could repeat a channel, but holds no secret.
            Ok(Err(error)) => Fault::new(failed, format!("{command} failed: {error}")),
            Err(_) => {
                let millis = self.command_timeout.as_millis();
                let reason = format!("{command} was not answered within {millis} ms");
                Fault::new(DownCause::TimedOut, reason)
            }
        };
        self.slot.give_up(live.id, fault);
        None
    }
}

impl std::fmt::Debug for Listening {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Listening").finish_non_exhaustive()
    }
}

/// Gives an item to a feed.
pub(super) fn give(items: &mpsc::Sender<FeedItem>, item: FeedItem) -> Result<(), Full> {
    match items.try_send(item) {
        Err(mpsc::error::TrySendError::Full(_)) => Err(Full),
        // Without a reader, the connection is about to be closed.
        _ => Ok(()),
    }
}

/// Passes on what `read` makes of the payload of each message, unless the queue is full.
pub(super) fn forward_to<T: Send + 'static>(
    messages: mpsc::Sender<T>,
    read: impl Fn(Vec<u8>) -> Option<T> + Send + Sync + 'static,
) -> Listener {
    Arc::new(move |PushInfo { kind, data }| {
        if kind == PushKind::Message
            && let Some(Value::BulkString(payload)) = data.into_iter().nth(1)
            && let Some(message) = read(payload)
            && messages.try_send(message).is_err()
        {
            debug!("a wake-up message was dropped, because too many wait to be read");
        }
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(kind: PushKind, payload: &str) -> PushInfo {
        let data = ["channel", payload]
            .map(|text| Value::BulkString(text.into()))
            .to_vec();
        PushInfo { kind, data }
    }

    #[test]
    fn messages_are_forwarded_and_what_nobody_reads_is_dropped() {
        let (messages, mut received) = mpsc::channel(2);
        let forward = forward_to(messages, Some);
        forward(message(PushKind::Subscribe, "not a message")).unwrap();
        for payload in ["one", "two", "too many"] {
            forward(message(PushKind::Message, payload)).unwrap();
        }
        assert_eq!(received.try_recv().unwrap(), b"one");
        assert_eq!(received.try_recv().unwrap(), b"two");
        received.try_recv().unwrap_err();
        forward(message(PushKind::Message, "room again")).unwrap();
        assert_eq!(received.try_recv().unwrap(), b"room again");
        drop(received);
        forward(message(PushKind::Message, "nobody")).unwrap();
    }
}

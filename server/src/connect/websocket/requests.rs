//! Messages of a client on their way from its WebSocket to the request body of the call.

use std::{
    pin::{Pin, pin},
    sync::Arc,
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use http_body::Frame;
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore, mpsc},
    task::unconstrained,
};
use tonic::Status;

use super::super::envelope;

/// Most bytes of messages that wait for the call: as many as a stream of HTTP/2 has. One larger message may wait alone.
const WINDOW: u32 = 256 * 1024;
/// Bytes that a message counts in addition to its own, so that many small ones are bounded too.
const OVERHEAD: usize = 64;

/// Sending side of the queue. If it is dropped before it has [ended](Self::end), the body fails: a call must not take a fault of the
/// coordinator, or a broken connection, for an end that the client meant.
#[derive(Debug)]
pub(super) struct Requests {
    queue: mpsc::UnboundedSender<Item>,
    room: Arc<Semaphore>,
}

/// Body of the request: the messages, each in an envelope of Connect.
#[derive(Debug)]
pub(super) struct Received {
    queue: mpsc::UnboundedReceiver<Item>,
    is_over: bool,
}

#[derive(Debug)]
enum Item {
    Message(Bytes, OwnedSemaphorePermit),
    End(Result<(), Status>),
}

/// Returns both sides of a new queue.
pub(super) fn queue() -> (Requests, Received) {
    let (sender, receiver) = mpsc::unbounded_channel();
    let requests = Requests {
        queue: sender,
        room: Arc::new(Semaphore::new(WINDOW as usize)),
    };
    let received = Received {
        queue: receiver,
        is_over: false,
    };
    (requests, received)
}

impl Requests {
    /// Passes a message on, once there is room for it. A call that has ended takes no more, and the message is dropped.
    pub(super) async fn send(&self, message: Bytes) {
        let bytes = u32::try_from(message.len() + OVERHEAD).unwrap_or(WINDOW);
        let room = Arc::clone(&self.room).acquire_many_owned(bytes.min(WINDOW));
        // It is never closed.
        if let Ok(room) = room.await {
            let _ = self.queue.send(Item::Message(message, room));
        }
    }

    /// Ends the body after the messages before: as the client's own doing, or with the error for which the rest is not read.
    pub(super) fn end(&self, end: Result<(), Status>) {
        let _ = self.queue.send(Item::End(end));
    }
}

impl http_body::Body for Received {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        if self.is_over {
            return Poll::Ready(None);
        }
        // What has come is there at once, whatever the task's turn: at the end of its connection a session asks for what was sent
        // before, and does not wait.
        let item = ready!(pin!(unconstrained(self.queue.recv())).poll(cx));
        let end = match item {
            Some(Item::Message(message, _room)) => {
                return Poll::Ready(Some(Ok(Frame::data(envelope::wrap(0, &message)))));
            }
            Some(Item::End(end)) => end,
            None => Err(Status::unavailable("the WebSocket broke")),
        };
        self.is_over = true;
        Poll::Ready(end.err().map(Err))
    }
}

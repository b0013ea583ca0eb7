//! Answers on their way to a client.

use leasehold_proto::v1::{SessionResponse, session_response::Response};
use tokio::sync::mpsc;
use tonic::Status;

use crate::{listener::ConnectionHandle, telemetry::Metrics};

/// The bounded queue of one session's answers. A client that does not read them is disconnected, not buffered, and its
/// reading never slows the session down.
#[derive(Debug)]
pub struct Outbox {
    answers: mpsc::Sender<Result<SessionResponse, Status>>,
    connection: ConnectionHandle,
    metrics: Metrics,
    /// The client did not read, or the stream is gone: nothing more can be said.
    cut: bool,
}

impl Outbox {
    /// A queue of `capacity` messages, and what tonic sends from.
    pub fn new(
        capacity: usize,
        connection: ConnectionHandle,
        metrics: Metrics,
    ) -> (Self, mpsc::Receiver<Result<SessionResponse, Status>>) {
        let (answers, receiver) = mpsc::channel(capacity);
        (
            Self {
                answers,
                connection,
                metrics,
                cut: false,
            },
            receiver,
        )
    }

    /// Whether a slow reader was cut off.
    pub fn is_cut(&self) -> bool {
        self.cut
    }

    /// Says something. If the client has left too much unread, its connection is closed: behind a full window nothing
    /// else would get through.
    pub fn send(&mut self, request_id: u64, response: Response) {
        self.push(Ok(SessionResponse {
            request_id,
            response: Some(response),
        }));
    }

    /// Ends the stream with an error.
    pub fn fail(&mut self, status: Status) {
        self.push(Err(status));
    }

    fn push(&mut self, answer: Result<SessionResponse, Status>) {
        if self.cut {
            return;
        }
        match self.answers.try_send(answer) {
            Ok(()) => {}
            Err(mpsc::error::TrySendError::Full(_)) => {
                self.cut = true;
                self.metrics.slow_readers.inc();
                tracing::warn!(
                    peer = %self.connection.peer_addr(),
                    "a client did not read its stream and was disconnected; its locks stay until its lease has passed"
                );
                self.connection.kill();
            }
            // The stream is gone; its other half tells why.
            Err(mpsc::error::TrySendError::Closed(_)) => {}
        }
    }
}

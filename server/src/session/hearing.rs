//! Messages of the client, and the end of its side of the stream.

use futures_util::FutureExt;
use leasehold_proto::v1::{SessionRequest, session_request::Request};
use tonic::{Status, Streaming};

use super::{
    ending::End,
    task::Session,
    wire::{Next, Wire},
};
use crate::status::{Reason, Refusal};

impl<W: Wire> Session<W> {
    pub(super) fn on_message(&mut self, message: Result<Option<W::Asks>, Status>) -> Option<End> {
        match message {
            Ok(Some(message)) => self.on_heard(message),
            Ok(None) if self.connection.peer_ended_stream(None) => {
                self.heard_all = self.outbox.is_ending();
                (!self.heard_all).then_some(End::Peer)
            }
            Ok(None) => Some(End::Cut),
            Err(status) if self.connection.peer_ended_stream(Some(&status)) => Some(End::Peer),
            Err(status) if status.code() == tonic::Code::OutOfRange => {
                Some(End::Broken(self.coordinator.limits().message_too_large()))
            }
            Err(status) if is_undecodable(&status) => Some(End::Broken(Refusal::new(
                Reason::UnknownRequest,
                format!(
                    "the stream held a message that can't be read: {}",
                    status.message()
                ),
            ))),
            Err(_) => Some(End::Cut),
        }
    }

    fn on_heard(&mut self, message: W::Asks) -> Option<End> {
        let request = self.outbox.hear(message)?;
        self.on_request(request)
    }

    pub(super) fn on_next(&mut self, next: Next) -> Option<End> {
        match next {
            // Not its client: that may still believe in what was revoked.
            Next::Ask(SessionRequest {
                request_id,
                request: Some(Request::Close(_)),
                ..
            }) => Some(End::Closed(request_id)),
            Next::Ask(request) => self.on_request(request),
            Next::Fail(refusal) => Some(End::Failed(refusal)),
        }
    }

    /// The peer is gone: takes in what it had sent before, since that may be a release or a close.
    pub(super) fn drain(&mut self, incoming: &mut Streaming<W::Asks>) -> End {
        while let Some(Ok(Some(message))) = incoming.message().now_or_never() {
            if let Some(end @ End::Closed(_)) = self.on_heard(message) {
                return end;
            }
        }
        End::Peer
    }
}

/// Whether the stream ended because a message could not be decoded.
fn is_undecodable(status: &Status) -> bool {
    matches!(
        status.code(),
        tonic::Code::Internal | tonic::Code::ResourceExhausted | tonic::Code::Unimplemented
    )
}

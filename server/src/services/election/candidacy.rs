//! Streams of a candidacy, of which a [`Campaign`] is the state.

use std::{
    sync::Arc,
    task::{Poll, ready},
};

use futures_util::{Stream, StreamExt, stream, stream::BoxStream, task::AtomicWaker};
use leasehold_proto::v1::{CampaignRequest, CampaignResponse, SessionRequest};
use parking_lot::Mutex;
use tonic::Status;

use super::campaign::Campaign;
use crate::{
    access::Rights,
    convert::{request::Requests, session::Answer},
    coordinator::Coordinator,
    status::Refusal,
};

/// Translator of one candidacy's stream, which both of its directions share.
#[derive(Debug, Default)]
pub(super) struct Candidacy {
    pub(super) campaign: Mutex<Campaign>,
    /// Wakes the reader of requests: the candidacy has one of its own, or room for the answer to another.
    reader: AtomicWaker,
    /// Wakes the reader of responses: the candidacy has answered a message by itself.
    writer: AtomicWaker,
}

/// Check of the message that opens a candidacy.
#[derive(Debug)]
pub(super) struct FirstMessage {
    pub(super) coordinator: Coordinator,
    pub(super) rights: Rights,
}

impl Candidacy {
    /// Translates the candidate's messages.
    pub(super) fn requests(
        self: &Arc<Self>,
        mut messages: impl Stream<Item = Result<CampaignRequest, Status>> + Send + Unpin + 'static,
        mut first: Option<FirstMessage>,
    ) -> Requests {
        let this = Arc::clone(self);
        let mut has_ended = false;
        let requests = stream::poll_fn(move |context| {
            // Before it looks, so that it misses nothing in between.
            this.reader.register(context.waker());
            loop {
                let mut campaign = this.campaign.lock();
                if let Some(request) = campaign.take_request() {
                    return Poll::Ready(Some(Ok(request)));
                }
                if has_ended || !campaign.has_room() {
                    return Poll::Pending;
                }
                let request = match ready!(messages.poll_next_unpin(context)) {
                    Some(Ok(message)) => match first.take() {
                        Some(first) => {
                            let open = first.open(message, &mut campaign);
                            return Poll::Ready(Some(open.map_err(Status::from)));
                        }
                        None => campaign.hear(message),
                    },
                    // The candidate has said everything that it has to say, and waits for the last response.
                    None if campaign.is_ending() => {
                        has_ended = true;
                        return Poll::Pending;
                    }
                    Some(Err(status)) => return Poll::Ready(Some(Err(status))),
                    None => return Poll::Ready(None),
                };
                drop(campaign);
                if request.is_some() {
                    return Poll::Ready(request.map(Ok));
                }
                this.writer.wake();
            }
        });
        requests.boxed()
    }

    /// Translates the session's answers.
    pub(super) fn responses(
        self: Arc<Self>,
        mut answers: impl Stream<Item = Answer> + Send + Unpin + 'static,
    ) -> BoxStream<'static, Result<CampaignResponse, Status>> {
        let responses = stream::poll_fn(move |context| {
            self.writer.register(context.waker());
            loop {
                if let Some(response) = self.campaign.lock().next_response() {
                    self.reader.wake();
                    return Poll::Ready(Some(response));
                }
                match ready!(answers.poll_next_unpin(context)) {
                    Some(Ok(answer)) => self.campaign.lock().on_answer(answer),
                    Some(Err(status)) => return Poll::Ready(Some(Err(status))),
                    None => return Poll::Ready(None),
                }
                self.reader.wake();
            }
        });
        responses.boxed()
    }
}

impl FirstMessage {
    /// Begins the candidacy with the rights in force.
    fn open(
        mut self,
        message: CampaignRequest,
        campaign: &mut Campaign,
    ) -> Result<SessionRequest, Refusal> {
        self.rights.look_again()?;
        let bounds = self.coordinator.field_bounds();
        let opened = campaign.open(message, bounds, self.rights.granted());
        opened.inspect_err(|refusal| self.rights.denied(refusal))
    }
}

//! The connection under a session: dialled, lost and dialled again.

use std::{collections::VecDeque, pin::Pin, sync::Arc, time::Duration};

use tokio::{
    sync::mpsc,
    time::{sleep, timeout},
};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Status, Streaming};

use super::route::{Candidate, Found, find};
use crate::{
    error::{ConnectError, Rounded},
    proto::v1::{self, lock_service_client::LockServiceClient, session_request::Request as Body},
    settings::Settings,
    transport::Channel,
};

/// Number of messages that tonic may hold and has not encoded yet.
const HANDED_ON: usize = 64;
/// Number of messages not yet taken by tonic from which the session takes no more acquires from callers.
const CONGESTED: usize = 1024;

type BoxFuture<T> = Pin<Box<dyn Future<Output = T> + Send>>;
type Messages = Box<Streaming<v1::SessionResponse>>;

/// Stage of a connection.
pub(super) enum Link {
    /// A step on the way to a stream: the addresses are looked up, one is dialled, or the stream is asked for.
    Pending(BoxFuture<Event>),
    Live(Messages),
}

/// Event of a connection.
pub(super) enum Event {
    Found(Found),
    Dialled(Result<Channel, ConnectError>),
    /// The peer serves the stream. The link takes its messages.
    Started(Option<Messages>),
    Message(v1::SessionResponse),
    /// The stream has ended, with a status where it was not a plain end.
    Ended(Option<Status>),
}

impl Link {
    /// Resolves the endpoints to addresses, after a pause if there is to be one.
    pub(super) fn find(settings: &Arc<Settings>, pause: Option<Duration>) -> Self {
        let settings = settings.clone();
        Self::Pending(Box::pin(async move {
            if let Some(pause) = pause {
                sleep(pause).await;
            }
            Event::Found(find(settings).await)
        }))
    }

    pub(super) fn dial(settings: &Settings, candidate: &Candidate, limit: Duration) -> Self {
        let endpoint = candidate.endpoint.to_string();
        let target = settings.session_target(&endpoint, candidate.address);
        let dialling = async move {
            match timeout(limit, target?.connect()).await {
                Ok(connected) => {
                    connected.map_err(|source| ConnectError::unreachable(endpoint, source))
                }
                Err(_) => {
                    let after = limit;
                    Err(ConnectError::TimedOut { endpoint, after })
                }
            }
        };
        Self::Pending(Box::pin(async move { Event::Dialled(dialling.await) }))
    }

    /// Opens the stream, which has to begin within the limit where there is one. What is to be said on it comes through
    /// `requests`.
    pub(super) fn start(
        channel: Channel,
        requests: mpsc::Receiver<v1::SessionRequest>,
        limit: Option<Duration>,
    ) -> Self {
        // The only handle on this channel: when the stream is dropped, the connection ends with it.
        let mut client = LockServiceClient::new(channel);
        Self::Pending(Box::pin(async move {
            let starting = client.session(ReceiverStream::new(requests));
            let started = match limit {
                None => starting.await,
                Some(limit) => timeout(limit, starting).await.unwrap_or_else(|_| {
                    let limit = Rounded(limit);
                    let late = format!("the stream did not begin within {limit}");
                    Err(Status::deadline_exceeded(late))
                }),
            };
            match started {
                Ok(response) => Event::Started(Some(Box::new(response.into_inner()))),
                Err(status) => Event::Ended(Some(status)),
            }
        }))
    }

    /// Waits for the next event. May be dropped and called again at any time without losing anything.
    pub(super) async fn next(&mut self) -> Event {
        match self {
            Self::Pending(step) => {
                let mut event = step.as_mut().await;
                if let Event::Started(messages) = &mut event
                    && let Some(messages) = messages.take()
                {
                    *self = Self::Live(messages);
                }
                event
            }
            Self::Live(stream) => match stream.message().await {
                Ok(Some(message)) => Event::Message(message),
                Ok(None) => Event::Ended(None),
                Err(status) => Event::Ended(Some(status)),
            },
        }
    }
}

/// Queue of requests for the stream. Heartbeats overtake the others.
#[derive(Default)]
pub(super) struct Outbound {
    sender: Option<mpsc::Sender<v1::SessionRequest>>,
    queue: VecDeque<v1::SessionRequest>,
    heartbeat: Option<v1::SessionRequest>,
}

impl Outbound {
    /// Begins a new stream: what an old one did not take on is dropped.
    pub(super) fn begin(&mut self) -> mpsc::Receiver<v1::SessionRequest> {
        let (sender, requests) = mpsc::channel(HANDED_ON);
        *self = Self {
            sender: Some(sender),
            ..Self::default()
        };
        requests
    }

    fn end(&mut self) {
        *self = Self::default();
    }

    pub(super) fn push(&mut self, request: v1::SessionRequest) {
        if matches!(request.request, Some(Body::Heartbeat(_))) {
            // One that could not be sent is worth nothing beside a newer one.
            self.heartbeat = Some(request);
        } else {
            self.queue.push_back(request);
        }
        self.flush();
    }

    pub(super) fn is_blocked(&self) -> bool {
        self.heartbeat.is_some() || !self.queue.is_empty()
    }

    pub(super) fn is_congested(&self) -> bool {
        self.queue.len() >= CONGESTED
    }

    /// Completes when more can be handed on; never without a stream. May be dropped at any time.
    pub(super) async fn unblocked(&mut self) {
        match &self.sender {
            Some(sender) => {
                // An error means that the stream is gone; the link will say so.
                if sender.reserve().await.is_err() {
                    self.end();
                }
            }
            None => std::future::pending().await,
        }
    }

    /// Hands on as much as is taken.
    pub(super) fn flush(&mut self) {
        let Some(sender) = &self.sender else {
            self.queue.clear();
            self.heartbeat = None;
            return;
        };
        while let Ok(permit) = sender.try_reserve() {
            match self.heartbeat.take().or_else(|| self.queue.pop_front()) {
                Some(request) => permit.send(request),
                None => return,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_heartbeat_overtakes_what_is_blocked() {
        let mut outbound = Outbound::default();
        let mut requests = outbound.begin();
        let numbered = |request_id, request| v1::SessionRequest {
            request_id,
            request: Some(request),
            ..v1::SessionRequest::default()
        };
        let close = || Body::Close(v1::SessionClose {});
        for id in 1..=HANDED_ON as u64 + 2 {
            outbound.push(numbered(id, close()));
        }
        assert!(outbound.is_blocked());
        for (id, sequence) in [(1000, 1), (1001, 2)] {
            let heartbeat = Body::Heartbeat(v1::SessionHeartbeat { sequence });
            outbound.push(numbered(id, heartbeat));
        }
        for _ in 0..HANDED_ON {
            requests.recv().await.unwrap();
        }
        outbound.unblocked().await;
        outbound.flush();
        let mut rest = Vec::new();
        while let Ok(request) = requests.try_recv() {
            rest.push(request.request_id);
        }
        assert_eq!(rest, [1001, HANDED_ON as u64 + 1, HANDED_ON as u64 + 2]);
        assert!(!outbound.is_blocked());
    }
}

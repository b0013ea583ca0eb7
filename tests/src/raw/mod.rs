//! A session at the level of the wire: every message is the test's own. Candidates and observers likewise.

mod candidate;
mod heart;
mod locks;
mod modes;
mod observer;
mod resumes;

use std::{
    collections::VecDeque,
    net::IpAddr,
    sync::Arc,
    time::{Duration, Instant},
};

use leasehold_proto::v1::{
    GrantedLock, SessionClose, SessionOpen, SessionOpened, SessionRequest, SessionResponse,
    lock_service_client::LockServiceClient, session_request::Request, session_response::Response,
};
use tokio::{sync::mpsc, task::AbortHandle};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{
    Status, Streaming,
    transport::{Channel, Endpoint},
};

use self::heart::Heart;
pub use self::{
    candidate::{RawCandidate, Term, Told},
    modes::{
        at_least, by, closing_for, each, exclusive, for_at_most, held_for_at_most, once_more,
        revised, semaphore, several, shared, with_value,
    },
    observer::{RawObserver, Seen},
    resumes::{Resumed, fresh_owner_id, resume_again, resume_hold, resume_wait},
};
use crate::json;

/// Longest time that a helper waits for an answer that should come at once: only a machine that is busy with other tests delays it.
pub const PROMPT: Duration = Duration::from_secs(15);

/// A lease stream that a test speaks itself. Dropping it resets the stream, and closes the connection if it has one of
/// its own.
#[derive(Debug)]
pub struct RawSession {
    requests: Option<mpsc::Sender<SessionRequest>>,
    responses: Streaming<SessionResponse>,
    unread: VecDeque<SessionResponse>,
    next_id: u64,
    heart: Arc<Heart>,
    beat: Option<AbortHandle>,
    good_until: Option<Instant>,
    traceparent: String,
}

/// Locks and validity of a granted acquire.
#[derive(Clone, Debug)]
pub struct Granted {
    /// The lock.
    pub lock: GrantedLock,
    /// The moment until which the client may believe that it holds the lock, by the grant.
    pub good_until: Instant,
}

/// Returns whether calls on a connection go in JSON: with `PROTOCOL=json` in the environment.
///
/// # Panics
///
/// If `PROTOCOL` is anything else.
pub fn speaks_json() -> bool {
    match std::env::var("PROTOCOL").as_deref() {
        Ok("json") => true,
        Ok(other) => panic!("PROTOCOL must be json, not {other}"),
        Err(_) => false,
    }
}

/// Returns a connection to a coordinator. With `PROTOCOL=json` in the environment, calls on it go in JSON.
///
/// # Panics
///
/// If it can't be made within five seconds.
pub async fn connect(endpoint: &str) -> Channel {
    let connected = connect_from(None, endpoint).await;
    connected.unwrap_or_else(|error| panic!("failed to connect to {endpoint}: {error}"))
}

/// Does the same, from an address of this machine if one is given.
///
/// # Errors
///
/// If it can't be made within five seconds.
///
/// # Panics
///
/// If the endpoint is malformed.
pub async fn connect_from(
    address: Option<IpAddr>,
    endpoint: &str,
) -> Result<Channel, tonic::transport::Error> {
    let to = Endpoint::from_shared(endpoint.to_owned())
        .expect("the endpoint is well-formed")
        .local_address(address)
        .connect_timeout(PROMPT)
        .tcp_nodelay(true);
    if speaks_json() {
        json::connect(to, address).await
    } else {
        to.connect().await
    }
}

/// Returns a request that shows a bearer token, if there is one.
///
/// # Panics
///
/// If the token can't be in a header.
pub fn with_token<T>(message: T, token: Option<&str>) -> tonic::Request<T> {
    let mut request = tonic::Request::new(message);
    if let Some(token) = token {
        let shown = format!("Bearer {token}").parse();
        let shown = shown.expect("the token is plain text");
        request.metadata_mut().insert("authorization", shown);
    }
    request
}

/// Encodes a TTL for the wire.
pub fn wire(duration: Duration) -> Option<prost_types::Duration> {
    Some(duration.try_into().expect("the duration is in range"))
}

/// Decodes a duration of the wire.
///
/// # Panics
///
/// If it is missing or negative.
pub fn parse(duration: Option<prost_types::Duration>) -> Duration {
    let duration = duration.expect("the duration is set");
    duration.try_into().expect("the duration is not negative")
}

impl RawSession {
    /// Opens a session with a TTL, on a connection of its own. Heartbeats are the test's, until
    /// [`keep_alive`](Self::keep_alive).
    ///
    /// # Panics
    ///
    /// If it is not opened.
    pub async fn open(endpoint: &str, ttl: Duration) -> Self {
        Self::open_on(connect(endpoint).await, ttl).await
    }

    /// Does the same on a connection that is there.
    ///
    /// # Panics
    ///
    /// If it is not opened.
    pub async fn open_on(channel: Channel, ttl: Duration) -> Self {
        let mut session = Self::stream(channel).await.expect("the stream begins");
        let opened = session.say_open(ttl).await;
        assert!(!opened.session_id.is_empty(), "{opened:?}");
        session
    }

    /// Begins a stream and says nothing on it yet.
    ///
    /// # Errors
    ///
    /// What the coordinator answers instead of a stream.
    pub async fn stream(channel: Channel) -> Result<Self, Status> {
        Self::stream_with(channel, &[]).await
    }

    /// Does the same with a bearer token.
    ///
    /// # Errors
    ///
    /// What the coordinator answers instead of a stream.
    pub async fn stream_as(channel: Channel, token: Option<&str>) -> Result<Self, Status> {
        let bearer = token.map(|token| format!("Bearer {token}"));
        let metadata: Vec<_> = bearer
            .iter()
            .map(|bearer| ("authorization", bearer.as_str()))
            .collect();
        Self::stream_with(channel, &metadata).await
    }

    /// Does the same with metadata.
    ///
    /// # Errors
    ///
    /// What the coordinator answers instead of a stream.
    ///
    /// # Panics
    ///
    /// If the values are no metadata.
    pub async fn stream_with(
        channel: Channel,
        metadata: &[(&'static str, &str)],
    ) -> Result<Self, Status> {
        let (requests, outgoing) = mpsc::channel(64);
        let mut request = tonic::Request::new(ReceiverStream::new(outgoing));
        for (key, value) in metadata {
            let value = value.parse().expect("the value is metadata");
            request.metadata_mut().insert(*key, value);
        }
        let responses = LockServiceClient::new(channel)
            .session(request)
            .await?
            .into_inner();
        Ok(Self {
            requests: Some(requests),
            responses,
            unread: VecDeque::new(),
            next_id: 1,
            heart: Arc::default(),
            beat: None,
            good_until: None,
            traceparent: String::new(),
        })
    }

    /// Has all requests from here on carry this context.
    pub fn trace_as(&mut self, traceparent: impl Into<String>) {
        self.traceparent = traceparent.into();
    }

    /// Says `open` and waits for the answer.
    ///
    /// # Panics
    ///
    /// If it is not `opened`.
    pub async fn say_open(&mut self, ttl: Duration) -> SessionOpened {
        self.heart.note();
        let id = self
            .send(Request::Open(SessionOpen {
                ttl: wire(ttl),
                client_name: "raw".to_owned(),
                ..SessionOpen::default()
            }))
            .await;
        match self.answer(id, PROMPT).await {
            Response::Opened(opened) => opened,
            other => panic!("the session was not opened: {other:?}"),
        }
    }

    /// Sends a request under an id of its own, which is returned.
    ///
    /// # Panics
    ///
    /// If the stream has ended.
    pub async fn send(&mut self, request: Request) -> u64 {
        let id = self.next_id;
        self.next_id += 1;
        self.send_as(id, request).await;
        id
    }

    /// Sends a request under any id.
    ///
    /// # Panics
    ///
    /// If the stream has ended.
    pub async fn send_as(&mut self, request_id: u64, request: Request) {
        self.try_send(request_id, request)
            .await
            .expect("the stream is up");
    }

    /// Sends a request, or says that the stream has ended.
    ///
    /// # Errors
    ///
    /// If the stream has ended: with the request.
    pub async fn try_send(
        &mut self,
        request_id: u64,
        request: Request,
    ) -> Result<(), Box<SessionRequest>> {
        let message = SessionRequest {
            request_id,
            request: Some(request),
            traceparent: self.traceparent.clone(),
        };
        match &self.requests {
            Some(requests) => requests
                .send(message)
                .await
                .map_err(|error| Box::new(error.0)),
            None => Err(Box::new(message)),
        }
    }

    /// Returns the next message, answer or not; `None` at the end of the stream.
    ///
    /// # Errors
    ///
    /// The status with which the stream ended.
    ///
    /// # Panics
    ///
    /// If nothing comes within `limit`.
    pub async fn next(&mut self, limit: Duration) -> Result<Option<SessionResponse>, Status> {
        if let Some(message) = self.unread.pop_front() {
            return Ok(Some(message));
        }
        match tokio::time::timeout(limit, self.responses.message()).await {
            Ok(Ok(Some(message))) => {
                self.note(&message);
                Ok(Some(message))
            }
            Ok(end) => end,
            Err(_) => panic!("nothing came on the stream within {limit:?}"),
        }
    }

    /// Returns the next message that `wanted` accepts; others are kept for later.
    ///
    /// # Panics
    ///
    /// If none comes within `limit`, or the stream ends first.
    pub async fn find(
        &mut self,
        limit: Duration,
        mut wanted: impl FnMut(&SessionResponse) -> bool,
    ) -> SessionResponse {
        if let Some(place) = self.unread.iter().position(&mut wanted) {
            return self.unread.remove(place).expect("the place was found");
        }
        let deadline = Instant::now() + limit;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let message = match tokio::time::timeout(left, self.responses.message()).await {
                Ok(Ok(Some(message))) => message,
                Ok(end) => panic!("the stream ended: {end:?}; unread: {:?}", self.unread),
                Err(_) => panic!("no answer within {limit:?}; unread: {:?}", self.unread),
            };
            self.note(&message);
            if wanted(&message) {
                return message;
            }
            self.unread.push_back(message);
        }
    }

    /// Returns the next answer to a request.
    ///
    /// # Panics
    ///
    /// If none comes within `limit`, or the stream ends first.
    pub async fn answer(&mut self, request_id: u64, limit: Duration) -> Response {
        self.find(limit, |message| message.request_id == request_id)
            .await
            .response
            .expect("an answer says something")
    }

    /// Returns the next message that the coordinator sends of itself.
    ///
    /// # Panics
    ///
    /// If none comes within `limit`, or the stream ends first.
    pub async fn unasked(&mut self, limit: Duration) -> Response {
        self.answer(0, limit).await
    }

    /// Returns the unsolicited messages of the coordinator that were read, but not yet asked for by the test.
    pub fn unread_unasked(&self) -> Vec<&SessionResponse> {
        let is_news = |message: &&SessionResponse| {
            let is_ack = matches!(message.response, Some(Response::Heartbeat(_)));
            message.request_id == 0 && !is_ack
        };
        self.unread.iter().filter(is_news).collect()
    }

    /// Reads until the stream ends, and returns its status: `Ok` if it ended in order.
    ///
    /// # Panics
    ///
    /// If it does not end within `limit`.
    pub async fn end(&mut self, limit: Duration) -> Result<(), Status> {
        let read = async {
            loop {
                match self.responses.message().await {
                    Ok(Some(message)) => {
                        self.note(&message);
                        self.unread.push_back(message);
                    }
                    Ok(None) => return Ok(()),
                    Err(status) => return Err(status),
                }
            }
        };
        tokio::time::timeout(limit, read)
            .await
            .unwrap_or_else(|_| panic!("the stream has not ended after {limit:?}"))
    }

    fn note(&mut self, message: &SessionResponse) {
        if let Some(Response::Heartbeat(ack)) = &message.response
            && let Some(sent) = self.heart.known(ack.acked_heartbeat)
        {
            let until = sent + parse(ack.valid_for);
            self.good_until = self.good_until.max(Some(until));
        }
    }

    /// Ends the session cleanly.
    ///
    /// # Panics
    ///
    /// If it is not answered by `closed` and the end of the stream.
    pub async fn close(mut self) {
        let id = self.send(Request::Close(SessionClose {})).await;
        let answer = self.answer(id, PROMPT).await;
        assert!(matches!(answer, Response::Closed(_)), "{answer:?}");
        self.end(PROMPT).await.expect("the stream ends in order");
    }

    /// Ends the client's side of the stream without `close`, and goes on reading.
    pub fn half_close(&mut self) {
        self.requests = None;
        self.fall_silent();
    }
}

impl Drop for RawSession {
    fn drop(&mut self) {
        self.fall_silent();
    }
}

//! One session's stream, as the scripted coordinator has it.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use anyhow::{Context, bail};
use leasehold_proto::v1::{
    GrantedLock, LostLock, ResumedLock, SessionAcquire, SessionClosed, SessionGranted,
    SessionHeartbeatAck, SessionLost, SessionOpen, SessionOpened, SessionRelease,
    SessionReleaseRequested, SessionReleased, SessionRequest, SessionResponse,
    session_request::Request, session_response::Response,
};
use leasehold_tests::raw::{fresh_owner_id, wire};
use prost::Message as _;
use tokio::sync::mpsc;
use tonic::{Status, Streaming};

use super::{
    SharedWire,
    service::{Call, Responses},
};
use crate::{
    driver::{PROMPT, now},
    mutant::Message,
};

/// What the coordinator hears on a stream, besides heartbeats.
#[derive(Debug)]
pub(crate) enum Heard {
    Request(u64, Box<Request>),
    /// The client has ended its side.
    HalfClosed,
    /// The stream broke.
    Broken,
}

/// Returns what opens a session with this TTL.
pub(crate) fn opened(ttl: Duration) -> SessionOpened {
    SessionOpened {
        session_id: "0123456789abcdef0123456789abcdef".to_owned(),
        ttl: wire(ttl),
        heartbeat_interval: wire(Duration::from_millis(100)),
        coordinator: "scripted".to_owned(),
        valid_for: wire(ttl),
        ..SessionOpened::default()
    }
}

/// Returns one granted lock for each name, with these tokens and those after.
pub(crate) fn locks(names: &[String], token: i64) -> Vec<GrantedLock> {
    let tokens = (token..).zip(names);
    let granted = tokens.map(|(token, name)| GrantedLock {
        name: name.clone(),
        owner_id: fresh_owner_id(),
        fencing_token: token,
        hold_count: 1,
        permits: 0,
    });
    granted.collect()
}

/// The stream of one session.
pub(crate) struct Stream {
    shared: Arc<Shared>,
    heard: mpsc::UnboundedReceiver<(u64, Heard)>,
}

struct Shared {
    number: u32,
    wire: SharedWire,
    /// None once the coordinator has ended the stream.
    responses: Mutex<Option<Responses>>,
    /// When each heartbeat was received; the `open` is 0.
    heartbeats: Mutex<BTreeMap<u64, u64>>,
    /// The validity with which heartbeats are answered at once; none if the scenario answers them itself.
    acks: Mutex<Option<Duration>>,
}

impl Stream {
    pub(super) fn new(call: Call, number: u32, wire: SharedWire) -> Self {
        let shared = Arc::new(Shared {
            number,
            wire,
            responses: Mutex::new(Some(call.responses)),
            heartbeats: Mutex::default(),
            acks: Mutex::default(),
        });
        let (sender, heard) = mpsc::unbounded_channel();
        tokio::spawn(Arc::clone(&shared).hear(call.requests, sender));
        Self { shared, heard }
    }

    /// Returns what comes next, with the time at which it came.
    pub(crate) async fn next(&mut self, limit: Duration) -> anyhow::Result<(u64, Heard)> {
        let next = tokio::time::timeout(limit, self.heard.recv()).await;
        next.ok()
            .flatten()
            .context("nothing came on the session's stream")
    }

    /// Returns what has come and was not taken yet.
    pub(crate) fn ready(&mut self) -> Vec<Heard> {
        let ready = std::iter::from_fn(|| self.heard.try_recv().ok());
        ready.map(|(_, heard)| heard).collect()
    }

    /// Waits for a request that `wanted` accepts, which must be the next one.
    pub(crate) async fn expect<T>(
        &mut self,
        what: &str,
        wanted: impl FnOnce(Request) -> Option<T>,
    ) -> anyhow::Result<(u64, T)> {
        match self
            .next(PROMPT)
            .await
            .with_context(|| format!("no {what} came"))?
        {
            (_, Heard::Request(id, request)) => {
                let shown = format!("{request:?}");
                let wanted =
                    wanted(*request).with_context(|| format!("not {what} came: {shown}"))?;
                Ok((id, wanted))
            }
            (_, other) => bail!("not {what} came: {other:?}"),
        }
    }

    /// Waits for the next `open`. Returns its id.
    pub(crate) async fn open(&mut self) -> anyhow::Result<(u64, SessionOpen)> {
        self.expect("open", of_kind!(Open)).await
    }

    /// Waits for an `open`, and opens the session.
    pub(crate) async fn opens(&mut self, opened: SessionOpened) -> anyhow::Result<SessionOpen> {
        let (id, open) = self.open().await?;
        self.send(id, Response::Opened(opened));
        Ok(open)
    }

    /// Opens the session with what was taken over, and answers heartbeats from then on.
    pub(crate) fn resumes(&self, id: u64, resumed: Vec<ResumedLock>, ttl: Duration) {
        let opened = SessionOpened {
            resumed,
            ..opened(ttl)
        };
        self.send(id, Response::Opened(opened));
        self.answer_heartbeats(Some(ttl));
    }

    /// Waits for the next `acquire`, and answers releases before it: of what is lost, a library may send one. Returns its id.
    pub(crate) async fn acquire(&mut self) -> anyhow::Result<(u64, SessionAcquire)> {
        loop {
            let either = |request| match request {
                Request::Acquire(acquire) => Some(Some(acquire)),
                Request::Release(_) => Some(None),
                _ => None,
            };
            match self.expect("acquire", either).await? {
                (id, Some(acquire)) => return Ok((id, acquire)),
                (id, None) => self.released(id),
            }
        }
    }

    /// Waits for the next `release`, and answers it.
    pub(crate) async fn release(&mut self) -> anyhow::Result<SessionRelease> {
        let (id, release) = self.expect("release", of_kind!(Release)).await?;
        self.released(id);
        Ok(release)
    }

    fn released(&self, id: u64) {
        let released = SessionReleased {
            released: true,
            hold_count: 0,
        };
        self.send(id, Response::Released(released));
    }

    /// Sends a message.
    pub(crate) fn send(&self, request_id: u64, response: Response) {
        self.shared.send(SessionResponse {
            request_id,
            response: Some(response),
        });
    }

    /// Sends bytes as they are. A mutant does not see them.
    pub(crate) fn send_bytes(&self, bytes: Vec<u8>) {
        self.shared.pass(Ok(bytes));
    }

    /// Sends a message with further bytes after it, which a mutant does not see.
    pub(crate) fn send_with(&self, request_id: u64, response: Response, more: &[u8]) {
        let mut bytes = SessionResponse {
            request_id,
            response: Some(response),
        }
        .encode_to_vec();
        bytes.extend_from_slice(more);
        self.send_bytes(bytes);
    }

    /// Grants locks.
    pub(crate) fn grant(&self, id: u64, locks: Vec<GrantedLock>, valid_for: Duration, acked: u64) {
        self.send(
            id,
            Response::Granted(SessionGranted {
                locks,
                valid_for: wire(valid_for),
                acked_heartbeat: acked,
                ..SessionGranted::default()
            }),
        );
    }

    /// Acknowledges a heartbeat.
    pub(crate) fn ack(&self, sequence: u64, valid_for: Duration) {
        self.shared.ack(sequence, valid_for);
    }

    /// Says that a lock is lost, for a reason of any number.
    pub(crate) fn lost(&self, name: &str, owner_id: &[u8], reason: impl Into<i32>) {
        let lost = LostLock {
            name: name.to_owned(),
            owner_id: owner_id.to_owned(),
            reason: reason.into(),
        };
        self.send(0, Response::Lost(SessionLost { locks: vec![lost] }));
    }

    /// Asks the client to release a hold.
    pub(crate) fn ask_release(&self, lock: &GrantedLock, reason: &str) {
        self.send(
            0,
            Response::ReleaseRequested(SessionReleaseRequested {
                name: lock.name.clone(),
                owner_id: lock.owner_id.clone(),
                reason: reason.to_owned(),
                within: None,
            }),
        );
    }

    /// Says that the session is closed.
    pub(crate) fn closed(&self, id: u64) {
        self.send(id, Response::Closed(SessionClosed {}));
    }

    /// Answers heartbeats at once from now on, those that were not answered as well; or leaves them to the scenario.
    pub(crate) fn answer_heartbeats(&self, valid_for: Option<Duration>) {
        *self.shared.acks.lock().unwrap() = valid_for;
        if let Some(valid_for) = valid_for {
            self.ack(self.heartbeat().0, valid_for);
        }
    }

    /// Returns the newest heartbeat, and the time at which it was received.
    pub(crate) fn heartbeat(&self) -> (u64, u64) {
        let heartbeats = self.shared.heartbeats.lock().unwrap();
        let newest = heartbeats.last_key_value().expect("the session is open");
        (*newest.0, *newest.1)
    }

    /// Returns the newest heartbeat that was received before this time, with the time at which it was.
    pub(crate) fn heartbeat_before(&self, time: u64) -> Option<(u64, u64)> {
        let heartbeats = self.shared.heartbeats.lock().unwrap();
        let mut heartbeats = heartbeats.iter().rev();
        let heartbeat = heartbeats.find(|(_, at)| **at < time)?;
        Some((*heartbeat.0, *heartbeat.1))
    }

    /// Waits for the heartbeat of this sequence or a later one.
    pub(crate) async fn beats(&self, sequence: u64) -> anyhow::Result<(u64, u64)> {
        let end = now() + 10_000_000_000;
        while self.heartbeat().0 < sequence {
            anyhow::ensure!(now() < end, "heartbeat {sequence} did not come");
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        Ok(self.heartbeat())
    }

    /// Ends the stream, in order or with a status.
    pub(crate) fn end(&self, status: Result<(), Status>) {
        if let Err(status) = status {
            self.shared.pass(Err(status));
        }
        self.shared.responses.lock().unwrap().take();
    }
}

impl Shared {
    async fn hear(
        self: Arc<Self>,
        mut requests: Streaming<Vec<u8>>,
        heard: mpsc::UnboundedSender<(u64, Heard)>,
    ) {
        loop {
            let came = requests.message().await;
            let at = now();
            let bytes = match came {
                Ok(Some(bytes)) => bytes,
                Ok(None) => {
                    heard.send((at, Heard::HalfClosed)).ok();
                    return;
                }
                Err(_) => {
                    heard.send((at, Heard::Broken)).ok();
                    return;
                }
            };
            let request = SessionRequest::decode(&*bytes).expect("a client sends requests");
            for message in self.mutated(Message::Request(request)) {
                match message {
                    Message::Request(request) => self.take(at, request, &heard),
                    other => self.carry_out(other),
                }
            }
        }
    }

    fn take(&self, at: u64, request: SessionRequest, heard: &mpsc::UnboundedSender<(u64, Heard)>) {
        match request.request {
            Some(Request::Heartbeat(heartbeat)) => {
                self.heartbeats
                    .lock()
                    .unwrap()
                    .insert(heartbeat.sequence, at);
                let valid_for = *self.acks.lock().unwrap();
                if let Some(valid_for) = valid_for {
                    self.ack(heartbeat.sequence, valid_for);
                }
            }
            Some(asked) => {
                if matches!(asked, Request::Open(_)) {
                    self.heartbeats.lock().unwrap().entry(0).or_insert(at);
                }
                // If the scenario does not listen any more, it has its answer.
                heard
                    .send((at, Heard::Request(request.request_id, Box::new(asked))))
                    .ok();
            }
            None => {}
        }
    }

    fn ack(&self, sequence: u64, valid_for: Duration) {
        self.send(SessionResponse {
            request_id: 0,
            response: Some(Response::Heartbeat(SessionHeartbeatAck {
                acked_heartbeat: sequence,
                valid_for: wire(valid_for),
                ..SessionHeartbeatAck::default()
            })),
        });
    }

    fn send(&self, response: SessionResponse) {
        for message in self.mutated(Message::Response(response)) {
            self.carry_out(message);
        }
    }

    fn carry_out(&self, message: Message) {
        match message {
            Message::Response(response) => self.pass(Ok(response.encode_to_vec())),
            Message::End => {
                self.responses.lock().unwrap().take();
            }
            // A mutant makes no requests of its own.
            Message::Request(_) => {}
        }
    }

    fn mutated(&self, message: Message) -> Vec<Message> {
        match &self.wire {
            Some(wire) => wire.lock().unwrap()(self.number, message),
            None => vec![message],
        }
    }

    fn pass(&self, message: Result<Vec<u8>, Status>) {
        if let Some(responses) = &*self.responses.lock().unwrap() {
            // If the stream has ended, nobody is there to be told.
            responses.send(message).ok();
        }
    }
}

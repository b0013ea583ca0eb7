//! A lease stream on the generated stubs.

use std::time::Duration;

use anyhow::{Context, bail, ensure};
use futures_util::{StreamExt, TryStreamExt, stream};
use leasehold_proto::v1::{
    GrantedLock, SessionAcquire, SessionHeartbeat, SessionOpen, SessionOpened, SessionRelease,
    SessionRequest, SessionResponse, lock_service_client::LockServiceClient,
    session_request::Request, session_response::Response,
};
use leasehold_tests::raw;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Streaming, transport::Channel};

/// Longer than any row takes in which clients send no heartbeats, so that nothing but the work is measured.
const QUIET_TTL: Duration = Duration::from_secs(300);
/// Connections and streams that are being opened at the same time.
const OPENING: usize = 64;

pub(crate) struct Stream {
    requests: mpsc::Sender<SessionRequest>,
    responses: Streaming<SessionResponse>,
    pub(crate) opened: SessionOpened,
}

impl Stream {
    /// Opens one on a connection of its own.
    pub(crate) async fn open(endpoint: &str) -> anyhow::Result<Self> {
        Self::open_on(raw::connect(endpoint).await, QUIET_TTL).await
    }

    pub(crate) async fn open_on(channel: Channel, ttl: Duration) -> anyhow::Result<Self> {
        let (requests, outgoing) = mpsc::channel(64);
        let open = Request::Open(SessionOpen {
            ttl: raw::wire(ttl),
            ..SessionOpen::default()
        });
        requests.send(raw::request(1, open)).await?;
        let responses = LockServiceClient::new(channel)
            .session(ReceiverStream::new(outgoing))
            .await?
            .into_inner();
        let mut stream = Self {
            requests,
            responses,
            opened: SessionOpened::default(),
        };
        match stream.next().await? {
            (_, Response::Opened(opened)) => stream.opened = opened,
            (_, other) => bail!("a session was not opened: {other:?}"),
        }
        Ok(stream)
    }

    /// Opens `count` of them, the first on the first endpoint, the second on the second, and around again; up to
    /// `per_connection` share a connection.
    pub(crate) async fn open_many(
        endpoints: &[String],
        count: usize,
        per_connection: usize,
        ttl: Option<Duration>,
    ) -> anyhow::Result<Vec<Self>> {
        let coordinators = endpoints.len();
        let per_coordinator = count.div_ceil(coordinators);
        let connections = per_coordinator.div_ceil(per_connection) * coordinators;
        let channels: Vec<_> = stream::iter(0..connections)
            .map(|connection| raw::connect(&endpoints[connection % coordinators]))
            .buffered(OPENING)
            .collect()
            .await;
        let ttl = ttl.unwrap_or(QUIET_TTL);
        stream::iter(0..count)
            .map(|place| {
                let group = place / coordinators / per_connection;
                let channel = &channels[group * coordinators + place % coordinators];
                Self::open_on(channel.clone(), ttl)
            })
            .buffered(OPENING)
            .try_collect()
            .await
    }

    pub(crate) async fn acquire(&self, request_id: u64, name: &str) -> anyhow::Result<()> {
        let acquire = Request::Acquire(SessionAcquire {
            name: name.to_owned(),
            ..SessionAcquire::default()
        });
        self.send(request_id, acquire).await
    }

    pub(crate) async fn release(
        &self,
        request_id: u64,
        release: SessionRelease,
    ) -> anyhow::Result<()> {
        self.send(request_id, Request::Release(release)).await
    }

    pub(crate) async fn heartbeat(&self, request_id: u64, sequence: u64) -> anyhow::Result<()> {
        let heartbeat = SessionHeartbeat { sequence };
        self.send(request_id, Request::Heartbeat(heartbeat)).await
    }

    async fn send(&self, request_id: u64, request: Request) -> anyhow::Result<()> {
        let message = raw::request(request_id, request);
        self.requests.send(message).await.context("stream ended")
    }

    /// Returns the next answer or unsolicited message. May be dropped while it waits.
    pub(crate) async fn next_of_all(&mut self) -> anyhow::Result<(u64, Response)> {
        let Some(message) = self.responses.message().await? else {
            bail!("the stream ended");
        };
        let response = message.response.context("an answer says nothing")?;
        Ok((message.request_id, response))
    }

    /// Returns the next answer, except that a request is queued.
    pub(crate) async fn next(&mut self) -> anyhow::Result<(u64, Response)> {
        loop {
            match self.next_of_all().await? {
                (_, Response::Queued(_)) => {}
                answer => return Ok(answer),
            }
        }
    }

    /// Returns the grant of the one acquire that is in flight.
    pub(crate) async fn granted(&mut self) -> anyhow::Result<GrantedLock> {
        let (_, Response::Granted(granted)) = self.next().await? else {
            bail!("an acquire was not granted");
        };
        granted.locks.into_iter().next().context("no lock")
    }

    /// Gives the lock back, and sees that it was still held.
    pub(crate) async fn give_back(&mut self, lock: GrantedLock) -> anyhow::Result<()> {
        let (name, owner_id) = (lock.name, lock.owner_id);
        self.release(
            2,
            SessionRelease {
                name,
                owner_id,
                expired: false,
            },
        )
        .await?;
        let (_, response) = self.next().await?;
        ensure!(
            matches!(&response, Response::Released(released) if released.released),
            "{response:?}"
        );
        Ok(())
    }
}

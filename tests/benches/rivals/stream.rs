//! A lease stream on the generated stubs, on a connection of its own.

use std::time::Duration;

use anyhow::{Context, bail, ensure};
use leasehold_proto::v1::{
    SessionAcquire, SessionOpen, SessionRelease, SessionRequest, SessionResponse,
    lock_service_client::LockServiceClient, session_request::Request, session_response::Response,
};
use leasehold_tests::raw;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Streaming;

/// Longer than any row takes, so that no heartbeat is among what is measured.
const TTL: Duration = Duration::from_secs(60);

pub(crate) struct Stream {
    requests: mpsc::Sender<SessionRequest>,
    responses: Streaming<SessionResponse>,
}

impl Stream {
    pub(crate) async fn open(endpoint: &str) -> anyhow::Result<Self> {
        let (requests, outgoing) = mpsc::channel(64);
        let open = Request::Open(SessionOpen {
            ttl: raw::wire(TTL),
            ..SessionOpen::default()
        });
        let message = SessionRequest {
            request_id: 1,
            request: Some(open),
        };
        requests.send(message).await?;
        let responses = LockServiceClient::new(raw::connect(endpoint).await)
            .session(ReceiverStream::new(outgoing))
            .await?
            .into_inner();
        let mut stream = Self {
            requests,
            responses,
        };
        let (_, opened) = stream.next().await?;
        ensure!(matches!(opened, Response::Opened(_)), "{opened:?}");
        Ok(stream)
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

    async fn send(&self, request_id: u64, request: Request) -> anyhow::Result<()> {
        let request = Some(request);
        let message = SessionRequest {
            request_id,
            request,
        };
        self.requests.send(message).await.context("stream ended")
    }

    /// The next answer that matters: being queued does not.
    pub(crate) async fn next(&mut self) -> anyhow::Result<(u64, Response)> {
        loop {
            let Some(message) = self.responses.message().await? else {
                bail!("the stream ended");
            };
            match message.response.context("an answer says nothing")? {
                Response::Queued(_) => {}
                response => return Ok((message.request_id, response)),
            }
        }
    }
}

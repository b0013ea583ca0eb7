//! A candidate that a test speaks for itself.

use std::time::Duration;

use leasehold_proto::v1::{
    CampaignOpen, CampaignProclaim, CampaignRequest, CampaignResign, CampaignResponse, Campaigning,
    Elected, SessionHeartbeat, campaign_request::Request, campaign_response::Response,
    election_service_client::ElectionServiceClient,
};
use leasehold_tests::raw::{PROMPT, connect, wire};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Status, Streaming, transport::Channel};

/// One candidate's stream. Dropping it resets the stream.
pub(super) struct Candidate {
    requests: Option<mpsc::Sender<CampaignRequest>>,
    responses: Streaming<CampaignResponse>,
    beats: u64,
}

impl Candidate {
    /// Begins a stream and says nothing on it yet.
    pub(super) async fn stream(channel: Channel) -> Result<Self, Status> {
        let (requests, outgoing) = mpsc::channel(64);
        let responses = ElectionServiceClient::new(channel)
            .campaign(ReceiverStream::new(outgoing))
            .await?
            .into_inner();
        Ok(Self {
            requests: Some(requests),
            responses,
            beats: 0,
        })
    }

    /// Campaigns on a connection of its own; leaves the answers to be read.
    pub(super) async fn campaign(endpoint: &str, election: &str, ttl: Duration) -> Self {
        let mut candidate = Self::stream(connect(endpoint).await).await.unwrap();
        candidate.open(election, ttl).await;
        candidate
    }

    /// Sends `campaign`, and leaves the answers to be read.
    pub(super) async fn open(&mut self, election: &str, ttl: Duration) {
        self.say(Request::Campaign(CampaignOpen {
            election: election.to_owned(),
            value: b"first".to_vec(),
            ttl: wire(ttl),
            client_name: "candidate".to_owned(),
        }))
        .await;
    }

    /// Does the same, and expects to be elected.
    pub(super) async fn lead(endpoint: &str, election: &str, ttl: Duration) -> (Self, Elected) {
        let mut candidate = Self::campaign(endpoint, election, ttl).await;
        assert_eq!(candidate.campaigning().await.position, 0);
        let elected = candidate.elected().await;
        (candidate, elected)
    }

    /// Does the same, and expects to wait. Returns its place too.
    pub(super) async fn wait(endpoint: &str, election: &str, ttl: Duration) -> (Self, u64) {
        let mut candidate = Self::campaign(endpoint, election, ttl).await;
        let position = candidate.campaigning().await.position;
        (candidate, position)
    }

    pub(super) async fn say(&mut self, request: Request) {
        let request = Some(request);
        self.say_raw(CampaignRequest { request }).await;
    }

    pub(super) async fn say_raw(&mut self, message: CampaignRequest) {
        let requests = self.requests.as_ref().expect("this side is open");
        requests.send(message).await.expect("the stream is up");
    }

    pub(super) async fn proclaim(&mut self, value: &[u8]) {
        let value = value.to_vec();
        self.say(Request::Proclaim(CampaignProclaim { value }))
            .await;
    }

    pub(super) async fn resign(&mut self) {
        self.say(Request::Resign(CampaignResign {})).await;
    }

    pub(super) async fn beat(&mut self) {
        self.beats += 1;
        let sequence = self.beats;
        self.say(Request::Heartbeat(SessionHeartbeat { sequence }))
            .await;
    }

    /// Ends the client's side of the stream, and goes on reading.
    pub(super) fn half_close(&mut self) {
        self.requests = None;
    }

    /// Returns the next message; `None` at the end of the stream.
    async fn next(&mut self) -> Result<Option<Response>, Status> {
        let next = tokio::time::timeout(PROMPT, self.responses.message()).await;
        let next = next.unwrap_or_else(|_| panic!("nothing came within {PROMPT:?}"));
        Ok(next?.map(|message| message.response.expect("it says something")))
    }

    /// Returns the next message, which must come soon.
    pub(super) async fn answer(&mut self) -> Response {
        let next = self.next().await.expect("the stream is up");
        next.expect("the stream has not ended")
    }

    pub(super) async fn campaigning(&mut self) -> Campaigning {
        match self.answer().await {
            Response::Campaigning(campaigning) => campaigning,
            other => panic!("{other:?}"),
        }
    }

    pub(super) async fn elected(&mut self) -> Elected {
        match self.answer().await {
            Response::Elected(elected) => elected,
            other => panic!("{other:?}"),
        }
    }

    /// Reads `resigned` and the end of the stream.
    pub(super) async fn resigned(mut self) -> bool {
        let led = match self.answer().await {
            Response::Resigned(resigned) => resigned.led,
            other => panic!("{other:?}"),
        };
        self.assert_ended().await;
        led
    }

    /// Asserts that the stream ends in order, without another message.
    pub(super) async fn assert_ended(&mut self) {
        let end = self.next().await;
        assert!(matches!(end, Ok(None)), "{end:?}");
    }

    /// Returns the status with which the stream ends, with nothing said before.
    pub(super) async fn refused(&mut self) -> Status {
        match self.next().await {
            Err(status) => status,
            other => panic!("{other:?}"),
        }
    }
}

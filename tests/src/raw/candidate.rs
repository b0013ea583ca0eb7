//! A candidate at the level of the wire, which sends heartbeats by itself.

use std::time::{Duration, Instant};

use leasehold_proto::v1::{
    CampaignOpen, CampaignProclaim, CampaignRequest, CampaignResign, CampaignResponse, Campaigning,
    LostReason, SessionHeartbeat, campaign_request::Request, campaign_response::Response,
    election_service_client::ElectionServiceClient,
};
use tokio::{
    sync::{mpsc, watch},
    time::{Interval, MissedTickBehavior, interval},
};
use tokio_stream::wrappers::ReceiverStream;
use tokio_util::task::AbortOnDropHandle;
use tonic::{Status, Streaming, transport::Channel};

use super::{PROMPT, parse, wire, with_token};

/// Message for a candidate: `Ok(None)` is the orderly end of its stream.
pub type Told = Result<Option<Response>, Status>;

/// A candidacy, which is read all the time. Dropping it resets the stream, and closes the connection if it has one of its
/// own.
#[derive(Debug)]
pub struct RawCandidate {
    requests: mpsc::Sender<CampaignRequest>,
    told: mpsc::UnboundedReceiver<(Instant, Told)>,
    good_until: watch::Receiver<Option<Instant>>,
    campaigning: Campaigning,
    _task: AbortOnDropHandle<()>,
}

/// Term of a candidate that leads.
#[derive(Clone, Copy, Debug)]
pub struct Term {
    /// The fencing token.
    pub token: i64,
    /// The time at which the message came.
    pub at: Instant,
}

impl RawCandidate {
    /// Campaigns, and waits until the candidacy was taken in.
    ///
    /// # Panics
    ///
    /// If it is not.
    pub async fn campaign(channel: Channel, election: &str, value: &[u8], ttl: Duration) -> Self {
        let begun = Self::try_campaign(channel, election, value, ttl).await;
        begun.unwrap_or_else(|status| panic!("the candidacy was not taken in: {status:?}"))
    }

    /// Does the same, but may be refused.
    ///
    /// # Errors
    ///
    /// The status with which the stream ended instead.
    ///
    /// # Panics
    ///
    /// If nothing is answered, or anything else.
    pub async fn try_campaign(
        channel: Channel,
        election: &str,
        value: &[u8],
        ttl: Duration,
    ) -> Result<Self, Status> {
        Self::try_campaign_as(channel, None, (election, value), ttl).await
    }

    /// Does the same with a bearer token.
    ///
    /// # Errors
    ///
    /// The status with which the stream ended instead.
    ///
    /// # Panics
    ///
    /// If nothing is answered, or anything else.
    pub async fn try_campaign_as(
        channel: Channel,
        token: Option<&str>,
        (election, value): (&str, &[u8]),
        ttl: Duration,
    ) -> Result<Self, Status> {
        let open = Request::Campaign(CampaignOpen {
            election: election.to_owned(),
            value: value.to_vec(),
            ttl: wire(ttl),
            client_name: "raw".to_owned(),
        });
        let (requests, outgoing) = mpsc::channel(64);
        requests
            .send(message(open))
            .await
            .expect("there is room for the first");
        let sent = vec![Instant::now()];
        let begin = async {
            let mut stub = ElectionServiceClient::new(channel);
            let mut responses = stub
                .campaign(with_token(ReceiverStream::new(outgoing), token))
                .await?
                .into_inner();
            let first = responses.message().await?;
            Ok::<_, Status>((responses, first))
        };
        let (responses, first) = tokio::time::timeout(PROMPT, begin)
            .await
            .unwrap_or_else(|_| panic!("nothing was answered within {PROMPT:?}"))?;
        let campaigning = match first.and_then(|first| first.response) {
            Some(Response::Campaigning(campaigning)) => campaigning,
            other => panic!("{other:?} came first"),
        };
        let (good, good_until) = watch::channel(None);
        let (tell, told) = mpsc::unbounded_channel();
        let heart = Heart {
            responses,
            requests: requests.downgrade(),
            sent,
            good,
            tell,
        };
        let every = parse(campaigning.heartbeat_interval);
        let task = AbortOnDropHandle::new(tokio::spawn(heart.run(every)));
        Ok(Self {
            requests,
            told,
            good_until,
            campaigning,
            _task: task,
        })
    }

    /// Returns the first answer to the campaign.
    pub fn campaigning(&self) -> &Campaigning {
        &self.campaigning
    }

    /// Returns the next message except answers to heartbeats, and the time at which it came.
    ///
    /// # Panics
    ///
    /// If nothing comes within `limit`, or the end has been told before.
    pub async fn next(&mut self, limit: Duration) -> (Instant, Told) {
        let next = tokio::time::timeout(limit, self.told.recv()).await;
        let next = next.unwrap_or_else(|_| panic!("a candidate was told nothing for {limit:?}"));
        next.expect("the end has not been told before")
    }

    /// Waits until it is elected.
    ///
    /// # Panics
    ///
    /// If it is not within `limit`, or is told anything else before.
    pub async fn elected(&mut self, limit: Duration) -> Term {
        match self.next(limit).await {
            (at, Ok(Some(Response::Elected(elected)))) => Term {
                token: elected.fencing_token,
                at,
            },
            (_, other) => panic!("not elected: {other:?}"),
        }
    }

    /// Returns the moment until which it may believe that it leads, by all messages so far; `None` if it was never elected.
    pub fn good_until(&self) -> Option<Instant> {
        *self.good_until.borrow()
    }

    /// Waits until the candidate has lost the leadership; returns the time and the reason.
    ///
    /// # Panics
    ///
    /// If it is not within `limit`, or is told anything else before.
    pub async fn lost(&mut self, limit: Duration) -> (Instant, LostReason) {
        match self.next(limit).await {
            (at, Ok(Some(Response::Lost(lost)))) => (at, lost.reason()),
            (_, other) => panic!("not lost: {other:?}"),
        }
    }

    /// Changes the value, and waits until that is done.
    ///
    /// # Panics
    ///
    /// If anything else is answered.
    pub async fn proclaim(&mut self, value: &[u8]) {
        self.ask_proclaim(value).await;
        let (_, answer) = self.next(PROMPT).await;
        let done = matches!(answer, Ok(Some(Response::Proclaimed(_))));
        assert!(done, "a proclaim was answered by {answer:?}");
    }

    /// Asks to change the value; the answer is left to be read.
    ///
    /// # Panics
    ///
    /// If the stream has ended.
    pub async fn ask_proclaim(&self, value: &[u8]) {
        let value = value.to_vec();
        self.say(Request::Proclaim(CampaignProclaim { value }))
            .await;
    }

    /// Asks to end the candidacy; the answer is left to be read.
    ///
    /// # Panics
    ///
    /// If the stream has ended.
    pub async fn ask_resign(&self) {
        self.say(Request::Resign(CampaignResign {})).await;
    }

    /// Ends the candidacy; whether it still led.
    ///
    /// # Panics
    ///
    /// If anything is answered but `resigned` and the end of the stream.
    pub async fn resign(mut self) -> bool {
        self.ask_resign().await;
        let led = match self.next(PROMPT).await {
            (_, Ok(Some(Response::Resigned(resigned)))) => resigned.led,
            (_, other) => panic!("a resign was answered by {other:?}"),
        };
        let (_, end) = self.next(PROMPT).await;
        assert!(matches!(end, Ok(None)), "{end:?}");
        led
    }

    async fn say(&self, request: Request) {
        let said = self.requests.send(message(request)).await;
        said.expect("the stream is up");
    }
}

fn message(request: Request) -> CampaignRequest {
    CampaignRequest {
        request: Some(request),
    }
}

/// Reads the messages, and sends heartbeats.
struct Heart {
    responses: Streaming<CampaignResponse>,
    /// Not kept open by this.
    requests: mpsc::WeakSender<CampaignRequest>,
    /// The times at which the heartbeats were sent; 0 is the campaign.
    sent: Vec<Instant>,
    good: watch::Sender<Option<Instant>>,
    tell: mpsc::UnboundedSender<(Instant, Told)>,
}

impl Heart {
    async fn run(mut self, every: Duration) {
        let mut beats = beats(every).await;
        loop {
            let next = tokio::select! {
                next = self.responses.message() => next,
                _ = beats.tick() => {
                    self.beat();
                    continue;
                }
            };
            let told = next.map(|next| next.map(|next| next.response.expect("it says something")));
            let is_end = !matches!(told, Ok(Some(_)));
            if !self.note(&told) {
                // Nobody listens to somebody who is being dropped.
                let _ = self.tell.send((Instant::now(), told));
            }
            if is_end {
                return;
            }
        }
    }

    fn beat(&mut self) {
        let sequence = u64::try_from(self.sent.len()).expect("a small number");
        let beat = message(Request::Heartbeat(SessionHeartbeat { sequence }));
        let sent = Instant::now();
        let requests = self.requests.upgrade();
        // Where nothing goes out any more, it was never sent.
        if requests.is_some_and(|requests| requests.try_send(beat).is_ok()) {
            self.sent.push(sent);
        }
    }

    /// Moves the deadline; true if that was all there is to it.
    fn note(&mut self, told: &Told) -> bool {
        let (acked, valid_for, was_asked) = match told {
            Ok(Some(Response::Elected(elected))) => {
                (elected.acked_heartbeat, elected.valid_for, false)
            }
            Ok(Some(Response::Heartbeat(ack))) if self.good.borrow().is_some() => {
                (ack.acked_heartbeat, ack.valid_for, true)
            }
            Ok(Some(Response::Heartbeat(_))) => return true,
            _ => return false,
        };
        let sent = self.sent[usize::try_from(acked).expect("a small number")];
        let until = sent + parse(valid_for);
        self.good
            .send_modify(|good| *good = (*good).max(Some(until)));
        was_asked
    }
}

async fn beats(every: Duration) -> Interval {
    let mut beats = interval(every);
    beats.set_missed_tick_behavior(MissedTickBehavior::Delay);
    // The first is the campaign itself.
    beats.tick().await;
    beats
}

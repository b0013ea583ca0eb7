//! Candidacy: a session with one lock, in messages of its own.
//!
//! The session does all the work, as for any other client: it waits, renews, releases and detects losses. This module only
//! translates messages.

use std::{collections::HashMap, time::Duration};

use leasehold_core::{id::OwnerId, mode::Mode, session::MAX_PENDING_ACKS};
use leasehold_proto::v1::{
    CampaignLost, CampaignOpen, CampaignProclaimed, CampaignRequest, CampaignResigned,
    CampaignResponse, Elected, LostReason, SessionAcquire, SessionCancel, SessionClose,
    SessionGranted, SessionLost, SessionRelease, SessionRequest, SessionSetValue,
    campaign_request::Request as Ask, campaign_response::Response as Say, session_request::Request,
    session_response::Response,
};

use super::answers::Answers;
use crate::{
    access::rules::{Permission, Place},
    convert,
    services::streams::{Opener, Peer, Streams, not_open},
    session::{
        driver::Opened,
        wire::{Next, Wire},
    },
    status::{Reason, Refusal},
};

/// Most proclaims that wait for their answers; then no more is read until the store has answered some.
const MAX_PROCLAIMS: usize = 64;
/// Most answers that a candidacy owes.
pub(super) const MAX_OWED: usize = MAX_PROCLAIMS + MAX_PENDING_ACKS;

/// The request ids that the session is asked with. What the session says of itself, and heartbeats, have 0.
const UNASKED: u64 = 0;
const ACQUIRE: u64 = 1;
const RESIGN: u64 = 2;
const FIRST_PROCLAIM: u64 = 3;

/// What the client of one candidacy has asked and was told.
#[derive(Debug)]
pub(super) struct Campaign {
    election: String,
    stage: Stage,
    /// The client wants to end it.
    resigning: bool,
    next: Option<Next>,
    next_proclaim: u64,
    answers: Answers,
}

/// How far a candidacy is.
#[derive(Clone, Copy, Debug)]
enum Stage {
    /// On its way to the store.
    Asked,
    /// It waits for its turn.
    Waiting,
    /// It leads, under this owner id.
    Leading(OwnerId),
    /// The last word was said.
    Over,
}

/// Opens a candidacy as its first message says.
pub(super) fn open(
    streams: &Streams,
    request: CampaignRequest,
    peer: &Peer,
) -> Result<Option<(Opened, Campaign)>, Refusal> {
    let Some(Ask::Campaign(CampaignOpen {
        election,
        value,
        ttl,
        client_name,
    })) = request.request
    else {
        return Err(not_open("campaign"));
    };
    // In its own words; the session checks again.
    convert::lock_name("campaign.election", &election, streams.coordinator.store())?;
    convert::value("campaign.value", &value)?;
    peer.rights
        .check(Permission::Acquire, Place::Election, &election)?;
    let opener = Opener {
        request_id: UNASKED,
        client_name: convert::client_name("campaign.client_name", &client_name)?,
        ttl: convert::ttl("campaign.ttl", ttl, streams.coordinator.bounds())?,
        disconnect_grace: Duration::ZERO,
        resume: Vec::new(),
        denied: Vec::new(),
        metadata: HashMap::new(),
    };
    let opened = streams.open(opener, peer)?;
    Ok(Some((opened, Campaign::new(election, value))))
}

impl Campaign {
    fn new(election: String, value: Vec<u8>) -> Self {
        let acquire = SessionAcquire {
            name: election.clone(),
            value,
            ..SessionAcquire::default()
        };
        Self {
            election,
            stage: Stage::Asked,
            resigning: false,
            next: Some(ask(ACQUIRE, Request::Acquire(acquire))),
            next_proclaim: FIRST_PROCLAIM,
            answers: Answers::default(),
        }
    }

    fn on_proclaim(&mut self, value: Vec<u8>) -> Option<SessionRequest> {
        let request_id = self.next_proclaim;
        self.next_proclaim += 1;
        let checked = convert::value("proclaim.value", &value).map(|_| ());
        let checked = checked.and_then(|()| match self.stage {
            Stage::Leading(owner) if !self.resigning => Ok(owner),
            _ => Err(not_leader()),
        });
        let (answer, owner) = match checked {
            Ok(owner) => (None, Some(owner)),
            Err(refusal) => (Some(Say::Error(convert::failure(refusal))), None),
        };
        self.answers.owe(request_id, answer);
        let set_value = SessionSetValue {
            name: self.election.clone(),
            owner_id: owner?.as_bytes().to_vec(),
            value,
        };
        Some(request(request_id, Request::SetValue(set_value)))
    }

    fn on_resign(&mut self) -> Option<SessionRequest> {
        // A second one changes nothing.
        if std::mem::replace(&mut self.resigning, true) {
            return None;
        }
        self.answers.owe(RESIGN, None);
        self.step_back()
    }

    /// What ends the candidacy where it stands. What the store has not answered is left until it has.
    fn step_back(&self) -> Option<SessionRequest> {
        match self.stage {
            Stage::Waiting => {
                let acquire_request_id = ACQUIRE;
                let cancel = SessionCancel { acquire_request_id };
                Some(request(UNASKED, Request::Cancel(cancel)))
            }
            Stage::Leading(owner) => {
                let release = SessionRelease {
                    name: self.election.clone(),
                    owner_id: owner.as_bytes().to_vec(),
                };
                Some(request(RESIGN, Request::Release(release)))
            }
            Stage::Asked | Stage::Over => None,
        }
    }

    fn on_granted(&mut self, granted: SessionGranted) {
        let lock = granted.locks.into_iter().next();
        let lock = lock.and_then(|lock| Some((OwnerId::parse(&lock.owner_id)?, lock)));
        let Some((owner, lock)) = lock else {
            // The session never says so; its end releases whatever it is.
            return self.fail(unexpected());
        };
        self.answers.announce(0);
        self.stage = Stage::Leading(owner);
        if self.resigning {
            // The grant crossed it: there is nothing to begin.
            self.next = self.step_back().map(Next::Ask);
            return;
        }
        self.answers.say(Say::Elected(Elected {
            fencing_token: lock.fencing_token,
            valid_for: granted.valid_for,
            acked_heartbeat: granted.acked_heartbeat,
        }));
    }

    fn on_not_granted(&mut self) {
        if self.resigning {
            self.answers
                .fulfil(RESIGN, Say::Resigned(CampaignResigned { led: false }));
        } else {
            self.fail(unexpected());
        }
    }

    fn on_lost(&mut self, lost: &SessionLost) {
        let reason = lost
            .locks
            .first()
            .map_or(LostReason::Unspecified, |lock| lock.reason());
        let reason = reason.into();
        self.answers.say(Say::Lost(CampaignLost { reason }));
    }

    /// The stream ends with an error.
    fn fail(&mut self, refusal: Refusal) {
        self.stage = Stage::Over;
        self.next = Some(Next::Fail(refusal));
    }

    fn is_over(&self) -> bool {
        matches!(self.stage, Stage::Over)
    }
}

impl Wire for Campaign {
    type Asks = CampaignRequest;
    type Says = CampaignResponse;

    /// A candidacy can't be resumed: its place would only be in the way of others.
    const TELLS_TICKETS: bool = false;

    fn hear(&mut self, message: CampaignRequest) -> Option<SessionRequest> {
        if self.is_over() {
            return None;
        }
        match message.request {
            Some(Ask::Proclaim(proclaim)) => self.on_proclaim(proclaim.value),
            Some(Ask::Heartbeat(heartbeat)) => {
                Some(request(UNASKED, Request::Heartbeat(heartbeat)))
            }
            Some(Ask::Resign(_)) => self.on_resign(),
            Some(Ask::Campaign(_)) => {
                self.answers
                    .say(Say::Error(convert::failure(already_open())));
                None
            }
            None => {
                self.answers.say(Say::Error(convert::failure(unknown())));
                None
            }
        }
    }

    fn say(&mut self, request_id: u64, response: Response) -> Option<CampaignResponse> {
        if self.is_over() {
            return None;
        }
        match response {
            Response::Opened(opened) => self.answers.opened(opened),
            Response::Queued(queued) => {
                self.answers.announce(queued.position);
                self.stage = Stage::Waiting;
                if self.resigning {
                    self.next = self.step_back().map(Next::Ask);
                }
            }
            Response::Granted(granted) => self.on_granted(granted),
            Response::NotGranted(_) => self.on_not_granted(),
            Response::Released(released) => {
                let led = released.released;
                self.answers
                    .fulfil(RESIGN, Say::Resigned(CampaignResigned { led }));
            }
            Response::ValueSet(set) => {
                let answer = if set.value_set {
                    Say::Proclaimed(CampaignProclaimed {})
                } else {
                    Say::Error(convert::failure(lost_before()))
                };
                self.answers.fulfil(request_id, answer);
            }
            Response::Heartbeat(ack) => self.answers.say(Say::Heartbeat(ack)),
            Response::Draining(draining) => self.answers.say(Say::Draining(draining)),
            Response::Lost(lost) => self.on_lost(&lost),
            Response::Error(failure) => self.answers.say(Say::Error(failure)),
            // Nothing that a candidate asks for, or has to know.
            Response::Closed(_) | Response::Downgraded(_) => {}
        }
        self.more()
    }

    fn refuse(&mut self, request_id: u64, refusal: Refusal) -> Option<CampaignResponse> {
        if self.is_over() {
            return None;
        }
        match request_id {
            UNASKED => self.answers.say(Say::Error(convert::failure(refusal))),
            // Without them there is no candidacy any more, and nothing to say but why.
            ACQUIRE | RESIGN => self.fail(refusal),
            _ => self
                .answers
                .fulfil(request_id, Say::Error(convert::failure(refusal))),
        }
        self.more()
    }

    fn more(&mut self) -> Option<CampaignResponse> {
        if self.is_over() {
            return None;
        }
        let say = self.answers.next()?;
        if matches!(say, Say::Resigned(_) | Say::Lost(_)) {
            // The last word: nothing is left, and the stream ends.
            self.stage = Stage::Over;
            self.next = Some(ask(UNASKED, Request::Close(SessionClose {})));
        }
        Some(CampaignResponse {
            response: Some(say),
        })
    }

    fn next(&mut self) -> Option<Next> {
        self.next.take()
    }

    fn kept_back(&self) -> usize {
        self.answers.kept_back()
    }

    fn place(_: Mode) -> Place {
        Place::Election
    }

    fn is_ending(&self) -> bool {
        self.resigning || self.is_over()
    }
}

fn request(request_id: u64, request: Request) -> SessionRequest {
    SessionRequest {
        request_id,
        request: Some(request),
        ..SessionRequest::default()
    }
}

fn ask(request_id: u64, asked: Request) -> Next {
    Next::Ask(request(request_id, asked))
}

fn already_open() -> Refusal {
    Refusal::new(
        Reason::AlreadyOpen,
        "this stream is a candidacy already; open another stream for another one",
    )
}

fn unknown() -> Refusal {
    Refusal::new(
        Reason::UnknownRequest,
        "the message holds no request that this coordinator knows; set one of the fields of `request`",
    )
}

fn not_leader() -> Refusal {
    Refusal::new(
        Reason::NotLeader,
        "the candidate does not lead, so there is nothing to proclaim; wait until it is elected, or give the value with `campaign`",
    )
}

fn lost_before() -> Refusal {
    Refusal::new(
        Reason::LockLost,
        "the leadership was lost before the value was changed; campaign again",
    )
}

fn unexpected() -> Refusal {
    Refusal::new(
        Reason::StoreGarbled,
        "the candidacy ended though nobody had ended it; campaign again",
    )
}

#[cfg(test)]
mod tests;

//! Candidacy: a session with one lock, in messages of its own.
//!
//! The session does all the work, as for any other client: it waits, renews, releases and detects losses. A [`Campaign`] translates:
//! messages of the candidate become requests of a session, and the session's answers become responses to the
//! candidate. The candidacy also has requests of its own: it acquires the election's lock, and closes the session after the
//! last response.

use leasehold_core::{
    id::OwnerId,
    planted::{Fault, is_planted},
    session::MAX_PENDING_ACKS,
};
use leasehold_proto::v1::{
    CampaignLost, CampaignOpen, CampaignProclaimed, CampaignReleaseRequested, CampaignRequest,
    CampaignResigned, CampaignResponse, Elected, LostReason, SessionAcquire, SessionCancel,
    SessionClose, SessionGranted, SessionLost, SessionOpen, SessionRelease, SessionRequest,
    SessionResponse, SessionSetValue, campaign_request::Request as Ask,
    campaign_response::Response as Say, session_request::Request, session_response::Response,
};
use tonic::Status;

use super::answers::Answers;
use crate::{
    access::{
        check_granted,
        rules::{Granted, Permission, Place},
    },
    convert::{self, FieldBounds, request::unknown_request, stream::MAX_PROCLAIMS},
    services::opening::not_open,
    status::{Reason, Refusal},
};

/// Most answers that wait to be given. With as many, no more messages are taken in until the store has answered some.
const MAX_OWED: usize = MAX_PROCLAIMS + MAX_PENDING_ACKS;

/// The request ids that the session is asked with. What the session says of itself, and heartbeats, have 0.
const UNASKED: u64 = 0;
const ACQUIRE: u64 = 1;
const RESIGN: u64 = 2;
const FIRST_PROCLAIM: u64 = 3;

/// State of one candidacy: the client's requests, and the messages to it. A machine without I/O.
#[derive(Debug, Default)]
pub struct Campaign {
    election: String,
    stage: Stage,
    /// The client wants to end it.
    resigning: bool,
    next_request: Option<SessionRequest>,
    /// The error that ends the stream.
    failure: Option<Status>,
    proclaims: u64,
    answers: Answers,
}

/// Stage of a candidacy.
#[derive(Clone, Copy, Debug, Default)]
enum Stage {
    /// Time on its way to the store.
    #[default]
    Asked,
    /// It waits for its turn.
    Waiting,
    /// It leads, under this owner id.
    Leading(OwnerId),
    /// The last response was given.
    Over,
}

impl Campaign {
    /// Begins a candidacy with the candidate's first message, whose fields it knows by other names than the session. Returns the
    /// request that opens the session.
    ///
    /// # Errors
    ///
    /// If the message is another one, a field is wrong, or the permission is missing.
    pub fn open(
        &mut self,
        message: CampaignRequest,
        bounds: FieldBounds<'_>,
        granted: &Granted,
    ) -> Result<SessionRequest, Refusal> {
        let Some(Ask::Campaign(CampaignOpen {
            election,
            value,
            ttl,
            client_name,
        })) = message.request
        else {
            return Err(not_open("campaign"));
        };
        convert::lock_name("campaign.election", &election, bounds.store)?;
        convert::value("campaign.value", &value)?;
        check_granted(granted, Permission::Acquire, Place::Election, &election)?;
        convert::client_name("campaign.client_name", &client_name)?;
        convert::ttl("campaign.ttl", ttl, bounds.ttl)?;
        self.begin(election, value);
        let open = SessionOpen {
            client_name,
            ttl,
            ..SessionOpen::default()
        };
        Ok(request(UNASKED, Request::Open(open)))
    }

    fn begin(&mut self, election: String, value: Vec<u8>) {
        self.election.clone_from(&election);
        let acquire = SessionAcquire {
            name: election,
            value,
            ..SessionAcquire::default()
        };
        self.next_request = Some(request(ACQUIRE, Request::Acquire(acquire)));
    }

    fn on_proclaim(&mut self, value: Vec<u8>) -> Option<SessionRequest> {
        let request_id = FIRST_PROCLAIM + self.proclaims;
        self.proclaims += 1;
        let checked = convert::value("proclaim.value", &value).map(|_| ());
        let checked = checked.and_then(|()| match self.stage {
            Stage::Leading(owner) if !self.resigning => Ok(owner),
            _ => Err(not_leader()),
        });
        let (answer, owner) = match checked {
            Ok(owner) => (None, Some(owner)),
            Err(refusal) => (Some(error(refusal)), None),
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
        if is_planted(Fault::ResignDropped) {
            return None;
        }
        self.step_back()
    }

    /// Returns the request that ends the candidacy in its present state; `None` until the store has answered the acquire, and
    /// after the candidacy's end.
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
                    expired: false,
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
            return self.fail(unexpected().into());
        };
        self.answers.announce(0);
        self.stage = Stage::Leading(owner);
        if self.resigning {
            // The grant crossed it: there is nothing to begin.
            self.next_request = self.step_back();
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
            self.fail(unexpected().into());
        }
    }

    fn on_lost(&mut self, lost: &SessionLost) {
        if is_planted(Fault::DepositionUntold) {
            return;
        }
        let reason = lost
            .locks
            .first()
            .map_or(LostReason::Unspecified, |lock| lock.reason());
        let reason = reason.into();
        self.answers.say(Say::Lost(CampaignLost { reason }));
    }

    /// Ends the stream with an error.
    fn fail(&mut self, failure: Status) {
        self.failure = Some(failure);
        self.end();
    }

    /// Ends the session: the candidate has nothing left.
    fn end(&mut self) {
        self.stage = Stage::Over;
        self.next_request = Some(request(UNASKED, Request::Close(SessionClose {})));
    }

    fn is_over(&self) -> bool {
        matches!(self.stage, Stage::Over)
    }

    /// Handles a message of the candidate. Returns the request to the session, if any.
    pub fn hear(&mut self, message: CampaignRequest) -> Option<SessionRequest> {
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
                self.answers.say(error(already_open()));
                None
            }
            None => {
                self.answers.say(error(unknown_request()));
                None
            }
        }
    }

    /// Takes an answer of the session in.
    pub fn on_answer(&mut self, answer: SessionResponse) {
        let (request_id, Some(response)) = (answer.request_id, answer.response) else {
            return;
        };
        if self.is_over() {
            return;
        }
        match response {
            Response::Opened(opened) => self.answers.opened(opened),
            Response::Queued(queued) => {
                self.answers.announce(queued.position);
                self.stage = Stage::Waiting;
                if self.resigning {
                    self.next_request = self.step_back();
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
                    error(lost_before())
                };
                self.answers.fulfil(request_id, answer);
            }
            Response::Heartbeat(ack) => self.answers.say(Say::Heartbeat(ack)),
            Response::Draining(draining) => self.answers.say(Say::Draining(draining)),
            // One that resigns does it already.
            Response::ReleaseRequested(_) if self.resigning => {}
            Response::ReleaseRequested(requested) => {
                let (reason, within) = (requested.reason, requested.within);
                let requested = CampaignReleaseRequested { reason, within };
                self.answers.say(Say::ReleaseRequested(requested));
            }
            Response::Lost(lost) => self.on_lost(&lost),
            Response::Error(failure) => match request_id {
                UNASKED => self.answers.say(Say::Error(failure)),
                // Without these there is no candidacy any more, and nothing to say but why.
                ACQUIRE | RESIGN => self.fail(convert::status(failure)),
                _ => self.answers.fulfil(request_id, Say::Error(failure)),
            },
            // A candidate neither asks for these nor needs to know of them.
            Response::Closed(_) | Response::Downgraded(_) | Response::Reduced(_) => {}
        }
    }

    /// Returns the next request to the session that no message of the candidate asked for.
    pub fn take_request(&mut self) -> Option<SessionRequest> {
        self.next_request.take()
    }

    /// Returns the next response to the candidate, or the error that ends its stream.
    pub fn next_response(&mut self) -> Option<Result<CampaignResponse, Status>> {
        if self.is_over() {
            return self.failure.take().map(Err);
        }
        let say = self.answers.next()?;
        if matches!(say, Say::Resigned(_) | Say::Lost(_)) {
            self.end();
        }
        Some(Ok(CampaignResponse {
            response: Some(say),
        }))
    }

    /// Returns whether another message may be taken in.
    pub(super) fn has_room(&self) -> bool {
        self.is_over() || self.answers.len() < MAX_OWED
    }

    /// Returns whether the candidate has said all that it has to say: the end of its side of the stream means nothing then, and
    /// does not keep the last response from it.
    pub(super) fn is_ending(&self) -> bool {
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

fn error(refusal: Refusal) -> Say {
    Say::Error(convert::failure(refusal))
}

fn already_open() -> Refusal {
    Refusal::new(
        Reason::AlreadyOpen,
        "this stream is a candidacy already; open another stream for another one",
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

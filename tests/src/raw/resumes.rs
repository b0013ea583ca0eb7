//! Resume of another stream's holds and waits.

use std::{
    collections::HashMap,
    time::{Duration, Instant},
};

use leasehold_proto::v1::{
    GrantedLock, LostLock, LostReason, ResumedHold, ResumedLock, ResumedWait, SessionOpen,
    SessionOpened, SessionQueued, SessionResponse, SessionResume, resumed_lock,
    session_request::Request, session_response::Response, session_resume,
};

use rand::{Rng, SeedableRng, rngs::StdRng};

use tonic::Status;

use super::{PROMPT, RawSession, connect, parse, wire};

/// Answer to an `open` that resumes, in one or more messages.
#[derive(Debug)]
pub struct Resumed {
    /// The first message, without its locks.
    pub opened: SessionOpened,
    /// The locks that were resumed.
    pub resumed: Vec<ResumedLock>,
    /// The locks that were refused.
    pub refused: Vec<LostLock>,
    /// The number of messages.
    pub messages: usize,
    /// Until when the client may believe in its holds, if there are any.
    pub good_until: Option<Instant>,
}

/// Returns a fresh owner id.
pub fn fresh_owner_id() -> Vec<u8> {
    StdRng::from_os_rng().random::<[u8; 16]>().to_vec()
}

/// Returns the resume of a hold, as it was granted or counted last.
pub fn resume_hold(lock: &GrantedLock) -> SessionResume {
    SessionResume {
        name: lock.name.clone(),
        owner_id: lock.owner_id.clone(),
        tried_owner_ids: Vec::new(),
        next_owner_id: fresh_owner_id(),
        what: Some(session_resume::What::Hold(ResumedHold {
            fencing_token: lock.fencing_token,
            hold_count: lock.hold_count,
        })),
    }
}

/// Returns the resume of a place in a queue, which goes on waiting without a bound.
pub fn resume_wait(name: &str, ticket: &[u8], acquire_request_id: u64) -> SessionResume {
    SessionResume {
        name: name.to_owned(),
        owner_id: ticket.to_vec(),
        tried_owner_ids: Vec::new(),
        next_owner_id: fresh_owner_id(),
        what: Some(session_resume::What::Wait(ResumedWait {
            acquire_request_id,
            wait: None,
        })),
    }
}

/// Returns another attempt of an unanswered resume.
pub fn resume_again(resume: &SessionResume) -> SessionResume {
    let mut again = resume.clone();
    again.tried_owner_ids.push(resume.next_owner_id.clone());
    again.next_owner_id = fresh_owner_id();
    again
}

impl Resumed {
    /// Returns all holds by name, each as a grant would show it.
    pub fn holds(&self) -> HashMap<String, GrantedLock> {
        let holds = self.resumed.iter().filter_map(|lock| {
            let Some(resumed_lock::What::Hold(hold)) = &lock.what else {
                return None;
            };
            let granted = GrantedLock {
                name: lock.name.clone(),
                owner_id: lock.owner_id.clone(),
                fencing_token: hold.fencing_token,
                hold_count: hold.hold_count,
                permits: lock.permits,
            };
            Some((lock.name.clone(), granted))
        });
        holds.collect()
    }

    /// Returns the places in queues, by name.
    pub fn places(&self) -> HashMap<String, u64> {
        let places = self.resumed.iter().filter_map(|lock| match lock.what {
            Some(resumed_lock::What::Position(position)) => Some((lock.name.clone(), position)),
            _ => None,
        });
        places.collect()
    }

    /// Returns the only hold.
    ///
    /// # Panics
    ///
    /// If there is anything else.
    pub fn only_hold(&self) -> GrantedLock {
        let holds: Vec<_> = self.holds().into_values().collect();
        let [hold] = <[_; 1]>::try_from(holds).expect("one hold");
        assert_eq!((self.resumed.len(), self.refused.len()), (1, 0), "{self:?}");
        hold
    }
}

impl RawSession {
    /// Opens a session that resumes, on a connection of its own.
    ///
    /// # Panics
    ///
    /// If it is not opened.
    pub async fn resume(
        endpoint: &str,
        ttl: Duration,
        resume: Vec<SessionResume>,
    ) -> (Self, Resumed) {
        let open = SessionOpen {
            ttl: wire(ttl),
            resume,
            ..SessionOpen::default()
        };
        Self::open_as(endpoint, open).await
    }

    /// Opens a session in any way, on a connection of its own.
    ///
    /// # Panics
    ///
    /// If it is not opened.
    pub async fn open_as(endpoint: &str, open: SessionOpen) -> (Self, Resumed) {
        let mut session = Self::stream(connect(endpoint).await)
            .await
            .expect("the stream begins");
        let id = session.ask_open(open).await;
        let resumed = session.opened(id).await;
        (session, resumed)
    }

    /// Says `open` and returns the request's id; the answer is left to be read.
    ///
    /// # Panics
    ///
    /// If the stream has ended.
    pub async fn ask_open(&mut self, open: SessionOpen) -> u64 {
        self.heart.note();
        self.send(Request::Open(open)).await
    }

    /// Waits for the whole answer to an `open`, and returns it.
    ///
    /// # Panics
    ///
    /// If anything else is answered, or not all of it comes.
    pub async fn opened(&mut self, request_id: u64) -> Resumed {
        let opened = self.try_opened(request_id).await;
        opened.expect("the session is opened")
    }

    /// Does the same for an `open` that may be refused.
    ///
    /// # Errors
    ///
    /// The status with which the stream ended.
    ///
    /// # Panics
    ///
    /// If anything else is answered, or not all of it comes.
    pub async fn try_opened(&mut self, request_id: u64) -> Result<Resumed, Status> {
        let (mut resumed, mut refused) = (Vec::new(), Vec::new());
        let mut first = None;
        for messages in 1.. {
            let answer = match self.next(PROMPT).await? {
                Some(answer) if answer.request_id == request_id => answer.response,
                other => panic!("the session was not opened: {other:?}"),
            };
            let Some(Response::Opened(mut opened)) = answer else {
                panic!("the session was not opened: {answer:?}");
            };
            resumed.append(&mut opened.resumed);
            refused.append(&mut opened.refused);
            let more = opened.more;
            let opened = first.get_or_insert(opened);
            if !more {
                let valid_for = opened.valid_for.is_some().then(|| parse(opened.valid_for));
                return Ok(Resumed {
                    opened: opened.clone(),
                    resumed,
                    refused,
                    messages,
                    good_until: valid_for.map(|valid_for| self.heart.sent(0) + valid_for),
                });
            }
        }
        unreachable!("messages are counted for ever")
    }

    /// Waits until an acquire has been queued, and returns its place and ticket.
    ///
    /// # Panics
    ///
    /// If anything else is answered.
    pub async fn ticket(&mut self, request_id: u64) -> SessionQueued {
        match self.answer(request_id, PROMPT).await {
            Response::Queued(queued) => queued,
            other => panic!("not queued: {other:?}"),
        }
    }

    /// Returns the owner ids of the holds that another stream has resumed so far, by the messages to this session.
    pub fn resumed_elsewhere(&self) -> Vec<Vec<u8>> {
        let unasked = self.unread_unasked().into_iter();
        let lost = unasked.filter_map(|message| match &message.response {
            Some(Response::Lost(lost)) => Some(&lost.locks),
            _ => None,
        });
        let resumed = lost.flatten().filter(|lock| is_resumed(lock));
        resumed.map(|lock| lock.owner_id.clone()).collect()
    }

    /// Returns what this session was told unasked, except that another stream has resumed its holds.
    pub fn unread_but_resumed(&self) -> Vec<&SessionResponse> {
        let mut unasked = self.unread_unasked();
        unasked.retain(|message| match &message.response {
            Some(Response::Lost(lost)) => !lost.locks.iter().all(is_resumed),
            _ => true,
        });
        unasked
    }
}

fn is_resumed(lock: &LostLock) -> bool {
    lock.reason() == LostReason::Resumed
}

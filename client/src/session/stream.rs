//! State of one lease stream. It is dropped with the stream, so that nothing of an old stream can leak into the next.

use std::{
    collections::{BTreeMap, HashMap, hash_map::Entry},
    sync::Arc,
    time::Duration,
};

use super::{
    heartbeats::Heartbeats,
    ids::Ids,
    messages::SessionInfo,
    optional_move::OptionalMove,
    output::Output,
    pending::{ChangeRequest, Release},
};
use crate::{
    clock::{Moment, earlier},
    proto::{
        duration,
        v1::{self, session_request::Request as Body, session_resume},
    },
    trace::TraceContext,
};

/// Time limit for the answer to a `close`; after it, the stream is cut.
pub(super) const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);

/// Heartbeats are never sent faster than this, whatever a coordinator asks for.
const SHORTEST_HEARTBEAT: Duration = Duration::from_millis(10);

/// A session that has nothing sends a heartbeat at least this often, whatever a coordinator allows.
const LONGEST_REST: Duration = Duration::from_secs(600);

/// Request that waits for its answer.
pub(super) enum InFlight {
    Open,
    /// An acquire, by its number in the session.
    Acquire(u64),
    /// An acquire whose caller waits no longer. If it is granted, the session gives the lock back.
    Abandoned {
        /// The actor; 0 for none.
        actor: u64,
    },
    Release(Release),
    Change(ChangeRequest),
    /// A heartbeat or a close.
    Other,
}

/// Terms of the session, as the coordinator opened it.
pub(super) struct Opened {
    pub(super) ttl: Duration,
    pub(super) heartbeat_interval: Duration,
    pub(super) next_heartbeat: Moment,
    /// Time from which answers are missed: that of the last answer to a heartbeat, or of the session's opening, or the end of
    /// a rest.
    pub(super) silent_from: Moment,
    /// The session has nothing, and need not send a heartbeat at every interval.
    rests: bool,
}

impl Opened {
    /// Notes an answer to a heartbeat.
    pub(super) fn answered(&mut self, now: Moment) {
        self.silent_from = if self.rests { self.next_heartbeat } else { now };
    }

    /// Puts the next heartbeat off, because the session has nothing. It is due so long after that one was sent.
    pub(super) fn rest(&mut self, sent_at: Moment, pause: Duration) {
        let next = sent_at.after(pause.min(LONGEST_REST));
        if next > self.next_heartbeat {
            self.next_heartbeat = next;
            self.silent_from = next;
            self.rests = true;
        }
    }

    /// Ends a rest.
    fn wake(&mut self, now: Moment, last_sent: Moment) {
        if std::mem::take(&mut self.rests) {
            self.next_heartbeat = last_sent.after(self.heartbeat_interval);
            self.silent_from = now;
        }
    }
}

/// An actor that has abandoned acquires. Until the coordinator has answered them, it takes the actor for waiting or holding,
/// and would refuse the actor's next acquires.
#[derive(Default)]
struct Abandoning {
    unanswered: usize,
    /// Its next acquires, by their numbers in the session.
    held_back: Vec<u64>,
}

/// Treatment of the coordinator's messages once another stream has been asked to take over the session's holds.
pub(super) enum Hearing {
    /// Nothing is being taken over.
    Open,
    /// It is kept until the other stream has answered.
    Withheld(Vec<v1::SessionResponse>),
    /// The other stream ended without an answer: the session does not know which holds this coordinator still has.
    Deaf,
}

/// Hold or waiter that another stream is asked to take over, by its next owner id.
pub(super) enum Asked {
    /// A hold, by its number.
    Hold(u64),
    /// A place in a queue.
    Wait(AskedWait),
}

/// Place in a queue that another stream is asked to take over.
pub(super) struct AskedWait {
    /// The number of the acquire in the session.
    pub(super) acquire: u64,
    /// Its request on the other stream.
    pub(super) request_id: u64,
    /// The actor; 0 for none.
    pub(super) actor: u64,
}

pub(super) struct Stream {
    /// Never used again in this session.
    pub(super) number: u64,
    /// Endpoint that it leads to, for messages.
    pub(super) endpoint: Arc<str>,
    pub(super) heartbeats: Heartbeats,
    /// `open` was sent.
    pub(super) asked: bool,
    /// Resumes in `open` that have not been answered.
    pub(super) resuming: BTreeMap<Vec<u8>, Asked>,
    /// The parts of `opened` that have come, if there are more.
    pub(super) opening: Option<v1::SessionOpened>,
    pub(super) opened: Option<Opened>,
    /// Before `open` is sent, the latest time for that. Afterwards, the time at which the stream is given up unless it has
    /// opened.
    pub(super) open_by: Moment,
    /// The coordinator is going away, by then: nothing new is asked of it.
    pub(super) draining: Option<Moment>,
    /// No heartbeat has been answered for a while: nothing new is asked of it.
    pub(super) silent: bool,
    /// The session is to move, but goes on with this stream if it can have no other.
    pub(super) optional_move: OptionalMove,
    pub(super) hearing: Hearing,
    /// `close` was sent; the stream is cut if it has not ended by then.
    pub(super) closing: Option<Moment>,
    pub(super) in_flight: HashMap<u64, InFlight>,
    /// By the number of the actor, never 0.
    abandoning: HashMap<u64, Abandoning>,
    last_request_id: u64,
}

impl Stream {
    pub(super) fn new(number: u64, endpoint: Arc<str>, open_by: Moment) -> Self {
        Self {
            number,
            endpoint,
            heartbeats: Heartbeats::opening(open_by),
            asked: false,
            resuming: BTreeMap::new(),
            opening: None,
            opened: None,
            open_by,
            draining: None,
            silent: false,
            optional_move: OptionalMove::default(),
            hearing: Hearing::Open,
            closing: None,
            in_flight: HashMap::new(),
            abandoning: HashMap::new(),
            last_request_id: 0,
        }
    }

    /// Notes that the `open` is sent at `now`, and must be answered by `open_by`.
    pub(super) fn begin(&mut self, now: Moment, open_by: Moment) {
        self.heartbeats = Heartbeats::opening(now);
        self.asked = true;
        self.open_by = open_by;
    }

    /// Notes that the session is open on it, and returns the session's description.
    pub(super) fn open(&mut self, now: Moment, opened: &mut v1::SessionOpened) -> SessionInfo {
        let ttl = duration(opened.ttl).unwrap_or_default();
        let heartbeat_interval = duration(opened.heartbeat_interval).unwrap_or_default();
        let heartbeat_interval = heartbeat_interval.max(SHORTEST_HEARTBEAT);
        self.opened = Some(Opened {
            ttl,
            heartbeat_interval,
            next_heartbeat: now.after(heartbeat_interval),
            silent_from: now,
            rests: false,
        });
        SessionInfo {
            session_id: std::mem::take(&mut opened.session_id),
            coordinator: std::mem::take(&mut opened.coordinator),
            ttl,
            heartbeat_interval,
        }
    }

    /// Returns whether the session is to move to another stream.
    pub(super) fn is_to_be_left(&self) -> bool {
        let is_left = self.must_be_left() || self.optional_move.is_due();
        self.opened.is_some() && self.closing.is_none() && is_left
    }

    /// Returns whether the stream can't go on for long as it is.
    pub(super) fn must_be_left(&self) -> bool {
        self.draining.is_some() || self.silent || !self.is_heard()
    }

    /// Returns whether the coordinator's messages count.
    pub(super) fn is_heard(&self) -> bool {
        matches!(self.hearing, Hearing::Open)
    }

    /// Returns whether acquires may be sent on it, unless there is a stream to move to.
    pub(super) fn accepts(&self) -> bool {
        self.opened.is_some() && self.closing.is_none() && !self.must_be_left()
    }

    /// Numbers a request and remembers what its answer is for. Numbers are never used again on a stream.
    pub(super) fn number_request(&mut self, expects: InFlight) -> u64 {
        self.last_request_id += 1;
        if !matches!(expects, InFlight::Other) {
            self.in_flight.insert(self.last_request_id, expects);
        }
        self.last_request_id
    }

    /// Returns the number of the newest request.
    pub(super) fn last_request_id(&self) -> u64 {
        self.last_request_id
    }

    /// Returns the output that sends a request as a part of this trace.
    pub(super) fn send<A, H>(
        &mut self,
        body: Body,
        expects: InFlight,
        trace: Option<&TraceContext>,
    ) -> Output<A, H> {
        let request = v1::SessionRequest {
            request_id: self.number_request(expects),
            request: Some(body),
            traceparent: trace.map(ToString::to_string).unwrap_or_default(),
        };
        Output::Send(self.number, request)
    }

    /// Returns the output that sends a heartbeat, and puts the next one off by this interval.
    pub(super) fn send_heartbeat<A, H>(
        &mut self,
        now: Moment,
        interval: Duration,
    ) -> Option<Output<A, H>> {
        let opened = self.opened.as_mut()?;
        opened.wake(now, now);
        opened.next_heartbeat = now.after(interval);
        let sequence = self.heartbeats.note(now);
        let body = Body::Heartbeat(v1::SessionHeartbeat { sequence });
        Some(self.send(body, InFlight::Other, None))
    }

    /// Ends a rest, because the session is about to ask for something. Returns the heartbeat to send before, if the last one is
    /// older than the interval: deadlines count from the newest that the coordinator has heard.
    pub(super) fn wake<A, H>(&mut self, now: Moment) -> Option<Output<A, H>> {
        let last_sent = self.heartbeats.last_sent()?;
        let opened = self.opened.as_mut().filter(|opened| opened.rests)?;
        opened.wake(now, last_sent);
        let interval = opened.heartbeat_interval;
        (opened.next_heartbeat <= now)
            .then(|| self.send_heartbeat(now, interval))
            .flatten()
    }

    /// Returns the output that closes the session on this stream.
    pub(super) fn send_close<A, H>(&mut self) -> Output<A, H> {
        self.send(Body::Close(v1::SessionClose {}), InFlight::Other, None)
    }

    /// Returns the output that cancels an acquire for which the caller no longer waits.
    pub(super) fn cancel<A, H>(&mut self, acquire_request_id: u64, actor: u64) -> Output<A, H> {
        self.abandon(acquire_request_id, actor);
        let body = Body::Cancel(v1::SessionCancel { acquire_request_id });
        self.send(body, InFlight::Other, None)
    }

    /// Returns the request to take over what is known by these ids, under another one from now on.
    pub(super) fn resume(
        &mut self,
        name: &str,
        ids: &mut Ids,
        next_owner_id: Vec<u8>,
        what: session_resume::What,
        asked: Asked,
    ) -> v1::SessionResume {
        ids.attempt(next_owner_id.clone());
        self.resuming.insert(next_owner_id.clone(), asked);
        v1::SessionResume {
            name: name.to_owned(),
            owner_id: ids.confirmed().to_vec(),
            tried_owner_ids: ids.tried().to_vec(),
            next_owner_id,
            what: Some(what),
        }
    }

    /// Notes that the caller no longer waits for this acquire.
    fn abandon(&mut self, request_id: u64, actor: u64) {
        self.in_flight
            .insert(request_id, InFlight::Abandoned { actor });
        if actor != 0 {
            self.abandoning.entry(actor).or_default().unanswered += 1;
        }
    }

    /// Returns whether an acquire of this actor must be held back. If so, [`Stream::abandoned_answered`] returns it later.
    pub(super) fn holds_back(&mut self, actor: u64, acquire: u64) -> bool {
        let abandoning = self.abandoning.get_mut(&actor);
        let holds_back = abandoning.is_some();
        if let Some(abandoning) = abandoning {
            abandoning.held_back.push(acquire);
        }
        holds_back
    }

    /// Notes that an abandoned acquire of this actor was answered. Returns the acquires held back that can be sent now.
    pub(super) fn abandoned_answered(&mut self, actor: u64) -> Vec<u64> {
        let Entry::Occupied(mut abandoning) = self.abandoning.entry(actor) else {
            return Vec::new();
        };
        abandoning.get_mut().unanswered -= 1;
        match abandoning.get().unanswered {
            0 => abandoning.remove().held_back,
            _ => Vec::new(),
        }
    }

    /// Returns when this stream needs attention next: for a heartbeat, for answers or a close that have been missing for too
    /// long.
    pub(super) fn alarm(&self) -> Option<Moment> {
        if self.closing.is_some() {
            return self.closing;
        }
        let Some(opened) = &self.opened else {
            return Some(self.open_by);
        };
        let silence = match self.silent {
            true => opened.silent_from.after(opened.ttl),
            false => opened.silent_from.after(opened.ttl / 2),
        };
        let heartbeat_or_move = earlier(Some(opened.next_heartbeat), self.optional_move.alarm());
        earlier(heartbeat_or_move, Some(silence))
    }

    /// Returns the deadline of a lock that is valid for this long since that heartbeat was sent, as the answer that came now says;
    /// none if it never was.
    pub(super) fn deadline(
        &self,
        now: Moment,
        acked_heartbeat: u64,
        valid_for: Option<prost_types::Duration>,
    ) -> Option<Moment> {
        let sent_at = self.heartbeats.answered(now, acked_heartbeat)?;
        Some(sent_at.after(duration(valid_for).unwrap_or_default()))
    }
}

//! What a session does upon each event, as a pure state machine: no socket, no task, no clock. Time is passed in;
//! what to do comes out of [`Machine::next_output`]. The driver carries it out.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
    time::Duration,
};

use super::{
    SessionInfo,
    holds::Holds,
    releases::{RETRY_FIRST, Retry},
    stream::{CLOSE_TIMEOUT, InFlight, Stream},
    waits::Waiting,
};
use crate::{
    clock::{Moment, earlier},
    error::{AcquireError, ConnectError, HoldFailure},
    lease::{Lease, LostReason},
    proto::v1::{self, session_request::Request as Body},
};

/// A lock that was granted, for the driver to make a guard of.
pub(crate) struct Granted {
    pub(crate) key: u64,
    pub(crate) lease: Arc<Lease>,
    /// How many times it is held with this grant.
    pub(crate) hold_count: u32,
}

/// What is to be done. `A` is how an acquire is answered, `H` a request about a hold.
pub(super) enum Output<A, H> {
    /// Put this on the stream.
    Send(v1::SessionRequest),
    /// One for each lock, in the order in which they were named.
    Acquired(A, Result<Vec<Granted>, AcquireError>),
    HoldDone(H, Result<(), HoldFailure>),
    /// The session is open.
    Opened(SessionInfo),
    /// The coordinator is going away at this moment.
    Draining(Moment),
    /// The stream has been given up: cut it. The machine has forgotten it already.
    HangUp(Option<ConnectError>),
    /// There is nothing left to do.
    Ended,
}

/// One session, over all the streams that it has in its life.
pub(super) struct Machine<A, H> {
    pub(super) open: v1::SessionOpen,
    pub(super) endpoint: String,
    /// How long a session may take to open once there is a connection.
    open_timeout: Duration,
    pub(super) holds: Holds,
    /// By the order in which they were asked for.
    pub(super) waiting: BTreeMap<u64, Waiting<A>>,
    /// No wait ends before this: a lower bound.
    pub(super) waits_end_at: Option<Moment>,
    pub(super) retries: Vec<Retry>,
    pub(super) stream: Option<Stream<H>>,
    /// This process wants the session to end.
    pub(super) ending: bool,
    /// Why there is no stream, if attempts to connect have failed since the last.
    pub(super) unreachable: Option<Arc<ConnectError>>,
    pub(super) outputs: VecDeque<Output<A, H>>,
}

impl<A, H> Machine<A, H> {
    pub(super) fn new(endpoint: String, open_timeout: Duration, open: v1::SessionOpen) -> Self {
        Self {
            open,
            endpoint,
            open_timeout,
            holds: Holds::default(),
            waiting: BTreeMap::new(),
            waits_end_at: None,
            retries: Vec::new(),
            stream: None,
            ending: false,
            unreachable: None,
            outputs: VecDeque::new(),
        }
    }

    pub(super) fn next_output(&mut self) -> Option<Output<A, H>> {
        self.outputs.pop_front()
    }

    /// Whether there is a stream with a session on it.
    pub(super) fn is_open(&self) -> bool {
        self.stream
            .as_ref()
            .is_some_and(|stream| stream.opened.is_some())
    }

    /// When [`Machine::tick`] is to be called at the latest.
    pub(super) fn alarm(&self) -> Option<Moment> {
        let retry = self.retries.iter().map(|retry| retry.at).min();
        let stream = self.stream.as_ref().and_then(Stream::alarm);
        earlier(
            earlier(self.holds.check_at(), self.waits_end_at),
            earlier(retry, stream),
        )
    }

    /// A connection has been made: the session is opened on it.
    pub(super) fn connected(&mut self, now: Moment) {
        self.expire(now);
        // Noted before the message is handed on.
        let mut stream = Stream::new(now, self.open_timeout);
        let request = stream.request(Body::Open(self.open.clone()), InFlight::Open);
        self.stream = Some(stream);
        self.outputs.push_back(Output::Send(request));
    }

    /// A connection could not be made, or no session opened on it. Who wanted to wait goes on waiting, unless the next
    /// attempt would fail as well.
    pub(super) fn connect_failed(&mut self, now: Moment, error: &Arc<ConnectError>) {
        self.stream_ended(now);
        self.unreachable = Some(error.clone());
        let doomed = !error.is_retryable();
        self.fail_waiting(
            |waiting| doomed || waiting.spec.is_try(),
            |name| AcquireError::Unavailable {
                name,
                source: Some(error.clone()),
            },
        );
    }

    /// The stream has ended, for whatever reason. Its locks are lost, before anything else is done.
    pub(super) fn stream_ended(&mut self, now: Moment) {
        self.expire(now);
        self.holds.end_all(now, LostReason::SessionEnded);
        self.retries.clear();
        let Some(stream) = self.stream.take() else {
            return;
        };
        for (_, request) in stream.in_flight {
            if let InFlight::Release { reply, .. } = request {
                self.hold_failed(reply, HoldFailure::Unconfirmed);
            } else if let InFlight::Change { reply, .. } = request {
                self.hold_failed(Some(reply), HoldFailure::Unconfirmed);
            }
        }
        if self.ending {
            self.outputs.push_back(Output::Ended);
            return;
        }
        // A try that was on its way may have been granted and lost with the stream; asking again could find our own
        // former hold and call it busy.
        self.fail_waiting(
            |waiting| waiting.spec.is_try() && waiting.sent_as.is_some(),
            |name| AcquireError::Unavailable { name, source: None },
        );
        for waiting in self.waiting.values_mut() {
            waiting.sent_as = None;
        }
        self.wake_for_waits();
    }

    /// This process ends the session. Its guards hear of it before the coordinator does.
    pub(super) fn close(&mut self, now: Moment) {
        if self.ending {
            return;
        }
        self.expire(now);
        self.ending = true;
        self.holds.end_all(now, LostReason::SessionClosed);
        self.fail_waiting(|_| true, |name| AcquireError::SessionClosed { name });
        match &self.stream {
            Some(stream) if stream.closing.is_some() => {}
            Some(stream) if stream.opened.is_some() => self.send_close(now),
            _ => self.outputs.push_back(Output::Ended),
        }
    }

    /// Time has passed.
    pub(super) fn tick(&mut self, now: Moment) {
        self.expire(now);
        self.end_waits(now);
        self.repeat_releases(now);
        let Some(stream) = &mut self.stream else {
            return;
        };
        if let Some(cut_at) = stream.closing {
            if cut_at <= now {
                self.hang_up(now, None);
            }
            return;
        }
        let Some(opened) = &mut stream.opened else {
            if stream.open_by <= now {
                let error = ConnectError::TimedOut {
                    endpoint: self.endpoint.clone(),
                    after: self.open_timeout,
                };
                self.hang_up(now, Some(error));
            }
            return;
        };
        if opened.last_ack.after(opened.ttl) <= now {
            tracing::warn!(
                endpoint = self.endpoint,
                "no heartbeat was answered for a TTL: the stream is given up"
            );
            self.hang_up(now, None);
        } else if opened.next_heartbeat <= now {
            opened.next_heartbeat = now.after(opened.heartbeat_interval);
            let sequence = stream.heartbeats.note(now);
            let body = Body::Heartbeat(v1::SessionHeartbeat { sequence });
            let request = stream.request(body, InFlight::Other);
            self.outputs.push_back(Output::Send(request));
        }
    }

    /// Every input begins with this: an answer that comes after a deadline must find the lock lost.
    pub(super) fn expire(&mut self, now: Moment) {
        for owned in self.holds.expire(now) {
            tracing::warn!(lock = &*owned.name, "the lease ran out; the lock is lost");
            self.send_release(owned, None, RETRY_FIRST);
        }
    }

    pub(super) fn hang_up(&mut self, now: Moment, error: Option<ConnectError>) {
        self.stream_ended(now);
        self.outputs.push_back(Output::HangUp(error));
    }

    pub(super) fn send_close(&mut self, now: Moment) {
        if let Some(stream) = &mut self.stream {
            stream.closing = Some(now.after(CLOSE_TIMEOUT));
            let request = stream.request(Body::Close(v1::SessionClose {}), InFlight::Other);
            self.outputs.push_back(Output::Send(request));
        }
    }
}

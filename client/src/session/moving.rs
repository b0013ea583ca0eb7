//! Moves of the session to another stream: their occasions, and the fate of requests on the former stream.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use super::{
    fate::Fate,
    ids::Ids,
    machine::Machine,
    output::Output,
    pending::Release,
    stream::{Hearing, InFlight, Stream},
};
use crate::{
    clock::Moment,
    error::{AcquireError, ConnectError, Failure, HoldFailure},
    proto::{
        duration,
        v1::{self, session_request::Request as Body, session_response::Response},
    },
};

/// Time that a coordinator which goes away has to answer requests in flight.
const SETTLING: Duration = Duration::from_secs(1);

/// Attempts to resume are not given up faster than this, however little time is left.
const SHORTEST_ATTEMPT: Duration = Duration::from_millis(50);

impl<A, H> Machine<A, H> {
    /// Opens the session on a new connection, at once or as soon as the present stream has answered its requests. Returns the
    /// number of the new stream.
    pub(super) fn connected(&mut self, now: Moment, endpoint: Arc<str>) -> u64 {
        self.expire(now);
        self.last_stream += 1;
        let next = Stream::new(self.last_stream, endpoint, now.after(SETTLING));
        self.next = Some(next);
        self.ask_next_if_due(now);
        self.last_stream
    }

    /// Has the session move to another stream at this time if it can. If that is planned already, nothing changes.
    pub(super) fn plan_move(&mut self, now: Moment, at: Moment) {
        if let Some(stream) = &mut self.stream {
            stream.optional_move.plan(at);
            stream.optional_move.tick(now);
        }
    }

    /// Notes that no coordinator could be reached and opened the session. Returns whether the session goes on with its present
    /// stream, which it was to leave only if it could. Otherwise callers that wanted to wait go on waiting, unless the next attempt
    /// would fail as well.
    pub(super) fn connect_failed(&mut self, now: Moment, error: &Arc<ConnectError>) -> bool {
        self.expire(now);
        if let Some(stream) = &mut self.stream
            && !stream.must_be_left()
        {
            stream.optional_move.failed(now);
            self.send_unsent(now);
            return true;
        }
        self.unreachable = Some(error.clone());
        let doomed = !error.is_retryable();
        self.fail_waiting(
            |waiting| waiting.sent_as.is_none() && (doomed || waiting.spec.is_try()),
            |name| AcquireError::unconnected(name, Some(error)),
        );
        false
    }

    pub(super) fn is_next(&self, number: u64) -> bool {
        self.next
            .as_ref()
            .is_some_and(|stream| stream.number == number)
    }

    /// Returns the time limit of an attempt, to connect and again to open: not all of the time that is left to the holds.
    pub(super) fn attempt_limit(&self, now: Moment) -> Duration {
        let Some(deadline) = self.holds.first_deadline(now) else {
            return self.open_timeout;
        };
        let share = deadline.since(now) / 3;
        share.max(SHORTEST_ATTEMPT).min(self.open_timeout)
    }

    pub(super) fn ask_next_if_due(&mut self, now: Moment) {
        let Some(next) = self.next.as_ref().filter(|next| !next.asked) else {
            return;
        };
        let may_answer = self
            .stream
            .as_ref()
            .is_some_and(|stream| !stream.silent && stream.is_heard());
        if !may_answer || !self.is_unsettled() || next.open_by <= now {
            self.ask_next(now);
        }
    }

    fn ask_next(&mut self, now: Moment) {
        let limit = self.attempt_limit(now);
        let Some(mut next) = self.next.take() else {
            return;
        };
        // Noted before the messages are handed on.
        next.begin(now, now.after(limit));
        let request_id = next.number_request(InFlight::Open);
        for open in self.opens(now, &mut next) {
            let request = v1::SessionRequest {
                request_id,
                request: Some(Body::Open(open)),
                ..v1::SessionRequest::default()
            };
            self.outputs.push_back(Output::Send(next.number, request));
        }
        self.next = Some(next);
        if let Some(stream) = &mut self.stream
            && stream.is_heard()
        {
            stream.hearing = Hearing::Withheld(Vec::new());
        }
    }

    pub(super) fn tick_next(&mut self, now: Moment) {
        self.ask_next_if_due(now);
        let Some(next) = self.next.as_ref().filter(|next| next.open_by <= now) else {
            return;
        };
        let error = ConnectError::TimedOut {
            endpoint: next.endpoint.to_string(),
            after: now.since(next.heartbeats.began().unwrap_or(now)),
        };
        self.give_up_next(now, next.number, error);
    }

    /// Gives up the attempt to open a session on this stream.
    fn give_up_next(&mut self, now: Moment, number: u64, error: ConnectError) {
        self.attempt_failed(now, Fate::of(&error));
        self.outputs.push_back(Output::HangUp(number, Some(error)));
    }

    /// Handles a message on the stream that the session is being opened on.
    pub(super) fn message_of_next(&mut self, now: Moment, message: v1::SessionResponse) {
        match message.response {
            Some(Response::Opened(opened)) => self.opened_in_part(now, message.request_id, opened),
            Some(Response::Error(failure)) => {
                let Some(next) = &self.next else {
                    return;
                };
                let endpoint = next.endpoint.to_string();
                let error = ConnectError::refused(endpoint, Failure::from_session(failure));
                self.give_up_next(now, next.number, error);
            }
            _ => {}
        }
    }

    /// Handles the end of the next stream, on which the session did not open.
    pub(super) fn attempt_failed(&mut self, now: Moment, fate: Fate) {
        let Some(next) = self.next.take() else {
            return;
        };
        if next.asked {
            self.attempt_ended(now, fate, Ids::is_attempted);
            self.settle_attempt(fate);
            self.listen_again(now, fate);
        }
        self.send_unsent(now);
        self.leave_if_drained(now);
    }

    /// Ends or suspends what a stream that has ended may have taken over.
    fn attempt_ended(&mut self, now: Moment, fate: Fate, may_have_moved: fn(&Ids) -> bool) {
        let grace = match fate {
            Fate::Declined | Fate::Kept => return,
            // As when the stream ends that it is on, which this one may have become.
            Fate::Dropped => duration(self.open.disconnect_grace).unwrap_or_default(),
            Fate::Ended => Duration::ZERO,
        };
        self.holds.attempt_dropped(now, grace, may_have_moved);
    }

    /// Handles a message on a stream that did not open in time.
    pub(super) fn overdue_message(&mut self, now: Moment, message: v1::SessionResponse) {
        self.expire(now);
        match message.response {
            Some(Response::Lost(lost)) => self.lost_in_doubt(now, lost.locks),
            // What it has resumed is named to the next coordinator as tried.
            Some(Response::Opened(opened)) => self.lost_in_doubt(now, opened.refused),
            Some(Response::Error(failure)) => {
                let fate = Fate::of_answer(&Failure::from_session(failure));
                self.overdue_ended(now, fate);
            }
            Some(Response::Closed(_)) => self.overdue_ended(now, Fate::Dropped),
            _ => {}
        }
    }

    /// Handles the end of a stream that did not open in time. It may have been carried out after all: then its coordinator may have
    /// taken the end for the client's, and released what this session had tried to take over.
    pub(super) fn overdue_ended(&mut self, now: Moment, fate: Fate) {
        self.expire(now);
        self.attempt_ended(now, fate, Ids::in_doubt);
    }

    /// Handles the messages withheld from the stream before, if nothing was taken over from it.
    fn listen_again(&mut self, now: Moment, fate: Fate) {
        let Some(stream) = &mut self.stream else {
            return;
        };
        let number = stream.number;
        match std::mem::replace(&mut stream.hearing, Hearing::Deaf) {
            Hearing::Withheld(messages) if fate == Fate::Declined => {
                stream.hearing = Hearing::Open;
                for message in messages {
                    self.message(now, number, message);
                }
            }
            _ => {}
        }
    }

    /// Closes the stream that the session has moved from: no guard owns the holds that are left on it.
    pub(super) fn leave(&mut self, mut former: Stream, left_behind: bool) {
        // What is lost, but is to stay closed for its lock-delay, must not be released cleanly.
        if former.closing.is_none() && !left_behind {
            self.outputs.push_back(former.send_close());
        }
        for acquire in self.put_off_unanswered(former) {
            // With a number again it was resumed.
            let waiting = self.waiting.get(&acquire);
            let Some(waiting) = waiting.filter(|waiting| waiting.sent_as.is_none()) else {
                continue;
            };
            if !waiting.spec.is_try() {
                self.ask_again(acquire);
            } else if let Some(waiting) = self.waiting.remove(&acquire) {
                // It may have been granted, and asking again could find that.
                self.fail(waiting, |name| AcquireError::unconnected(name, None));
            }
        }
    }

    /// Puts all that could not be asked so far on the stream, as far as it takes it.
    pub(super) fn send_unsent(&mut self, now: Moment) {
        if self.takes_changes() {
            for change in std::mem::take(&mut self.unsent_changes) {
                self.send_change(now, change);
            }
            let is_new = |release: &mut Release| release.retry_at.is_none();
            let releases: Vec<_> = self.unsent_releases.extract_if(.., is_new).collect();
            for release in releases {
                self.send_release(release);
            }
        }
        let waiting: Vec<u64> = self.waiting.keys().copied().collect();
        for acquire in waiting {
            self.send_acquire(now, acquire);
        }
    }

    /// Keeps what this stream was asked about holds, and has not answered, for the next one. Returns the acquires that it
    /// has not answered, in the order in which they were asked.
    pub(super) fn put_off_unanswered(&mut self, mut stream: Stream) -> Vec<u64> {
        let mut acquires = Vec::new();
        let is_repeated = |release: &mut Release| release.retry_at.is_some();
        let repeated: Vec<_> = self.unsent_releases.extract_if(.., is_repeated).collect();
        // In the order in which they were sent.
        let in_flight: BTreeMap<_, _> = std::mem::take(&mut stream.in_flight).into_iter().collect();
        for request in in_flight.into_values() {
            match request {
                InFlight::Acquire(acquire) => acquires.push(acquire),
                InFlight::Release(release) => self.unsent_releases.push(release.anew()),
                InFlight::Change(change) => self.unsent_changes.push(change),
                InFlight::Abandoned { .. } | InFlight::Open | InFlight::Other => {}
            }
        }
        self.unsent_releases
            .extend(repeated.into_iter().map(Release::anew));
        acquires
    }

    /// Fails all outstanding changes and releases of the last stream, except releases of holds that another stream may have.
    pub(super) fn give_up_unsent(&mut self) {
        for change in std::mem::take(&mut self.unsent_changes) {
            self.reply(Some(change.reply), Err(HoldFailure::Unconfirmed));
        }
        let mut releases = std::mem::take(&mut self.unsent_releases);
        for release in &mut releases {
            self.reply(release.reply.take(), Err(HoldFailure::Unconfirmed));
        }
        releases.retain(|release| !self.ending && release.owned.ids.in_doubt());
        self.unsent_releases = releases;
    }
}

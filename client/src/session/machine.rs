//! State machine of a session, pure: no socket, no task, no clock. Time is passed in; the driver carries out the
//! outputs of [`Machine::next_output`].

use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
    time::Duration,
};

use leasehold_proto::Reason;

use super::{
    fate::Fate,
    holds::Holds,
    output::Output,
    pending::{ChangeRequest, Release, Replies},
    stream::{CLOSE_TIMEOUT, InFlight, Stream},
    waiting::Waiting,
};
use crate::{
    clock::Moment,
    error::{AcquireError, ConnectError, Failure},
    lease::LostReason,
    planted::{Fault, is_planted},
    proto::{duration, v1},
};

/// End of a stream.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum StreamEnd {
    /// It broke, or its coordinator left it; its holds may be resumed within the grace.
    Left,
    /// The coordinator no longer knows who the client is. It leaves the holds for as long as it promised, and a client that
    /// is known again may resume them.
    Disowned,
    /// The coordinator stopped, and left what was held to expire, and the places in queues for as long as the store keeps
    /// them: nobody else can have any of it before that, so that guards stay held until their own deadlines.
    Stopped,
    /// An operator ended the session, and took everything from it.
    ByOperator,
}

/// Heartbeats per TTL that a session sends to a coordinator that is going away: the more recent the last one, the more
/// of the TTL is left to resume in when that coordinator has stopped. With more than six, some would renew nothing.
const DRAINING_HEARTBEATS: u32 = 5;

/// Time for which the store keeps the places of waiters whose coordinator has stopped.
const PLACES_KEPT: Duration = Duration::from_secs(10);

/// One session, over all the streams that it has in its life.
///
/// At most two at a time. `stream` has the session open on it. `next` is to have it next: it is there while there is no
/// `stream`, or while that one is to be left (`draining`, `silent`, or if the session can: `optional_move`), and from its connection on.
/// Of what is held or waited for:
///
/// | `stream` | `next` | a guard says | its owner id is | releases and changes | acquires |
/// |---|---|---|---|---|---|
/// | open | – | held | the confirmed one | are sent | are sent |
/// | to be left | – | held | the confirmed one | are sent | are put off |
/// | to be left if it can | – | held | the confirmed one | are sent | are sent |
/// | to be left | connected | held | the confirmed one | are put off | are put off |
/// | to be left, not heard | asked | held | that or `next` | are put off | are put off |
/// | to be left, deaf | – or connected | held | that or one tried | are put off | are put off |
/// | –, it broke | any | suspended, if there is a grace; else lost | as above | are put off, or fail | are put off |
/// | –, its coordinator stopped | any | held | as above | are put off | are put off |
///
/// - `next` is **asked** when what `stream` has been asked has been answered, or after a while. From then on what `stream`
///   says is withheld, since it may know less of what is held than it did.
/// - `next` **opens**: it becomes `stream`. What it resumed is under its next owner id, what it refused is lost, what the
///   former had not answered is asked anew. The former is closed.
/// - **No coordinator has a `next`**: a stream that is to be left if it can goes on, and is to be left again after a while.
/// - `next` **declines**: nothing was resumed; what `stream` said meanwhile counts after all.
/// - `next` **ends without an answer**: what it was asked for may be under its next owner ids, which are tried from now on;
///   what `stream` says counts no more, unless it ends something. If the coordinator may have heard of that end, it may have
///   let go of it, so that guards are suspended or lost.
/// - `stream` **ends**: guards are suspended or lost, and whatever `next` resumes of what is lost is given back there.
/// - `stream` **ends because its coordinator stops**: the coordinator left the keys in the store to expire, so guards stay
///   held until their own deadlines, and `next` resumes what it can before that.
pub(super) struct Machine<A, H> {
    pub(super) open: v1::SessionOpen,
    /// Time limit for a session to open once there is a connection.
    pub(super) open_timeout: Duration,
    /// The TTL in force on the last stream.
    pub(super) ttl: Option<Duration>,
    /// Makes owner ids: 16 random bytes.
    pub(super) draw: fn() -> Vec<u8>,
    pub(super) holds: Holds,
    /// The waiting acquires, by the order in which they were asked for.
    pub(super) waiting: BTreeMap<u64, Waiting<A>>,
    /// No wait ends before this: a lower bound.
    pub(super) waits_end_at: Option<Moment>,
    /// No acquire is to be asked for again before this: a lower bound.
    pub(super) acquires_due: Option<Moment>,
    /// Releases that no stream could be asked for so far, and those to be repeated.
    pub(super) unsent_releases: Vec<Release>,
    pub(super) unsent_changes: Vec<ChangeRequest>,
    /// Callers that wait for the answers to releases and changes.
    pub(super) replies: Replies<H>,
    pub(super) stream: Option<Stream>,
    pub(super) next: Option<Stream>,
    pub(super) last_stream: u64,
    /// If there is no stream: the time until which the session may resume the holds of the last one.
    pub(super) resume_until: Option<Moment>,
    /// If there is no stream because its coordinator stopped: the time until which the store keeps the holds and places.
    pub(super) stopped_until: Option<Moment>,
    /// This process wants the session to end.
    pub(super) ending: bool,
    /// Reason why there is no stream, if attempts to connect have failed since the last one.
    pub(super) unreachable: Option<Arc<ConnectError>>,
    pub(super) outputs: VecDeque<Output<A, H>>,
}

impl<A, H> Machine<A, H> {
    pub(super) fn new(
        open_timeout: Duration,
        open: v1::SessionOpen,
        draw: fn() -> Vec<u8>,
    ) -> Self {
        Self {
            open,
            open_timeout,
            ttl: None,
            draw,
            holds: Holds::default(),
            waiting: BTreeMap::new(),
            waits_end_at: None,
            acquires_due: None,
            unsent_releases: Vec::new(),
            unsent_changes: Vec::new(),
            replies: Replies::default(),
            stream: None,
            next: None,
            last_stream: 0,
            resume_until: None,
            stopped_until: None,
            ending: false,
            unreachable: None,
            outputs: VecDeque::new(),
        }
    }

    pub(super) fn next_output(&mut self) -> Option<Output<A, H>> {
        self.outputs.pop_front()
    }

    /// Returns whether there is a stream with a session on it.
    #[cfg(any(test, feature = "simulation"))]
    pub(super) fn is_open(&self) -> bool {
        self.stream.is_some()
    }

    /// Returns whether the session moves, or is to move, from a stream that it has.
    pub(super) fn is_moving(&self) -> bool {
        self.stream.as_ref().is_some_and(Stream::is_to_be_left)
    }

    /// Returns whether the driver is to make another connection.
    pub(super) fn wants_connection(&self) -> bool {
        let leaves = self.stream.as_ref().is_none_or(Stream::is_to_be_left);
        !self.ending && self.next.is_none() && leaves
    }

    /// Returns when to call [`Machine::tick`] at the latest.
    pub(super) fn alarm(&self) -> Option<Moment> {
        let streams = [&self.stream, &self.next].into_iter().flatten();
        let others = [
            self.holds.check_at(),
            self.waits_end_at,
            self.acquires_due,
            self.replies.first_due(),
            self.resume_until,
        ];
        // While none can be sent there may be as many as there were holds, and none has a time of its own.
        let releases: &[_] = if self.takes_changes() {
            &self.unsent_releases
        } else {
            &[]
        };
        let retries = releases.iter().filter_map(|release| release.retry_at);
        streams
            .filter_map(Stream::alarm)
            .chain(others.into_iter().flatten())
            .chain(retries)
            .min()
    }

    /// Handles the end of the session's stream, plain or with this failure. Returns what the end means.
    pub(super) fn stream_ended_by(
        &mut self,
        now: Moment,
        number: u64,
        failure: Option<&Failure>,
    ) -> StreamEnd {
        let end = match failure {
            // The coordinator says so, or ends the stream plainly after it said `draining`. A broken connection is neither:
            // the coordinator may still be there, hear of the break, and release everything.
            Some(failure) if failure.is_draining() => StreamEnd::Stopped,
            None if self.is_draining() => StreamEnd::Stopped,
            Some(failure) if failure.is_unauthenticated() => StreamEnd::Disowned,
            Some(failure) if failure.known_reason() == Some(Reason::SessionEnded) => {
                StreamEnd::ByOperator
            }
            _ => StreamEnd::Left,
        };
        if let Some(failure) = failure.filter(|failure| failure.is_about_a_request()) {
            self.fail_unheard(number, failure);
        }
        self.stream_ended(now, number, end);
        end
    }

    /// Returns whether the coordinator has said that it is going away.
    pub(super) fn is_draining(&self) -> bool {
        let stream = self.stream.as_ref();
        stream.is_some_and(|stream| stream.draining.is_some())
    }

    /// Returns whether a coordinator stopped so recently that the session can still resume its holds and places there.
    pub(super) fn is_orphaned(&self, now: Moment) -> bool {
        let has_any = !self.holds.is_empty() || !self.waiting.is_empty();
        has_any && self.stopped_until.is_some_and(|until| now < until)
    }

    /// Handles the end of a stream. If the session was open on it, its locks are lost or suspended before anything else
    /// happens, unless its coordinator stopped.
    pub(super) fn stream_ended(&mut self, now: Moment, number: u64, end: StreamEnd) {
        self.expire(now);
        let grace = match end {
            StreamEnd::Left => duration(self.open.disconnect_grace).unwrap_or_default(),
            // Deadlines are earlier.
            StreamEnd::Disowned | StreamEnd::Stopped => self.ttl.unwrap_or_default(),
            StreamEnd::ByOperator => Duration::ZERO,
        };
        if self.is_next(number) {
            return self.attempt_failed(now, Fate::Dropped);
        }
        let Some(stream) = self.stream.take_if(|stream| stream.number == number) else {
            return;
        };
        if self.ending || grace.is_zero() {
            self.holds.end_with_stream(now);
            self.put_off_unanswered(stream);
            self.give_up_unsent();
        } else {
            let until = now.after(grace);
            self.resume_until = Some(until);
            match end {
                StreamEnd::Left if is_planted(Fault::BreakIgnored) => {}
                StreamEnd::Left => self.holds.suspend(now, Some(until)),
                StreamEnd::Disowned => self.holds.suspend(now, None),
                StreamEnd::Stopped => self.stopped_until = Some(until.max(now.after(PLACES_KEPT))),
                // There is no grace after it.
                StreamEnd::ByOperator => {}
            }
            self.put_off_unanswered(stream);
        }
        if self.ending {
            self.outputs.push_back(Output::Ended);
            return;
        }
        // A try that was on its way may have been granted and lost with the stream; asking again could find our own
        // former hold and call it busy.
        self.fail_waiting(
            |waiting| waiting.spec.is_try() && waiting.sent_as.is_some(),
            |name| AcquireError::unconnected(name, None),
        );
        for waiting in self.waiting.values_mut() {
            waiting.unsend();
        }
        self.wake_for_waits();
        self.ask_next_if_due(now);
    }

    /// Ends the session. Its guards are lost before the coordinator hears of it.
    pub(super) fn close(&mut self, now: Moment) {
        if self.ending {
            return;
        }
        self.expire(now);
        self.ending = true;
        self.holds.end_all(now, LostReason::SessionClosed);
        self.fail_waiting(|_| true, |name| AcquireError::SessionClosed { name });
        self.give_up_unsent();
        if let Some(mut next) = self.next.take() {
            let number = next.number;
            if next.resuming.is_empty() {
                self.outputs.push_back(Output::HangUp(number, None));
            } else {
                // What it takes over is not the present stream's any more, and has to be given back here.
                self.outputs.push_back(next.send_close());
                self.outputs.push_back(Output::Leave(number));
            }
        }
        match &self.stream {
            Some(stream) if stream.closing.is_some() => {}
            Some(_) => self.send_close(now),
            None => self.outputs.push_back(Output::Ended),
        }
    }

    /// Does everything that is due at `now`.
    pub(super) fn tick(&mut self, now: Moment) {
        self.expire(now);
        self.end_waits(now);
        self.end_overdue_replies(now);
        self.repeat_releases(now);
        self.repeat_acquires(now);
        if self.resume_until.is_some_and(|until| until <= now) {
            self.resume_until = None;
            self.give_up_unsent();
        }
        self.tick_next(now);
        self.tick_stream(now);
    }

    fn tick_stream(&mut self, now: Moment) {
        let Some(stream) = &mut self.stream else {
            return;
        };
        let number = stream.number;
        if let Some(cut_at) = stream.closing {
            if cut_at <= now {
                self.hang_up(now, number);
            }
            return;
        }
        let Some(opened) = &mut stream.opened else {
            return;
        };
        if opened.silent_from.after(opened.ttl) <= now {
            tracing::warn!(
                endpoint = &*stream.endpoint,
                "no heartbeat was answered for a TTL: the stream is given up"
            );
            return self.hang_up(now, number);
        }
        if !stream.silent && opened.silent_from.after(opened.ttl / 2) <= now {
            tracing::info!(
                endpoint = &*stream.endpoint,
                "no heartbeat was answered for half the TTL: the session is to move"
            );
            stream.silent = true;
        }
        stream.optional_move.tick(now);
        if opened.next_heartbeat <= now {
            let interval = match stream.draining {
                None => opened.heartbeat_interval,
                Some(_) => opened
                    .heartbeat_interval
                    .min(opened.ttl / DRAINING_HEARTBEATS),
            };
            self.outputs.extend(stream.send_heartbeat(now, interval));
        }
    }

    /// Returns whether the session has nothing, waits for nothing, and is asked for nothing.
    pub(super) fn is_idle(&self) -> bool {
        let stream = self.stream.as_ref();
        self.holds.is_empty()
            && self.waiting.is_empty()
            && self.unsent_releases.is_empty()
            && self.unsent_changes.is_empty()
            && self.next.is_none()
            && stream.is_some_and(|stream| !stream.is_to_be_left() && stream.in_flight.is_empty())
    }

    /// Ends the holds whose deadline has passed. Every input begins with this: an answer that comes after a deadline must
    /// find the lock lost.
    pub(super) fn expire(&mut self, now: Moment) {
        for owned in self.holds.expire(now) {
            tracing::warn!(lock = &*owned.name, "the lock is lost, and given back");
            self.send_release(Release {
                expired: true,
                ..Release::new(owned, None)
            });
        }
    }

    pub(super) fn hang_up(&mut self, now: Moment, number: u64) {
        self.stream_ended(now, number, StreamEnd::Left);
        self.outputs.push_back(Output::HangUp(number, None));
    }

    pub(super) fn send_close(&mut self, now: Moment) {
        if let Some(stream) = &mut self.stream {
            stream.closing = Some(now.after(CLOSE_TIMEOUT));
            self.outputs.push_back(stream.send_close());
        }
    }

    /// Returns whether releases and changes can be sent: not while they could cross a change of owner.
    pub(super) fn takes_changes(&self) -> bool {
        let heard = self.stream.as_ref().is_some_and(Stream::is_heard);
        heard && self.next.is_none()
    }

    /// Returns whether an answer is about to come.
    pub(super) fn is_unsettled(&self) -> bool {
        let in_flight = self
            .stream
            .iter()
            .flat_map(|stream| stream.in_flight.values());
        in_flight.into_iter().any(|request| match request {
            InFlight::Acquire(id) => self.waiting.get(id).is_some_and(|waiting| !waiting.queued),
            InFlight::Release(_) | InFlight::Change(_) => true,
            InFlight::Open | InFlight::Abandoned { .. } | InFlight::Other => false,
        })
    }
}

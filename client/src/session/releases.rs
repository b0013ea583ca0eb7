//! Releases of locks, repeated if the coordinator could not serve them.
//!
//! Of a hold that has several guards, every release but the last only counts down, which no coordinator needs a store
//! for: it can't fail. So what is repeated is the last release of a hold, done already or not, and takes nothing from
//! anybody.

use std::time::Duration;

use super::{
    holds::{Owned, Removed},
    machine::Machine,
    replies::ReplyId,
    stream::InFlight,
};
use crate::{
    clock::Moment,
    error::{Failure, HoldFailure},
    lease::LostReason,
    proto::v1::{self, session_request::Request as Body},
    trace::TraceContext,
};

/// The first and the longest pause before a release that could not be served is repeated.
const RETRY_FIRST: Duration = Duration::from_millis(100);
const RETRY_MAX: Duration = Duration::from_secs(2);

/// A lock to be given back.
pub(super) struct Release {
    pub(super) owned: Owned,
    /// Index of the owner id that it is asked by. If nothing is held under one, a later one may hold it.
    pub(super) index: usize,
    pub(super) reply: Option<ReplyId>,
    /// Trace of the release.
    trace: Option<TraceContext>,
    /// Pause before it is repeated, if it fails.
    retry_in: Duration,
    /// Set if another stream was asked before and did not answer: the release may have been carried out.
    pub(super) again: bool,
    /// Set if the resume in progress already counts the hold once less because of this release.
    pub(super) counted: bool,
}

impl Release {
    pub(super) fn new(owned: Owned, reply: Option<ReplyId>) -> Self {
        Self {
            owned,
            index: 0,
            reply,
            trace: None,
            retry_in: RETRY_FIRST,
            again: false,
            counted: false,
        }
    }

    /// Returns the release for another stream, because this one has not answered.
    pub(super) fn anew(self) -> Self {
        Self {
            index: 0,
            again: true,
            ..self
        }
    }
}

/// A release to be repeated, since the coordinator could not serve it.
pub(super) struct Retry {
    pub(super) at: Moment,
    pub(super) release: Release,
}

impl<A, H> Machine<A, H> {
    /// Handles the release or the drop of a guard: once for each guard, even a lost one. `trace` is the context that it is part
    /// of.
    pub(super) fn release(
        &mut self,
        now: Moment,
        key: u64,
        trace: Option<TraceContext>,
        reply: Option<H>,
    ) {
        self.expire(now);
        let reply = reply.map(|reply| self.replies.add(now, reply));
        let lost = match self.holds.remove(key) {
            Some(Removed::Release(owned)) => {
                let release = Release {
                    trace,
                    ..Release::new(owned, reply)
                };
                self.send_release(release);
                return self.leave_if_drained(now);
            }
            Some(Removed::Gone(reason)) => reason,
            None => LostReason::Released,
        };
        self.reply(reply, Err(HoldFailure::Lost(lost)));
    }

    /// Sends a release. A hold that was granted three times is released three times.
    pub(super) fn send_release(&mut self, release: Release) {
        let takes_changes = self.takes_changes();
        let Some(stream) = self.stream.as_mut().filter(|_| takes_changes) else {
            return self.put_off(release);
        };
        let Some(owner_id) = release.owned.ids.nth(release.index) else {
            return;
        };
        let body = Body::Release(v1::SessionRelease {
            name: release.owned.name.to_string(),
            owner_id: owner_id.to_vec(),
        });
        let trace = release.trace.clone();
        let output = stream.send(body, InFlight::Release(release), trace.as_ref());
        self.outputs.push_back(output);
    }

    /// Keeps it for the next stream, if there may be anything left to give back then.
    pub(super) fn put_off(&mut self, release: Release) {
        let waits = self.stream.is_some() || self.resume_until.is_some();
        if waits || release.owned.ids.in_doubt() {
            self.unsent_releases.push(release);
        } else {
            self.reply(release.reply, Err(HoldFailure::Unconfirmed));
        }
    }

    pub(super) fn released(&mut self, now: Moment, id: u64, released: bool) {
        let Some(InFlight::Release(mut release)) = self.answered(id) else {
            return;
        };
        if !released && release.owned.ids.nth(release.index + 1).is_some() {
            release.index += 1;
            release.again = true;
            return self.send_release(release);
        }
        let result = if released || release.again {
            Ok(())
        } else {
            // Nor is it held for other guards of the same hold.
            let number = release.owned.number;
            self.holds.forget(number, now, LostReason::Unknown);
            Err(HoldFailure::Lost(LostReason::Unknown))
        };
        self.reply(release.reply, result);
        self.leave_if_drained(now);
    }

    pub(super) fn release_failed(&mut self, now: Moment, mut release: Release, failure: Failure) {
        let reply = release.reply.take();
        // Without its guard nobody else would give it back, and the coordinator goes on renewing it.
        if failure.is_retryable() {
            let at = now.after(release.retry_in);
            release.retry_in = (release.retry_in * 2).min(RETRY_MAX);
            self.retries.push(Retry { at, release });
        } else {
            tracing::warn!(
                lock = &*release.owned.name,
                "a release was refused: {failure}"
            );
        }
        self.reply(reply, Err(HoldFailure::Refused(failure)));
    }

    pub(super) fn repeat_releases(&mut self, now: Moment) {
        let due = self.retries.extract_if(.., |retry| retry.at <= now);
        for Retry { release, .. } in due.collect::<Vec<_>>() {
            self.send_release(release);
        }
    }

    /// Closes the session at a coordinator that goes away, unless there is something that could move: a hold, a place in a
    /// queue, or a request without its answer.
    pub(super) fn leave_if_drained(&mut self, now: Moment) {
        let Some(stream) = &self.stream else {
            return;
        };
        let mut in_flight = stream.in_flight.values();
        let busy = in_flight.any(|request| matches!(request, InFlight::Acquire(_)))
            || self.is_unsettled()
            || !self.retries.is_empty()
            || !self.unsent_releases.is_empty()
            || !self.holds.is_empty();
        let leaves = stream.draining.is_some() && stream.closing.is_none() && stream.is_heard();
        if leaves && self.next.is_none() && !busy {
            self.send_close(now);
        }
    }
}

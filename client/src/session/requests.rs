//! Releases and changes of holds. The session repeats a release that the coordinator could not serve.
//!
//! Of a hold that has several guards, every release but the last only counts down, which no coordinator needs a store
//! for: it can't fail. So what is repeated is the last release of a hold, done already or not, and takes nothing from
//! anybody.

use super::{
    machine::Machine,
    messages::Change,
    output::Output,
    pending::{ChangeRequest, RETRY_MAX, Release, ReplyId},
    stream::InFlight,
};
use crate::{
    clock::Moment,
    error::{Failure, HoldFailure},
    lease::LostReason,
    proto::v1::{self, session_request::Request as Body},
    trace::TraceContext,
};

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
        match self.holds.remove(key) {
            Ok(owned) => {
                let release = Release::new(owned, reply);
                self.send_release(Release { trace, ..release });
                self.leave_if_drained(now);
            }
            Err(reason) => self.reply(reply, Err(HoldFailure::Lost(reason))),
        }
    }

    /// Sends a release. A hold that was granted three times is released three times.
    pub(super) fn send_release(&mut self, mut release: Release) {
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
            expired: std::mem::take(&mut release.expired),
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
            release.retry_at = Some(now.after(release.retry_in));
            release.retry_in = (release.retry_in * 2).min(RETRY_MAX);
            self.unsent_releases.push(release);
        } else {
            tracing::warn!(
                lock = &*release.owned.name,
                "a release was refused: {failure}"
            );
        }
        self.reply(reply, Err(HoldFailure::Refused(failure)));
    }

    pub(super) fn repeat_releases(&mut self, now: Moment) {
        let is_due = |release: &mut Release| release.retry_at.is_some_and(|at| at <= now);
        let due: Vec<_> = self.unsent_releases.extract_if(.., is_due).collect();
        for mut release in due {
            release.retry_at = None;
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
            || !self.unsent_releases.is_empty()
            || !self.holds.is_empty();
        let leaves = stream.draining.is_some() && stream.closing.is_none() && stream.is_heard();
        if leaves && self.next.is_none() && !busy {
            self.send_close(now);
        }
    }

    /// Handles the request of a guard to change its hold. `trace` is the context that the change is part of.
    pub(super) fn change(
        &mut self,
        now: Moment,
        key: u64,
        change: Change,
        trace: Option<TraceContext>,
        reply: H,
    ) {
        self.expire(now);
        let reply = self.replies.add(now, reply);
        let request = ChangeRequest {
            key,
            change,
            trace,
            reply,
        };
        self.send_change(now, request);
    }

    /// Asks for a change, now or on the next stream.
    pub(super) fn send_change(&mut self, now: Moment, request: ChangeRequest) {
        let takes_changes = self.takes_changes();
        match (self.holds.owned(request.key, now), &mut self.stream) {
            (Ok((name, owner_id)), Some(stream)) if takes_changes => {
                let name = name.to_string();
                let body = match &request.change {
                    Change::Value(value) => Body::SetValue(v1::SessionSetValue {
                        name,
                        owner_id,
                        value: value.clone(),
                    }),
                    Change::Downgrade => Body::Downgrade(v1::SessionDowngrade { name, owner_id }),
                    Change::Reduce(permits) => Body::Reduce(v1::SessionReduce {
                        name,
                        owner_id,
                        permits: *permits,
                    }),
                };
                let trace = request.trace.clone();
                let output = stream.send(body, InFlight::Change(request), trace.as_ref());
                self.outputs.push_back(output);
            }
            // For the stream that takes it over, if there is one in time.
            (Ok(_), _) => self.unsent_changes.push(request),
            (Err(reason), _) => self.reply(Some(request.reply), Err(HoldFailure::Lost(reason))),
        }
    }

    pub(super) fn changed(&mut self, now: Moment, id: u64, changed: bool) {
        let Some(InFlight::Change(request)) = self.answered(id) else {
            return;
        };
        let result = match changed {
            true => Ok(()),
            false => Err(self.holds.gone(request.key, now, LostReason::Unknown)),
        };
        self.reply(Some(request.reply), result.map_err(HoldFailure::Lost));
    }

    /// Tells callers that have waited for too long that their request is not confirmed.
    pub(super) fn end_overdue_replies(&mut self, now: Moment) {
        while let Some(reply) = self.replies.take_due(now) {
            let failure = Err(HoldFailure::Unconfirmed);
            self.outputs.push_back(Output::HoldDone(reply, failure));
        }
    }

    /// Answers, unless the caller was already told that its change was not confirmed in time.
    pub(super) fn reply(&mut self, reply: Option<ReplyId>, result: Result<(), HoldFailure>) {
        if let Some(reply) = reply.and_then(|id| self.replies.take(id)) {
            self.outputs.push_back(Output::HoldDone(reply, result));
        }
    }
}

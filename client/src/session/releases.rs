//! Giving locks back, and trying again where the coordinator could not serve it.
//!
//! Of a hold that has several guards, every release but the last only counts down, which no coordinator needs a store
//! for: it can't fail. So what is repeated is the last release of a hold, done already or not, and takes nothing from
//! anybody.

use std::time::Duration;

use super::{
    holds::{Owned, Removed},
    machine::{Machine, Output},
    stream::InFlight,
};
use crate::{
    clock::Moment,
    error::{Failure, HoldFailure},
    lease::LostReason,
    proto::v1::{self, session_request::Request as Body},
};

/// The first and the longest pause before a release that could not be served is repeated.
pub(super) const RETRY_FIRST: Duration = Duration::from_millis(100);
const RETRY_MAX: Duration = Duration::from_secs(2);

/// A release to be repeated, since the coordinator could not serve it.
pub(super) struct Retry {
    pub(super) at: Moment,
    pause: Duration,
    owned: Owned,
}

impl<A, H> Machine<A, H> {
    /// A guard gives its lock back, or is gone: once for each guard, also for a lost one.
    pub(super) fn release(&mut self, now: Moment, key: u64, reply: Option<H>) {
        self.expire(now);
        match self.holds.remove(key) {
            Some(Removed::Release(owned)) => {
                self.send_release(owned, reply, RETRY_FIRST);
                self.leave_if_drained(now);
            }
            Some(Removed::Gone(reason)) => self.hold_failed(reply, HoldFailure::Lost(reason)),
            None => self.hold_failed(reply, HoldFailure::Lost(LostReason::Released)),
        }
    }

    /// Once for each grant: a hold that was granted three times is given back three times.
    pub(super) fn send_release(&mut self, owned: Owned, reply: Option<H>, retry_in: Duration) {
        let Some(stream) = &mut self.stream else {
            return;
        };
        let body = Body::Release(v1::SessionRelease {
            name: owned.name.to_string(),
            owner_id: owned.owner_id.clone(),
        });
        let expects = InFlight::Release {
            owned,
            reply,
            retry_in,
        };
        let request = stream.request(body, expects);
        self.outputs.push_back(Output::Send(request));
    }

    pub(super) fn released(&mut self, now: Moment, id: u64, released: bool) {
        let Some(InFlight::Release { owned, reply, .. }) = self.answered(id) else {
            return;
        };
        if !released {
            // Nor is it held for other guards of the same hold.
            self.holds.lost(&owned.owner_id, now, LostReason::Unknown);
            self.hold_failed(reply, HoldFailure::Lost(LostReason::Unknown));
        } else if let Some(reply) = reply {
            self.outputs.push_back(Output::HoldDone(reply, Ok(())));
        }
        self.leave_if_drained(now);
    }

    pub(super) fn release_failed(
        &mut self,
        now: Moment,
        (owned, reply, pause): (Owned, Option<H>, Duration),
        failure: Failure,
    ) {
        // Without its guard nobody else would give it back, and the coordinator goes on renewing it.
        if failure.is_retryable() {
            self.retries.push(Retry {
                at: now.after(pause),
                pause,
                owned,
            });
        } else {
            tracing::warn!(lock = &*owned.name, "a release was refused: {failure}");
        }
        self.hold_failed(reply, HoldFailure::Refused(failure));
    }

    pub(super) fn repeat_releases(&mut self, now: Moment) {
        let (due, later): (Vec<_>, Vec<_>) = std::mem::take(&mut self.retries)
            .into_iter()
            .partition(|retry| retry.at <= now);
        self.retries = later;
        for Retry { pause, owned, .. } in due {
            self.send_release(owned, None, (pause * 2).min(RETRY_MAX));
        }
    }

    /// A coordinator that goes away is left as soon as it holds nothing for us: waiting for it has no future.
    pub(super) fn leave_if_drained(&mut self, now: Moment) {
        let Some(stream) = &self.stream else {
            return;
        };
        let releasing = stream
            .in_flight
            .values()
            .any(|request| matches!(request, InFlight::Release { .. }));
        let busy = releasing || !self.retries.is_empty() || !self.holds.is_empty();
        if stream.draining && stream.closing.is_none() && !busy {
            self.send_close(now);
        }
    }

    pub(super) fn hold_failed(&mut self, reply: Option<H>, failure: HoldFailure) {
        if let Some(reply) = reply {
            self.outputs
                .push_back(Output::HoldDone(reply, Err(failure)));
        }
    }
}

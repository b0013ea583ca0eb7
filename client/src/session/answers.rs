//! Handling of each message from the coordinator.

use std::{collections::HashMap, sync::Arc, time::Duration};

use super::{
    holds::Owned,
    ids::Ids,
    machine::Machine,
    messages::Granted,
    output::Output,
    pending::Release,
    stream::{Hearing, InFlight},
    waiting::Waiting,
};
use crate::{
    clock::Moment,
    error::{AcquireError, Failure, FailureKind, HoldFailure},
    lease::{Lease, LostReason},
    planted::{Fault, is_planted},
    proto::{
        FromWire, duration,
        v1::{self, session_response::Response},
    },
    release_request::ReleaseRequest,
    token::FencingToken,
    view::Holder,
};

impl<A, H> Machine<A, H> {
    /// Handles a message on this stream.
    pub(super) fn message(&mut self, now: Moment, number: u64, message: v1::SessionResponse) {
        self.expire(now);
        if self.is_next(number) {
            return self.message_of_next(now, message);
        }
        let stream = self.stream.as_mut();
        let Some(stream) = stream.filter(|stream| stream.number == number) else {
            return;
        };
        if !stream.is_heard() {
            if let (Some(Response::Heartbeat(_)), Some(opened)) =
                (&message.response, &mut stream.opened)
            {
                // It lives, and keeps what has not been moved.
                opened.answered(now);
            }
            if let Hearing::Withheld(messages) = &mut stream.hearing {
                messages.push(message.clone());
            }
            return self.unheard(now, number, message);
        }
        self.heard(now, message);
        self.leave_if_drained(now);
        self.ask_next_if_due(now);
    }

    /// Handles a message on the session's stream after another one was asked to take over from it. An end counts at once,
    /// whatever becomes of the attempt: somebody else may have the lock.
    fn unheard(&mut self, now: Moment, number: u64, message: v1::SessionResponse) {
        match message.response {
            Some(Response::Lost(lost)) => self.lost_in_doubt(now, lost.locks),
            Some(Response::Closed(_)) => self.hang_up(now, number),
            // A plain end after this is the coordinator's stop, which leaves what is held.
            Some(Response::Draining(draining)) if !draining.keeps_serving => {
                self.draining(now, draining);
            }
            _ => {}
        }
    }

    fn heard(&mut self, now: Moment, message: v1::SessionResponse) {
        let id = message.request_id;
        let abandoned_by = self.abandoned_by(id);
        match message.response {
            Some(Response::Granted(granted)) => self.granted(now, id, granted),
            Some(Response::NotGranted(answer)) => self.not_granted(id, answer),
            Some(Response::Released(answer)) => self.released(now, id, answer.released),
            Some(Response::ValueSet(answer)) => self.changed(now, id, answer.value_set),
            Some(Response::Downgraded(answer)) => self.changed(now, id, answer.downgraded),
            Some(Response::Reduced(answer)) => self.changed(now, id, answer.reduced),
            Some(Response::Heartbeat(ack)) => self.heartbeat_acked(now, ack),
            Some(Response::Lost(lost)) => self.lost(now, lost),
            Some(Response::ReleaseRequested(asked)) => {
                let request = ReleaseRequest::received(&asked, now);
                self.holds.ask(&asked.owner_id, now, &request);
            }
            Some(Response::Draining(draining)) => self.draining(now, draining),
            Some(Response::Closed(_)) => {
                if let Some(stream) = &self.stream {
                    self.hang_up(now, stream.number);
                }
            }
            Some(Response::Queued(queued)) => self.queued(id, queued),
            Some(Response::Error(failure)) => self.failed(now, id, Failure::from_session(failure)),
            // It has been opened before. What a newer coordinator says besides is not for us.
            Some(Response::Opened(_)) | None => {}
        }
        if let Some(actor) = abandoned_by
            && self.abandoned_by(id).is_none()
        {
            self.send_held_back(now, actor);
        }
    }

    /// Returns the actor of this acquire, if it was abandoned and has not been answered.
    fn abandoned_by(&self, id: u64) -> Option<u64> {
        match self.stream.as_ref()?.in_flight.get(&id)? {
            InFlight::Abandoned { actor } => Some(*actor),
            _ => None,
        }
    }

    /// Returns the request that this answers, if it is still in flight.
    pub(super) fn answered(&mut self, id: u64) -> Option<InFlight> {
        self.stream.as_mut()?.in_flight.remove(&id)
    }

    /// Returns the acquire that this answers, if its caller still waits. It is no longer among those that wait.
    fn answered_acquire(&mut self, id: u64) -> Option<(u64, Waiting<A>)> {
        match self.answered(id) {
            Some(InFlight::Acquire(acquire)) => self.waiting.remove_entry(&acquire),
            _ => None,
        }
    }

    /// Lets an acquire wait on, to be asked for again.
    fn wait_on(&mut self, acquire: u64, waiting: Waiting<A>) {
        self.waiting.insert(acquire, waiting);
        self.ask_again(acquire);
    }

    fn granted(&mut self, now: Moment, id: u64, granted: v1::SessionGranted) {
        // Whatever was granted and has nobody to hold it is given back.
        let Some((acquire, waiting)) = self.answered_acquire(id) else {
            return self.give_back(granted.locks);
        };
        if !waiting.spec.locks.are_of(&granted.locks) {
            self.give_back(granted.locks);
            let source = Failure::protocol("the coordinator granted another lock");
            return self.refuse(waiting, source);
        }
        let acked = self
            .stream
            .as_ref()
            .and_then(|stream| stream.heartbeats.answered(now, granted.acked_heartbeat));
        let deadline = |sent_at: Moment| {
            let valid_for = duration(granted.valid_for).unwrap_or_default();
            Some((sent_at, sent_at.after(valid_for)))
        };
        let good = acked
            .and_then(deadline)
            .filter(|(_, deadline)| now < *deadline && !self.is_closing());
        if let Some((acked, deadline)) = good {
            return self.hold(waiting, granted.locks, &granted.bounded, (acked, deadline));
        }
        let name = waiting.spec.locks.label();
        tracing::warn!(lock = &*name, "a grant came too late to be used");
        // Where it crossed our `close`, that gives it back.
        if !self.is_closing() {
            self.give_back(granted.locks);
        }
        if waiting.spec.is_try() {
            self.fail(waiting, |name| AcquireError::unconnected(name, None));
        } else {
            self.wait_on(acquire, waiting);
            self.send_acquire(now, acquire);
            self.wake_for_waits();
        }
    }

    /// Hands the granted locks to the caller. They are good until the deadline, or until their bounds, which count from when the
    /// heartbeat was sent that the coordinator had heard, `acked`.
    pub(super) fn hold(
        &mut self,
        waiting: Waiting<A>,
        locks: Vec<v1::GrantedLock>,
        bounded: &[v1::BoundedLock],
        (acked, deadline): (Moment, Moment),
    ) {
        let Waiting { reply, spec, .. } = waiting;
        let granted = spec
            .locks
            .as_slice()
            .iter()
            .zip(locks)
            .map(|(asked, lock)| {
                let token = FencingToken::from(lock.fencing_token);
                let mut bounds = bounded.iter();
                let bound = bounds.find(|bound| bound.owner_id == lock.owner_id);
                let ends_in = bound.and_then(|bound| duration(bound.ends_in));
                let ends_at = ends_in.map(|ends_in| acked.after(ends_in));
                // Coordinators that name no number grant all that was asked for.
                let all = asked.mode.permits();
                let permits = all.map(|all| if lock.permits == 0 { all } else { lock.permits });
                let lease = Lease::new(asked.name.clone(), token, deadline, ends_at);
                let lease = Arc::new(lease.of_permits(permits));
                let deadline = ends_at.map_or(deadline, |ends_at| ends_at.min(deadline));
                let key =
                    self.holds
                        .insert(lease.clone(), lock.owner_id, spec.lock_delay, deadline);
                Granted {
                    key,
                    lease,
                    hold_count: lock.hold_count,
                }
            })
            .collect();
        self.outputs.push_back(Output::Acquired(reply, Ok(granted)));
    }

    pub(super) fn give_back(&mut self, locks: Vec<v1::GrantedLock>) {
        for lock in locks {
            let owned = Owned::stray(lock.name.into(), Ids::new(lock.owner_id));
            self.send_release(Release::new(owned, None));
        }
    }

    fn not_granted(&mut self, id: u64, answer: v1::SessionNotGranted) {
        let Some((acquire, waiting)) = self.answered_acquire(id) else {
            return;
        };
        let outcome = answer.outcome();
        let wait = waiting.spec.wait;
        // We did not cancel it: the coordinator puts its waiters out because it goes away.
        if outcome == v1::AcquireOutcome::Cancelled && self.is_draining() {
            return self.wait_on(acquire, waiting);
        }
        let holder = answer.holder.map(Holder::from_wire).map(Box::new);
        self.fail(waiting, |name| match (outcome, wait) {
            (v1::AcquireOutcome::Busy | v1::AcquireOutcome::TimedOut, Some(Duration::ZERO)) => {
                AcquireError::Busy { name, holder }
            }
            (v1::AcquireOutcome::Busy | v1::AcquireOutcome::TimedOut, Some(wait)) => {
                AcquireError::TimedOut { name, wait, holder }
            }
            (outcome, _) => AcquireError::Refused {
                name,
                source: Failure::protocol(format!(
                    "the coordinator ended the acquire unasked: {}",
                    outcome.as_str_name()
                )),
            },
        });
    }

    fn heartbeat_acked(&mut self, now: Moment, ack: v1::SessionHeartbeatAck) {
        let is_idle = self.is_idle();
        let Some(stream) = &mut self.stream else {
            return;
        };
        let Some(deadline) = stream.deadline(now, ack.acked_heartbeat, ack.valid_for) else {
            tracing::debug!("an answer to a heartbeat that was never sent, or long ago");
            return;
        };
        let sent_at = stream.heartbeats.sent_at(ack.acked_heartbeat);
        let pause = duration(ack.next_within).filter(|_| is_idle);
        if let Some(opened) = &mut stream.opened {
            opened.answered(now);
            if let (Some(sent_at), Some(pause)) = (sent_at, pause) {
                opened.rest(sent_at, pause);
            }
        }
        self.holds.extend(deadline);
        // No attempt to move has come to anything yet, so that there is no need any more.
        if std::mem::take(&mut stream.silent) {
            self.send_unsent(now);
        }
    }

    fn lost(&mut self, now: Moment, lost: v1::SessionLost) {
        for lock in lost.locks {
            if is_planted(Fault::LossIgnored) {
                continue;
            }
            let reason = LostReason::from_wire(lock.reason);
            tracing::warn!(
                lock = lock.name,
                "the coordinator says that the lock is lost: {reason}"
            );
            self.holds.lost(&lock.owner_id, now, reason);
        }
    }

    /// Handles the losses that a coordinator reports which may not be the one that has the holds. A hold that is lost without
    /// need does no harm.
    pub(super) fn lost_in_doubt(&mut self, now: Moment, locks: Vec<v1::LostLock>) {
        let mut lost = HashMap::new();
        for lock in locks {
            let reason = LostReason::from_wire(lock.reason);
            // The client's own resume does that.
            if reason == LostReason::Resumed || is_planted(Fault::LossIgnored) {
                continue;
            }
            tracing::warn!(
                lock = lock.name,
                "a coordinator says that the lock is lost: {reason}"
            );
            lost.insert(lock.owner_id, reason);
        }
        self.holds.lost_in_doubt(now, &lost);
    }

    fn draining(&mut self, now: Moment, draining: v1::SessionDraining) {
        if draining.keeps_serving {
            tracing::debug!("the coordinator asks the session to move");
            return self.plan_move(now, now);
        }
        if let Some(stream) = &mut self.stream {
            let until = now.after(duration(draining.deadline).unwrap_or_default());
            stream.draining = Some(until);
            if let Some(opened) = &mut stream.opened {
                opened.next_heartbeat = now;
            }
            self.outputs.push_back(Output::Draining(until));
        }
    }

    fn failed(&mut self, now: Moment, id: u64, failure: Failure) {
        match self.answered(id) {
            Some(InFlight::Acquire(acquire)) => {
                let Some(waiting) = self.waiting.remove(&acquire) else {
                    return;
                };
                // What was aborted is about what the actor holds: a deadlock does not end by waiting on elsewhere.
                let aborted = failure.kind() == FailureKind::Aborted;
                let waits_on = failure.is_retryable() && !aborted && !waiting.spec.is_try();
                if self.is_draining() && waits_on {
                    self.wait_on(acquire, waiting);
                } else if waits_on
                    && failure.kind() == FailureKind::Unavailable
                    && !waiting.spec.without_retries
                {
                    self.wait_for_store(now, acquire, waiting, failure);
                } else {
                    self.refuse(waiting, failure);
                }
            }
            Some(InFlight::Release(release)) => self.release_failed(now, release, failure),
            Some(InFlight::Change(request)) => {
                self.reply(Some(request.reply), Err(HoldFailure::Refused(failure)));
            }
            // A cancelled acquire that failed has ended as well.
            Some(InFlight::Abandoned { .. }) => {}
            Some(InFlight::Open | InFlight::Other) | None => {
                tracing::debug!("the coordinator could not serve a request: {failure}");
            }
        }
    }

    fn refuse(&mut self, waiting: Waiting<A>, source: Failure) {
        self.fail(waiting, |name| AcquireError::refused(name, source));
    }

    fn is_closing(&self) -> bool {
        let stream = self.stream.as_ref();
        stream.is_some_and(|stream| stream.closing.is_some())
    }
}

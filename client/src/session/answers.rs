//! What the session does with each message of the coordinator.

use std::{sync::Arc, time::Duration};

use tonic::Code;

use super::{
    SessionInfo,
    holds::Owned,
    machine::{Granted, Machine, Output},
    releases::RETRY_FIRST,
    stream::{InFlight, Opened, duration},
    waits::Waiting,
};
use crate::{
    clock::Moment,
    error::{AcquireError, ConnectError, Failure, HoldFailure},
    lease::{FencingToken, Lease, LostReason},
    proto::v1::{self, session_response::Response},
};

/// Heartbeats are never sent faster than this, whatever a coordinator asks for.
const SHORTEST_HEARTBEAT: Duration = Duration::from_millis(10);

impl<A, H> Machine<A, H> {
    /// A message has come.
    pub(super) fn message(&mut self, now: Moment, message: v1::SessionResponse) {
        self.expire(now);
        let id = message.request_id;
        let abandoned_by = self.abandoned_by(id);
        match message.response {
            Some(Response::Opened(opened)) => self.opened(now, id, opened),
            Some(Response::Granted(granted)) => self.granted(now, id, granted),
            Some(Response::NotGranted(answer)) => self.not_granted(id, answer),
            Some(Response::Released(answer)) => self.released(now, id, answer.released),
            Some(Response::ValueSet(answer)) => self.changed(now, id, answer.value_set),
            Some(Response::Downgraded(answer)) => self.changed(now, id, answer.downgraded),
            Some(Response::Heartbeat(ack)) => self.heartbeat_acked(now, ack),
            Some(Response::Lost(lost)) => self.lost(now, lost),
            Some(Response::Draining(draining)) => self.draining(now, draining),
            Some(Response::Closed(_)) => self.hang_up(now, None),
            Some(Response::Error(failure)) => self.failed(now, id, failure.into()),
            // Nobody here asks for the place in the queue. What a newer coordinator says besides is not for us.
            Some(Response::Queued(_)) | None => {}
        }
        if let Some(actor) = abandoned_by
            && self.abandoned_by(id).is_none()
        {
            self.send_held_back(now, actor);
        }
        self.leave_if_drained(now);
    }

    /// Who asked for this, if it was abandoned and has not been answered.
    fn abandoned_by(&self, id: u64) -> Option<u64> {
        match self.stream.as_ref()?.in_flight.get(&id)? {
            InFlight::Abandoned { actor } => Some(*actor),
            _ => None,
        }
    }

    /// What this is the answer to, if that is still in flight.
    pub(super) fn answered(&mut self, id: u64) -> Option<InFlight<H>> {
        self.stream.as_mut()?.in_flight.remove(&id)
    }

    fn opened(&mut self, now: Moment, id: u64, opened: v1::SessionOpened) {
        if !matches!(self.answered(id), Some(InFlight::Open)) {
            return;
        }
        let Some(stream) = &mut self.stream else {
            return;
        };
        let heartbeat_interval = duration(opened.heartbeat_interval).max(SHORTEST_HEARTBEAT);
        let ttl = duration(opened.ttl);
        stream.opened = Some(Opened {
            ttl,
            heartbeat_interval,
            next_heartbeat: now.after(heartbeat_interval),
            last_ack: now,
        });
        self.unreachable = None;
        self.outputs.push_back(Output::Opened(SessionInfo {
            session_id: opened.session_id,
            coordinator: opened.coordinator,
            ttl,
            heartbeat_interval,
        }));
        let waiting: Vec<u64> = self.waiting.keys().copied().collect();
        for id in waiting {
            self.send_acquire(now, id);
        }
        self.wake_for_waits();
    }

    fn granted(&mut self, now: Moment, id: u64, granted: v1::SessionGranted) {
        let waiting = match self.answered(id) {
            Some(InFlight::Acquire(acquire)) => self.waiting.remove_entry(&acquire),
            _ => None,
        };
        // Whatever was granted and has nobody to hold it is given back.
        let Some((acquire, mut waiting)) = waiting else {
            return self.give_back(granted.locks);
        };
        if !waiting.spec.names.are_of(&granted.locks) {
            self.give_back(granted.locks);
            let source = Failure::protocol("the coordinator granted another lock");
            return self.refuse(waiting, source);
        }
        let deadline = self
            .stream
            .as_ref()
            .and_then(|stream| stream.deadline(granted.acked_heartbeat, granted.valid_for))
            .filter(|deadline| now < *deadline);
        if let Some(deadline) = deadline {
            return self.hold(waiting, granted.locks, deadline);
        }
        let name = waiting.spec.names.label();
        tracing::warn!(lock = &*name, "a grant came too late to be used");
        self.give_back(granted.locks);
        if waiting.spec.is_try() {
            let error = AcquireError::Unavailable { name, source: None };
            self.outputs
                .push_back(Output::Acquired(waiting.reply, Err(error)));
        } else {
            waiting.sent_as = None;
            self.waiting.insert(acquire, waiting);
            self.send_acquire(now, acquire);
            self.wake_for_waits();
        }
    }

    fn hold(&mut self, waiting: Waiting<A>, locks: Vec<v1::GrantedLock>, deadline: Moment) {
        let Waiting { reply, spec, .. } = waiting;
        let granted = spec
            .names
            .as_slice()
            .iter()
            .zip(locks)
            .map(|(name, lock)| {
                let token = FencingToken::from(lock.fencing_token);
                let lease = Arc::new(Lease::new(name.clone(), token, deadline));
                let owned = Owned {
                    name: name.clone(),
                    owner_id: lock.owner_id,
                };
                let key = self
                    .holds
                    .insert(lease.clone(), owned, spec.lock_delay, deadline);
                Granted {
                    key,
                    lease,
                    hold_count: lock.hold_count,
                }
            })
            .collect();
        self.outputs.push_back(Output::Acquired(reply, Ok(granted)));
    }

    fn give_back(&mut self, locks: Vec<v1::GrantedLock>) {
        for lock in locks {
            let owned = Owned {
                name: lock.name.into(),
                owner_id: lock.owner_id,
            };
            self.send_release(owned, None, RETRY_FIRST);
        }
    }

    fn not_granted(&mut self, id: u64, answer: v1::SessionNotGranted) {
        let Some(InFlight::Acquire(acquire)) = self.answered(id) else {
            return;
        };
        let Some(mut waiting) = self.waiting.remove(&acquire) else {
            return;
        };
        let holder = answer.holder.clone().map(Box::new);
        let name = waiting.spec.names.label();
        let error = match (answer.outcome(), waiting.spec.wait) {
            (v1::AcquireOutcome::Busy | v1::AcquireOutcome::TimedOut, Some(wait)) => {
                if wait.is_zero() {
                    AcquireError::Busy { name, holder }
                } else {
                    AcquireError::TimedOut { name, wait, holder }
                }
            }
            // We did not cancel it: the coordinator puts its waiters out because it goes away.
            (v1::AcquireOutcome::Cancelled, _) if self.is_draining() => {
                waiting.sent_as = None;
                self.waiting.insert(acquire, waiting);
                return;
            }
            (outcome, _) => AcquireError::Refused {
                name,
                source: Failure::protocol(format!(
                    "the coordinator ended the acquire unasked: {}",
                    outcome.as_str_name()
                )),
            },
        };
        self.outputs
            .push_back(Output::Acquired(waiting.reply, Err(error)));
    }

    fn heartbeat_acked(&mut self, now: Moment, ack: v1::SessionHeartbeatAck) {
        let Some(stream) = &mut self.stream else {
            return;
        };
        let Some(deadline) = stream.deadline(ack.acked_heartbeat, ack.valid_for) else {
            tracing::debug!("an answer to a heartbeat that was never sent, or long ago");
            return;
        };
        if let Some(opened) = &mut stream.opened {
            opened.last_ack = now;
        }
        self.holds.extend(deadline);
    }

    fn lost(&mut self, now: Moment, lost: v1::SessionLost) {
        for lock in lost.locks {
            let reason = LostReason::from_proto(lock.reason());
            tracing::warn!(
                lock = lock.name,
                "the coordinator says that the lock is lost: {reason}"
            );
            self.holds.lost(&lock.owner_id, now, reason);
        }
    }

    fn draining(&mut self, now: Moment, draining: v1::SessionDraining) {
        if let Some(stream) = &mut self.stream {
            stream.draining = true;
            let until = now.after(duration(draining.deadline));
            self.outputs.push_back(Output::Draining(until));
        }
    }

    fn failed(&mut self, now: Moment, id: u64, failure: Failure) {
        match self.answered(id) {
            Some(InFlight::Open) => {
                let error = ConnectError::Refused {
                    endpoint: self.endpoint.clone(),
                    source: failure,
                };
                self.hang_up(now, Some(error));
            }
            Some(InFlight::Acquire(acquire)) => {
                let Some(mut waiting) = self.waiting.remove(&acquire) else {
                    return;
                };
                // What was aborted is about what the actor holds: a deadlock does not end by waiting on elsewhere.
                let aborted = failure.code() == Code::Aborted;
                let waits_on = failure.is_retryable() && !aborted && !waiting.spec.is_try();
                if self.is_draining() && waits_on {
                    waiting.sent_as = None;
                    self.waiting.insert(acquire, waiting);
                } else {
                    self.refuse(waiting, failure);
                }
            }
            Some(InFlight::Release {
                owned,
                reply,
                retry_in,
            }) => self.release_failed(now, (owned, reply, retry_in), failure),
            Some(InFlight::Change { reply, .. }) => {
                self.hold_failed(Some(reply), HoldFailure::Refused(failure));
            }
            // A cancelled acquire that failed has ended as well.
            Some(InFlight::Abandoned { .. }) => {}
            Some(InFlight::Other) | None => {
                tracing::debug!("the coordinator could not serve a request: {failure}");
            }
        }
    }

    fn refuse(&mut self, waiting: Waiting<A>, source: Failure) {
        let error = AcquireError::refused(waiting.spec.names.label(), source);
        self.outputs
            .push_back(Output::Acquired(waiting.reply, Err(error)));
    }

    fn is_draining(&self) -> bool {
        self.stream.as_ref().is_some_and(|stream| stream.draining)
    }
}

//! What the session does with each message of the coordinator.

use std::{sync::Arc, time::Duration};

use super::{
    SessionInfo,
    holds::Owned,
    machine::{Granted, Machine, Output, RETRY_FIRST},
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
        match message.response {
            Some(Response::Opened(opened)) => self.opened(now, id, opened),
            Some(Response::Granted(granted)) => self.granted(now, id, granted),
            Some(Response::NotGranted(answer)) => self.not_granted(id, answer),
            Some(Response::Released(answer)) => self.released(now, id, answer.released),
            Some(Response::ValueSet(answer)) => self.value_set(now, id, answer.value_set),
            Some(Response::Heartbeat(ack)) => self.heartbeat_acked(now, ack),
            Some(Response::Lost(lost)) => self.lost(now, lost),
            Some(Response::Draining(draining)) => self.draining(now, draining),
            Some(Response::Closed(_)) => self.hang_up(now, None),
            Some(Response::Error(failure)) => self.failed(now, id, failure.into()),
            // Nobody here asks for the place in the queue. What a newer coordinator says besides is not for us.
            Some(Response::Queued(_)) | None => {}
        }
        self.leave_if_drained(now);
    }

    fn answered(&mut self, id: u64) -> Option<InFlight<H>> {
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
            Some(InFlight::Acquire(acquire)) => {
                self.waiting.remove(&acquire).map(|found| (acquire, found))
            }
            _ => None,
        };
        let deadline = self
            .stream
            .as_ref()
            .and_then(|stream| stream.deadline(granted.acked_heartbeat, granted.valid_for))
            .filter(|deadline| now < *deadline);
        let mut ours = None;
        for lock in granted.locks {
            let asked_for = waiting
                .as_ref()
                .is_some_and(|(_, waiting)| lock.name == *waiting.spec.name);
            if ours.is_none() && asked_for {
                ours = Some(lock);
            } else {
                // Whatever was granted and has nobody to hold it is given back.
                self.give_back(lock);
            }
        }
        match (waiting, ours, deadline) {
            (Some((_, waiting)), Some(lock), Some(deadline)) => {
                self.hold(waiting, lock, deadline);
            }
            (Some((acquire, mut waiting)), Some(lock), None) => {
                tracing::warn!(
                    lock = &*waiting.spec.name,
                    "a grant came too late to be used"
                );
                self.give_back(lock);
                if waiting.spec.is_try() {
                    let name = waiting.spec.name;
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
            (Some((_, waiting)), None, _) => {
                let source = Failure::protocol("the coordinator granted another lock");
                self.refuse(waiting, source);
            }
            (None, _, _) => {}
        }
    }

    fn hold(&mut self, waiting: Waiting<A>, lock: v1::GrantedLock, deadline: Moment) {
        let token = FencingToken::from(lock.fencing_token);
        let lease = Arc::new(Lease::new(waiting.spec.name, token, deadline));
        let delay = waiting.spec.lock_delay;
        let key = self
            .holds
            .insert(lease.clone(), lock.owner_id, delay, deadline);
        let granted = Granted { key, lease };
        self.outputs
            .push_back(Output::Acquired(waiting.reply, Ok(granted)));
    }

    fn give_back(&mut self, lock: v1::GrantedLock) {
        let owned = Owned {
            name: lock.name.into(),
            owner_id: lock.owner_id,
        };
        self.send_release(owned, None, RETRY_FIRST);
    }

    fn not_granted(&mut self, id: u64, answer: v1::SessionNotGranted) {
        let Some(InFlight::Acquire(acquire)) = self.answered(id) else {
            return;
        };
        let Some(mut waiting) = self.waiting.remove(&acquire) else {
            return;
        };
        let holder = answer.holder.clone().map(Box::new);
        let name = waiting.spec.name.clone();
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

    fn released(&mut self, now: Moment, id: u64, released: bool) {
        let Some(InFlight::Release { reply, .. }) = self.answered(id) else {
            return;
        };
        if !released {
            self.hold_failed(reply, HoldFailure::Lost(LostReason::Unknown));
        } else if let Some(reply) = reply {
            self.outputs.push_back(Output::HoldDone(reply, Ok(())));
        }
        self.leave_if_drained(now);
    }

    fn value_set(&mut self, now: Moment, id: u64, value_set: bool) {
        let Some(InFlight::SetValue { key, reply }) = self.answered(id) else {
            return;
        };
        if value_set {
            self.outputs.push_back(Output::HoldDone(reply, Ok(())));
        } else {
            let reason = self.holds.gone(key, now, LostReason::Unknown);
            self.hold_failed(Some(reply), HoldFailure::Lost(reason));
        }
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
                if self.is_draining() && failure.is_retryable() && !waiting.spec.is_try() {
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
            }) => {
                // Without its guard nobody else would give it back, and the coordinator goes on renewing it.
                if failure.is_retryable() {
                    self.retry_release(now, owned, retry_in);
                } else {
                    tracing::warn!(lock = &*owned.name, "a release was refused: {failure}");
                }
                self.hold_failed(reply, HoldFailure::Refused(failure));
            }
            Some(InFlight::SetValue { reply, .. }) => {
                self.hold_failed(Some(reply), HoldFailure::Refused(failure));
            }
            // A cancelled acquire that failed has ended as well.
            Some(InFlight::Abandoned) => {}
            Some(InFlight::Other) | None => {
                tracing::debug!("the coordinator could not serve a request: {failure}");
            }
        }
    }

    fn refuse(&mut self, waiting: Waiting<A>, source: Failure) {
        let name = waiting.spec.name;
        let error = AcquireError::Refused { name, source };
        self.outputs
            .push_back(Output::Acquired(waiting.reply, Err(error)));
    }

    fn is_draining(&self) -> bool {
        self.stream.as_ref().is_some_and(|stream| stream.draining)
    }
}

//! Keeping a session's holds alive.
//!
//! Heartbeats drive it: whoever does not send any is not renewed, even if its connection stands (a proxy may keep it
//! up for a client that is long dead). The client is asked for a heartbeat every third of the TTL; one that finds the
//! holds due has them renewed in one batch first, and is answered with what that gave. A renewal that fails is tried
//! again until the holds' time is up, and once it succeeds the client is told, unasked, how much longer its last answered
//! heartbeat is good for: it would give its locks up otherwise. After a pause of the coordinator itself, the holds are due by its clock, so that
//! nothing is promised before the store was asked.

use std::time::Duration;

use futures_util::FutureExt;
use leasehold_core::{
    command::{Loss, Reply},
    id::OwnerId,
    time::Moment,
};
use leasehold_proto::v1::{SessionHeartbeat, SessionHeartbeatAck, session_response::Response};
use leasehold_store::{LockStore, Stamped, StoreError, clock};

use super::{
    MAX_PENDING_ACKS,
    task::{Done, Session},
    wire::Wire,
};
use crate::{convert, status::Refusal};

/// How long to wait before a failed renewal is tried again.
pub(super) const RETRY: Duration = Duration::from_millis(100);

/// A heartbeat that waits for a renewal.
#[derive(Clone, Copy, Debug)]
pub(super) struct PendingAck {
    request_id: u64,
    sequence: u64,
    heard_at: Moment,
}

impl<W: Wire> Session<W> {
    pub(super) fn on_heartbeat(
        &mut self,
        request_id: u64,
        heartbeat: SessionHeartbeat,
    ) -> Result<(), Refusal> {
        let now = clock::now();
        if !self.lease.heartbeat(heartbeat.sequence, now) {
            return Err(Refusal::field(
                "heartbeat.sequence",
                format!(
                    "must be greater than the one before, {}",
                    self.lease.sequence()
                ),
            ));
        }
        self.listed
            .info()
            .heard_at
            .store(now.as_micros(), std::sync::atomic::Ordering::Relaxed);
        self.silence.kept();
        if self.pending_acks.len() == MAX_PENDING_ACKS {
            self.pending_acks.remove(0);
        }
        self.pending_acks.push(PendingAck {
            request_id,
            sequence: heartbeat.sequence,
            heard_at: now,
        });
        // Due when a sixth of the TTL has passed, so that a heartbeat every third always renews.
        let due_at = now.after(self.lease.ttl() - self.lease.ttl() / 6);
        if self.standing().is_some_and(|standing| standing < due_at) {
            self.renew();
            if self.coordinator.is_acknowledged_by_replicas() {
                // What they have not got yet is told when they have: a dead one must not hold up the answer.
                self.short_ack = self.pending_acks.last().copied();
                self.acknowledge();
            }
        } else {
            self.acknowledge();
        }
        Ok(())
    }

    /// Until when everything that is held stands in the store; `None` if nothing is held.
    pub(super) fn standing(&self) -> Option<Moment> {
        self.holds
            .values()
            .map(|held| held.hold.stands_until())
            .min()
    }

    /// Answers the heartbeats that wait, with what may be promised now.
    fn acknowledge(&mut self) {
        let standing = self.standing();
        for ack in std::mem::take(&mut self.pending_acks) {
            // Where nothing is left to promise, the loss that follows says so.
            if let Some(valid_for) = self.lease.promise(ack.heard_at, standing) {
                let acknowledgement = SessionHeartbeatAck {
                    acked_heartbeat: ack.sequence,
                    valid_for: Some(convert::wire_duration(valid_for)),
                };
                self.outbox
                    .send(ack.request_id, Response::Heartbeat(acknowledgement));
            }
        }
    }

    /// Renews everything that is held, in one batch, unless that is under way.
    pub(super) fn renew(&mut self) {
        if self.renewing {
            return;
        }
        if self.holds.is_empty() {
            return self.acknowledge();
        }
        self.renewing = true;
        self.listed.info().set_renewal_due(clock::now());
        self.outbox.following.renews(self.holds.len());
        let coordinator = self.coordinator.clone();
        let (owners, commands): (Vec<OwnerId>, Vec<_>) = self
            .holds
            .values()
            .map(|held| {
                let command = coordinator.command(held.hold.name().clone(), held.hold.renewal());
                (*held.hold.owner(), command)
            })
            .unzip();
        self.operations.push(
            async move {
                let results = coordinator.store().execute_all(commands).await;
                Done::Renewed(owners.into_iter().zip(results).collect())
            }
            .boxed(),
        );
    }

    pub(super) fn on_renewed(&mut self, results: Vec<(OwnerId, Result<Stamped, StoreError>)>) {
        self.renewing = false;
        let mut lost = Vec::new();
        let mut failed = false;
        let mut is_late = false;
        for (owner, result) in results {
            // One that was released or taken meanwhile is no longer ours to speak of.
            let Some(held) = self.holds.get_mut(&owner) else {
                continue;
            };
            match result {
                Ok(stamped) => match stamped.executed.reply {
                    Reply::Lost(loss) => lost.push((owner, loss)),
                    _ => {
                        held.hold.renewed(stamped.sent_at);
                        self.coordinator.metrics().renewals.inc();
                        self.tell_count(&owner);
                    }
                },
                Err(error) => {
                    self.coordinator.metrics().store_errors.inc();
                    failed = true;
                    // What somebody did to this lock's key says nothing of how well this coordinator serves.
                    is_late |= !matches!(error, StoreError::WrongType { .. });
                }
            }
        }
        self.outbox.following.renewed(lost.len(), failed);
        self.lose(lost);
        if !is_late {
            self.renewed();
        }
        if failed {
            self.retry_at = Some(clock::now().after(RETRY));
            self.short_ack = self.pending_acks.last().copied().or(self.short_ack);
        } else if let Some(short) = self.short_ack.take()
            && self.pending_acks.is_empty()
        {
            // Of itself: the request was answered already.
            self.pending_acks.push(PendingAck {
                request_id: 0,
                ..short
            });
        }
        self.acknowledge();
    }

    /// Nothing is due to be renewed any more.
    fn renewed(&self) {
        if let Some(due) = self.listed.info().clear_renewal_due() {
            self.coordinator.metrics().clocks.renewed(due);
        }
    }

    /// Gives up the holds whose time in the store may be over: they could not be renewed.
    pub(super) fn expire(&mut self, now: Moment) {
        let over = self
            .holds
            .iter()
            .filter(|(_, held)| held.hold.stands_until() <= now)
            .map(|(owner, _)| (*owner, Loss::Expired))
            .collect();
        self.lose(over);
        self.check_at = self.standing();
    }
}

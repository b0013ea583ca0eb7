//! Messages of a session to its client: the rules' answers and refusals, encoded for the wire.

use std::time::Duration;

use leasehold_core::{
    id::{CoordinatorId, SessionId},
    lease::heartbeat_interval,
    session::{
        Effect, GrantedLock, LostLock, LostWhy, MAX_IN_FLIGHT, NotGranted, Opened, Refused,
        RequestId, Response, ResumedWhat,
    },
};
use leasehold_proto::v1::{self, session_response::Response as WireResponse};
use leasehold_store::StoreError;
use tonic::Status;

use super::{
    answers::{holder, lost_messages, lost_reason, wire_duration},
    refusal::failure,
    resume::opened_messages,
};
use crate::{
    access::{
        denied,
        rules::{Granted, Permission, Place},
    },
    limits::{Limits, too_many_in_flight, too_many_locks},
    status::{Reason, Refusal},
};

/// Answer to a session's client, or the status that ends its stream.
pub type Answer = Result<v1::SessionResponse, Status>;

/// Surroundings on which answers depend, in addition to the session's own state.
#[derive(Debug)]
pub struct Surroundings {
    /// The session's id.
    pub session: SessionId,
    /// The session's TTL.
    pub ttl: Duration,
    /// The coordinator's id.
    pub coordinator: CoordinatorId,
    /// The coordinator's limits.
    pub limits: Limits,
    /// The client's permissions.
    pub granted: Granted,
    /// The locks that the client asked to resume without the right to: the session does not know of them.
    pub denied: Vec<LostLock>,
}

impl Surroundings {
    /// Puts an answer to a request into messages, each of bounded size.
    pub fn encode(
        &mut self,
        request_id: RequestId,
        response: Response,
        mut send: impl FnMut(v1::SessionResponse),
    ) {
        let mut say = |response| send(message(request_id, response));
        let response = match response {
            Response::Opened(opened) => {
                for opened in self.opened(*opened) {
                    say(WireResponse::Opened(opened));
                }
                return;
            }
            Response::Lost(locks) => {
                let locks = locks.into_iter().map(lost_lock).collect();
                for lost in lost_messages(locks) {
                    say(WireResponse::Lost(lost));
                }
                return;
            }
            Response::Refused(refused) => WireResponse::Error(failure(self.refusal(refused))),
            Response::Queued { ticket, position } => WireResponse::Queued(v1::SessionQueued {
                position,
                ticket: ticket.as_bytes().to_vec(),
            }),
            Response::Granted {
                locks,
                valid_for,
                acked_heartbeat,
            } => WireResponse::Granted(v1::SessionGranted {
                bounded: locks.iter().filter_map(bounded_lock).collect(),
                locks: locks.into_iter().map(granted_lock).collect(),
                valid_for: Some(wire_duration(valid_for)),
                acked_heartbeat,
            }),
            Response::NotGranted {
                why,
                holder: view,
                names,
            } => {
                let may_see = names
                    .iter()
                    .all(|name| may_see(&self.granted, name.as_str()));
                WireResponse::NotGranted(v1::SessionNotGranted {
                    outcome: not_granted(why).into(),
                    holder: view.as_ref().filter(|_| may_see).map(holder),
                })
            }
            Response::Released {
                released,
                hold_count,
            } => WireResponse::Released(v1::SessionReleased {
                released,
                hold_count,
            }),
            Response::ValueSet(value_set) => {
                WireResponse::ValueSet(v1::SessionValueSet { value_set })
            }
            Response::Downgraded(downgraded) => {
                WireResponse::Downgraded(v1::SessionDowngraded { downgraded })
            }
            Response::Reduced(reduced) => WireResponse::Reduced(v1::SessionReduced { reduced }),
            Response::Heartbeat {
                acked_heartbeat,
                valid_for,
                rest,
            } => WireResponse::Heartbeat(v1::SessionHeartbeatAck {
                acked_heartbeat,
                valid_for: Some(wire_duration(valid_for)),
                next_within: rest.map(wire_duration),
            }),
            Response::ReleaseRequested {
                name,
                owner,
                reason,
                within,
            } => WireResponse::ReleaseRequested(v1::SessionReleaseRequested {
                name: name.as_str().to_owned(),
                owner_id: owner.as_bytes().to_vec(),
                reason: reason.as_str().to_owned(),
                within: within.map(wire_duration),
            }),
            Response::Draining(draining) => WireResponse::Draining(v1::SessionDraining {
                deadline: Some(wire_duration(draining.deadline)),
                keeps_serving: draining.keeps_serving,
            }),
            Response::Closed => WireResponse::Closed(v1::SessionClosed {}),
        };
        say(response);
    }

    fn opened(&mut self, opened: Opened) -> Vec<v1::SessionOpened> {
        let Opened {
            resumed,
            refused,
            valid_for,
        } = opened;
        let hold = |what: &ResumedWhat| match what {
            ResumedWhat::Hold {
                ends_in, permits, ..
            } => (ends_in.map(wire_duration), *permits),
            ResumedWhat::Wait { .. } => (None, 0),
        };
        let resumed = resumed.into_iter().map(|lock| v1::ResumedLock {
            ends_in: hold(&lock.what).0,
            permits: hold(&lock.what).1,
            name: lock.name.as_str().to_owned(),
            owner_id: lock.owner.as_bytes().to_vec(),
            what: Some(match lock.what {
                ResumedWhat::Hold { token, count, .. } => {
                    v1::resumed_lock::What::Hold(v1::ResumedHold {
                        fencing_token: token.get(),
                        hold_count: count,
                    })
                }
                ResumedWhat::Wait { position } => v1::resumed_lock::What::Position(position),
            }),
        });
        let opened = v1::SessionOpened {
            session_id: self.session.to_string(),
            ttl: Some(wire_duration(self.ttl)),
            heartbeat_interval: Some(wire_duration(heartbeat_interval(self.ttl))),
            coordinator: self.coordinator.to_string(),
            valid_for: valid_for.map(wire_duration),
            ..v1::SessionOpened::default()
        };
        let denied = std::mem::take(&mut self.denied);
        let refused = denied.into_iter().chain(refused).map(lost_lock);
        opened_messages(opened, resumed.collect(), refused.collect())
    }

    /// Returns the reason why something was refused, what that concerns, and what to do.
    pub fn refusal(&self, refused: Refused) -> Refusal {
        refusal(refused, &self.limits, &self.granted)
    }
}

fn may_see(granted: &Granted, name: &str) -> bool {
    granted.permits(Permission::Inspect, Place::Either, name)
}

/// Returns the reason why something was refused, what that concerns, and what to do; `granted` says what may be shown.
pub fn refusal(refused: Refused, limits: &Limits, granted: &Granted) -> Refusal {
    let of_store = |error: StoreError| Refusal::from(error).shown_to(granted);
    match refused {
        Refused::RequestIdInUse(request_id) => Refusal::new(
            Reason::RequestIdInUse,
            format!(
                "request id {request_id} belongs to an acquire that is still in flight; use another"
            ),
        ),
        Refused::SelfDeadlock { actor, name, holds } => {
            let name = name.as_str();
            let what = if holds {
                format!("actor {actor} holds {name:?} already and would wait for itself")
            } else {
                format!(
                    "actor {actor} waits for {name:?} already; an actor does one thing after the other"
                )
            };
            Refusal::new(
                Reason::SelfDeadlock,
                format!("{what}; set `reentrant` to hold it once more, or ask as another actor"),
            )
        }
        Refused::Upgrade { actor, name } => Refusal::new(
            Reason::UpgradeRefused,
            format!(
                "actor {actor} holds {:?} in a weaker mode than it asks for; two that did so would wait for each other: release it first, or take it in the stronger mode from the start",
                name.as_str()
            ),
        ),
        Refused::TooManyLocks { has, more, limit } => too_many_locks(has, more, limit),
        Refused::TooManyRequests(effect) => {
            let so = match effect {
                Effect::ReleasedInBackground => "the release goes on in the background",
                Effect::NotReleased => "nothing was released",
                Effect::ValueNotChanged => "the value was not changed",
                Effect::NotDowngraded => "the hold was not downgraded",
                Effect::NotReduced => "no permits were given back",
            };
            too_many_in_flight(MAX_IN_FLIGHT, so)
        }
        Refused::TooManyWaiters(name) => limits.too_many_waiters(&name),
        Refused::HeartbeatOutOfOrder { last } => Refusal::field(
            "heartbeat.sequence",
            format!("must be greater than the one before, {last}"),
        ),
        Refused::NotItsName => not_its_name("name"),
        Refused::PermissionDenied(name) => denied(Permission::Acquire, name.as_str()),
        Refused::NotExclusive(name) => Refusal::new(
            Reason::NotExclusive,
            format!(
                "{:?} is held as permits of a semaphore, and only an exclusive hold can be made a shared one",
                name.as_str()
            ),
        ),
        Refused::NotASemaphore(name) => Refusal::new(
            Reason::NotASemaphore,
            format!(
                "{:?} is not held as permits of a semaphore, so there are none to give back; release it instead",
                name.as_str()
            ),
        ),
        Refused::LockLost => Refusal::new(
            Reason::LockLost,
            "a lock that the actor held, and was to hold once more, was lost meanwhile; nothing was granted",
        ),
        Refused::TooLate => of_store(StoreError::Indeterminate {
            reason: "the grant came so late that its time was over; it is being released"
                .to_owned(),
        }),
        Refused::OtherLimit { name, limit } => Refusal::other_limit(&name, limit),
        Refused::ForcedOut(name) => Refusal::new(
            Reason::ForceReleased,
            format!("an operator ended the wait for {:?}", name.as_str()),
        ),
        Refused::Repeated => Refusal::new(
            Reason::RequestRepeated,
            "the request was repeated, with the same request_key, and the later one has its place",
        ),
        Refused::Deadlock(deadlock) => {
            let mut names = deadlock.cycle.iter().map(|step| &step.name);
            let why = if names.all(|name| may_see(granted, name.as_str())) {
                deadlock.to_string()
            } else {
                "the wait was part of a deadlock, in which there are locks that may not be shown; it was ended for the others to go on"
                    .to_owned()
            };
            Refusal::new(Reason::Deadlock, why)
        }
        Refused::Store(error) => of_store(error),
        // Always a reason that says so: a client that reads one which is given before anything is done takes its locks
        // for untouched.
        Refused::ResumeUnanswered(
            error @ (StoreError::Unavailable { .. } | StoreError::Indeterminate { .. }),
        ) => of_store(error),
        Refused::ResumeUnanswered(error) => of_store(StoreError::Indeterminate {
            reason: error.to_string(),
        }),
        Refused::StoppedWhileResuming => Refusal::new(
            Reason::StoreIndeterminate,
            "the coordinator has stopped; open the session elsewhere, and resume there what this one may have taken over",
        ),
        Refused::Silent { ttl } => Refusal::new(
            Reason::SessionSilent,
            format!(
                "no heartbeat came for the session's TTL of {ttl:?}: everything that it held was released"
            ),
        ),
        Refused::EndedByOperator => Refusal::new(
            Reason::SessionEnded,
            "an operator has ended the session: everything that it held was taken from it",
        ),
        Refused::Stopped => Refusal::new(
            Reason::Draining,
            "the coordinator has stopped; its locks expire when they would have, and its places are kept for 10 s: resume them on another coordinator, or on this one when it is back",
        ),
    }
}

/// Returns the refusal of an owner id that is another lock's.
pub fn not_its_name(field: &str) -> Refusal {
    Refusal::field(
        field,
        "must be the lock that was granted with this owner id",
    )
}

/// Returns the answer to a request that is refused before the session knows of it.
pub fn refused(request_id: RequestId, refusal: Refusal) -> v1::SessionResponse {
    message(request_id, WireResponse::Error(failure(refusal)))
}

/// Returns the outcome of an acquire that was not granted.
pub fn not_granted(why: NotGranted) -> v1::AcquireOutcome {
    match why {
        NotGranted::Busy => v1::AcquireOutcome::Busy,
        NotGranted::TimedOut => v1::AcquireOutcome::TimedOut,
        NotGranted::Cancelled => v1::AcquireOutcome::Cancelled,
    }
}

fn message(request_id: RequestId, response: WireResponse) -> v1::SessionResponse {
    v1::SessionResponse {
        request_id,
        response: Some(response),
    }
}

fn bounded_lock(lock: &GrantedLock) -> Option<v1::BoundedLock> {
    let ends_in = lock.ends_in?;
    Some(v1::BoundedLock {
        owner_id: lock.owner.as_bytes().to_vec(),
        ends_in: Some(wire_duration(ends_in)),
    })
}

fn granted_lock(lock: GrantedLock) -> v1::GrantedLock {
    v1::GrantedLock {
        name: lock.name.as_str().to_owned(),
        owner_id: lock.owner.as_bytes().to_vec(),
        fencing_token: lock.token.get(),
        hold_count: lock.count,
        permits: lock.permits,
    }
}

fn lost_lock(lock: LostLock) -> v1::LostLock {
    let reason = match lock.why {
        LostWhy::Store(loss) => lost_reason(loss),
        LostWhy::Revoked => v1::LostReason::PermissionRevoked,
        LostWhy::MaxHold => v1::LostReason::MaxHold,
    };
    v1::LostLock {
        name: lock.name.as_str().to_owned(),
        owner_id: lock.owner.as_bytes().to_vec(),
        reason: reason.into(),
    }
}

#[cfg(test)]
mod tests {
    use leasehold_core::{name::LockName, session::Names, view::HolderView};

    use super::*;
    use crate::{
        access::rules::{Pattern, Prefixes, Rule, Rules},
        config::Config,
    };

    #[test]
    fn the_holder_is_shown_to_those_who_may_inspect_each_of_the_names() {
        for (inspects, is_shown) in [
            (vec!["a", "b"], true),
            (vec!["a"], false),
            (vec!["b"], false),
        ] {
            let rule = Rule {
                identities: vec![Pattern::parse("token:a").unwrap()],
                allow: vec![Permission::Inspect],
                locks: Prefixes::new(&inspects),
                ..Rule::default()
            };
            let mut surroundings = Surroundings {
                session: SessionId::from_bytes([1; 16]),
                ttl: Duration::from_secs(10),
                coordinator: CoordinatorId::new("here"),
                limits: Limits::new(Config::default().into()),
                granted: Rules::new(&[rule]).of("token:a"),
                denied: Vec::new(),
            };
            let [a, b] = ["a", "b"].map(|name| LockName::parse(name).unwrap());
            let response = Response::NotGranted {
                why: NotGranted::Busy,
                holder: Some(HolderView::Foreign { expires_in: None }),
                names: Names::new(a, vec![b]),
            };
            let mut shown = Vec::new();
            surroundings.encode(1, response, |message| shown.push(message));
            let Some(WireResponse::NotGranted(answer)) = shown.remove(0).response else {
                panic!("another answer");
            };
            assert_eq!(answer.holder.is_some(), is_shown, "{inspects:?}");
        }
    }
}

//! Acquires, from the request to the store; what becomes of them is in `grants`.

use leasehold_core::{
    command::Acquire,
    id::{Actor, OwnerId},
    mode::Mode,
    name::LockName,
};
use leasehold_proto::v1::{SessionAcquire, SessionQueued};
use tokio::sync::oneshot;
use uuid::Uuid;

use super::{task::Session, turns::Ask, wire::Wire};
use crate::{
    convert,
    coordinator::acquire::{InLine, Wait},
    limits::{WaiterPlace, too_many_locks},
    status::{Reason, Refusal},
};

/// An acquire that has not been answered.
#[derive(Debug)]
pub(super) struct Acquiring {
    pub(super) stage: Stage,
    /// It has had its turn, and no answer.
    pub(super) at_the_store: bool,
    /// It may not be any more: what it comes to is not for its client.
    pub(super) denied: Option<Box<Refusal>>,
    pub(super) wanted: Wanted,
}

/// What it asks for.
#[derive(Debug)]
pub(super) struct Wanted {
    pub(super) actor: Actor,
    pub(super) mode: Mode,
    /// The name, or the first of several.
    pub(super) name: LockName,
    /// The names in the order asked for; empty for a single name of nobody's.
    pub(super) names: Vec<LockName>,
    /// The actor's holds that it counts on, each counted once more already.
    pub(super) again: Vec<OwnerId>,
}

/// How far it is.
#[derive(Debug)]
pub(super) enum Stage {
    /// It waits for its turn to be sent, under this number.
    Turn(u64),
    /// On its way to the store.
    Asked,
    /// That, and cancelled: if it has to wait, it does not.
    Cancelled,
    /// In the queue, with what cancels it, once.
    InLine(Option<oneshot::Sender<()>>),
}

impl Acquiring {
    pub(super) fn new(stage: Stage, wanted: Wanted) -> Self {
        Self {
            stage,
            at_the_store: false,
            denied: None,
            wanted,
        }
    }

    /// Ends the wait. A grant that is there before stands. One that waits for its turn is to be taken out of the line.
    pub(super) fn cancel(&mut self) {
        match &mut self.stage {
            Stage::Asked => self.stage = Stage::Cancelled,
            Stage::Turn(_) | Stage::Cancelled => {}
            Stage::InLine(cancel) => {
                if let Some(cancel) = cancel.take() {
                    // Its answer may have crossed the cancel: then there is nothing to do.
                    let _ = cancel.send(());
                }
            }
        }
    }
}

impl<W: Wire> Session<W> {
    pub(super) fn on_acquire(
        &mut self,
        request_id: u64,
        request: SessionAcquire,
    ) -> Result<(), Refusal> {
        // Its grant would look like something that the coordinator sends of itself.
        if request_id == 0 {
            return Err(Refusal::field(
                "request_id",
                "must not be 0 for an acquire: answers under it could not be told apart",
            ));
        }
        let (name, mut names) = {
            let max_names = self.coordinator.limits().config().max_names_per_acquire;
            convert::lock_names(&request, self.coordinator.store(), max_names)?
        };
        let mode = convert::mode("acquire.", request.mode, request.permits, request.limit)?;
        let wait = convert::wait(
            "acquire.wait",
            request.wait,
            Wait::Forever,
            self.coordinator.max_wait(),
        )?;
        let value = convert::value("acquire.value", &request.value)?;
        let bounds = self.coordinator.bounds();
        let lock_delay = convert::lock_delay("acquire.lock_delay", request.lock_delay, bounds)?;
        let actor = Actor::new(request.actor);
        if request.reentrant && actor.is_nobody() {
            let what = "needs an actor: nobody (actor 0) is a stranger to itself";
            return Err(Refusal::field("acquire.reentrant", what));
        }
        self.check_acquire(mode, &name, &names)?;
        if self.acquiring.contains_key(&request_id) {
            return Err(Refusal::new(
                Reason::RequestIdInUse,
                format!(
                    "request id {request_id} belongs to an acquire that is still in flight; use another"
                ),
            ));
        }
        let is_several = !names.is_empty();
        if !is_several && !actor.is_nobody() {
            names.push(name.clone());
        }
        let again = self.held_before(actor, &names, mode, request.reentrant)?;
        let wanted = Wanted {
            actor,
            mode,
            name: name.clone(),
            names,
            again,
        };
        let more = wanted.locks();
        if self.holds.len() + self.asked_locks + more > self.max_locks {
            let has = self.holds.len() + self.asked_locks;
            return Err(too_many_locks(has, more, self.max_locks));
        }
        // Those of several names have theirs when they come to each.
        let place = if is_several {
            None
        } else {
            self.coordinator.place(&name, wait)?
        };
        let acquire = Acquire {
            owner: fresh_owner(),
            session: Some(self.id),
            actor,
            client_name: self.client_name.clone(),
            mode,
            value,
            ttl: self.lease.ttl(),
            lock_delay,
            wait: wait != Wait::No,
            again: false,
        };
        self.begin(request_id, (name, place), acquire, wait, wanted);
        Ok(())
    }

    /// The holds of the actor among these names, each of which it may hold once more.
    fn held_before(
        &self,
        actor: Actor,
        names: &[LockName],
        mode: Mode,
        reentrant: bool,
    ) -> Result<Vec<OwnerId>, Refusal> {
        let mut again = Vec::new();
        if actor.is_nobody() {
            return Ok(again);
        }
        for name in names {
            let held = self.actors.held(actor, name);
            let held = held.and_then(|owner| Some((owner, self.holds.get(&owner)?)));
            let shown = name.as_str();
            match held {
                Some((owner, held)) if reentrant && held.mode.covers(mode) => again.push(owner),
                Some(_) if reentrant => {
                    return Err(Refusal::new(
                        Reason::UpgradeRefused,
                        format!(
                            "actor {actor} holds {shown:?} in a weaker mode than it asks for; two that did so would wait for each other: release it first, or take it in the stronger mode from the start"
                        ),
                    ));
                }
                Some(_) => {
                    return Err(self_deadlock(format!(
                        "actor {actor} holds {shown:?} already and would wait for itself"
                    )));
                }
                None if self.actors.asks(actor, name) => {
                    return Err(self_deadlock(format!(
                        "actor {actor} waits for {shown:?} already; an actor does one thing after the other"
                    )));
                }
                None => {}
            }
        }
        Ok(again)
    }

    /// Lines up an acquire that is in order.
    fn begin(
        &mut self,
        request_id: u64,
        (name, place): (LockName, Option<WaiterPlace>),
        acquire: Acquire,
        wait: Wait,
        wanted: Wanted,
    ) {
        for owner in &wanted.again {
            self.count_up(owner);
        }
        let fresh: Vec<LockName> = wanted
            .names
            .iter()
            .filter(|name| self.actors.held(wanted.actor, name).is_none())
            .cloned()
            .collect();
        for name in &fresh {
            self.actors.ask(wanted.actor, name.clone());
        }
        self.asked_locks += wanted.locks();
        if fresh.is_empty() && !wanted.names.is_empty() {
            return self.on_granted(request_id, wanted, []);
        }
        let ask = if wanted.is_several() {
            Ask::Several {
                names: fresh,
                acquire,
                wait,
            }
        } else {
            Ask::One {
                name,
                place,
                acquire,
                wait,
            }
        };
        let number = self.turns.line_up(request_id, ask);
        self.acquiring
            .insert(request_id, Acquiring::new(Stage::Turn(number), wanted));
        self.take_turns();
        self.wait_for_turn(number);
        self.count();
    }
}

impl Wanted {
    /// Whether it is for several names, some of which the actor may hold.
    pub(super) fn is_several(&self) -> bool {
        self.names.len() > 1 || !self.again.is_empty()
    }

    /// Each of its names.
    pub(super) fn each(&self) -> impl Iterator<Item = &LockName> {
        let rest = self.names.iter().filter(|name| **name != self.name);
        std::iter::once(&self.name).chain(rest)
    }

    /// How many locks it asks for beside those that the actor holds.
    pub(super) fn locks(&self) -> usize {
        self.names.len().max(1) - self.again.len()
    }
}

/// The owner id of a grant to be.
pub(super) fn fresh_owner() -> OwnerId {
    OwnerId::from_bytes(Uuid::new_v4().into_bytes())
}

/// What its client is told of an acquire that waits.
pub(super) fn told_queued(in_line: &InLine) -> SessionQueued {
    SessionQueued {
        position: in_line.position(),
        ticket: in_line.ticket().as_bytes().to_vec(),
    }
}

fn self_deadlock(what: String) -> Refusal {
    let message = format!("{what}; set `reentrant` to hold it once more, or ask as another actor");
    Refusal::new(Reason::SelfDeadlock, message)
}

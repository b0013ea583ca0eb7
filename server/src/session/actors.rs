//! Holds and pending requests of each actor of a session.

use std::collections::{HashMap, HashSet};

use leasehold_core::{
    id::{Actor, OwnerId},
    name::LockName,
};

/// The actors of one session that hold or wait for something. Nobody (actor 0) is not among them.
#[derive(Debug, Default)]
pub(super) struct Actors {
    flows: HashMap<Actor, Flow>,
}

#[derive(Debug, Default)]
struct Flow {
    holds: HashMap<LockName, OwnerId>,
    asks: HashSet<LockName>,
}

impl Actors {
    /// Whether an actor holds anything.
    pub(super) fn holds_any(&self, actor: Actor) -> bool {
        self.flows
            .get(&actor)
            .is_some_and(|flow| !flow.holds.is_empty())
    }

    /// What an actor holds of a name.
    pub(super) fn held(&self, actor: Actor, name: &LockName) -> Option<OwnerId> {
        self.flows.get(&actor)?.holds.get(name).copied()
    }

    /// Whether an actor has asked for a name and not been answered.
    pub(super) fn asks(&self, actor: Actor, name: &LockName) -> bool {
        self.flows
            .get(&actor)
            .is_some_and(|flow| flow.asks.contains(name))
    }

    /// Notes that an actor asks for a name.
    pub(super) fn ask(&mut self, actor: Actor, name: LockName) {
        self.change(actor, |flow| {
            flow.asks.insert(name);
        });
    }

    /// Notes that an actor was answered.
    pub(super) fn answered(&mut self, actor: Actor, name: &LockName) {
        self.change(actor, |flow| {
            flow.asks.remove(name);
        });
    }

    /// Notes that an actor holds a name.
    pub(super) fn hold(&mut self, actor: Actor, name: LockName, owner: OwnerId) {
        self.change(actor, |flow| {
            flow.holds.insert(name, owner);
        });
    }

    /// Notes that an actor no longer holds a name.
    pub(super) fn unhold(&mut self, actor: Actor, name: &LockName) {
        self.change(actor, |flow| {
            flow.holds.remove(name);
        });
    }

    fn change(&mut self, actor: Actor, change: impl FnOnce(&mut Flow)) {
        if actor.is_nobody() {
            return;
        }
        let flow = self.flows.entry(actor).or_default();
        change(flow);
        if flow.holds.is_empty() && flow.asks.is_empty() {
            self.flows.remove(&actor);
        }
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[test]
    fn nothing_is_kept_of_an_actor_that_holds_and_asks_for_nothing() {
        let (actor, other) = (Actor::new(7), Actor::new(8));
        let name = LockName::parse("a").unwrap();
        let owner = OwnerId::from_bytes([1; 16]);
        let mut actors = Actors::default();
        actors.ask(actor, name.clone());
        assert!(actors.asks(actor, &name));
        assert!(!actors.asks(other, &name));
        actors.hold(actor, name.clone(), owner);
        actors.answered(actor, &name);
        assert_eq!(actors.held(actor, &name), Some(owner));
        assert_eq!(actors.held(other, &name), None);
        assert!(actors.holds_any(actor));
        actors.unhold(actor, &name);
        assert!(!actors.holds_any(actor));
        assert!(actors.flows.is_empty());
    }

    #[test]
    fn nobody_is_a_stranger_to_itself() {
        let name = LockName::parse("a").unwrap();
        let mut actors = Actors::default();
        actors.ask(Actor::NOBODY, name.clone());
        actors.hold(Actor::NOBODY, name.clone(), OwnerId::from_bytes([1; 16]));
        assert!(!actors.asks(Actor::NOBODY, &name));
        assert_eq!(actors.held(Actor::NOBODY, &name), None);
        assert!(actors.flows.is_empty());
    }
}

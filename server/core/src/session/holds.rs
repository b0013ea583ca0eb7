//! Table of a session's holds, with the number of times that each is held.
//!
//! The session alone decides by that number; the store is told for others to see.

use std::{collections::BTreeMap, sync::Arc};

use super::{
    asked::Asked,
    effects::{Claim, Effects, Grant, Purpose},
    output::Response,
};
use crate::{
    command::{Op, ReleaseRequest},
    id::{Actor, FencingToken, OwnerId},
    mode::Mode,
    name::LockName,
    planted::{Fault, is_planted},
    time::Moment,
};

/// A hold of the session.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Hold {
    pub(super) grant: Grant,
    pub(super) actor: Actor,
    /// Number of times that it is held.
    count: u32,
    /// The number that the store knows; 0 if it is not known.
    stored: u32,
    /// Whether the store is being told.
    telling: bool,
    /// Whether a message says that an operator took it, and no renewal since has found it.
    pub(super) is_forced: bool,
}

impl Hold {
    /// Returns a hold that is held so many times, as the store knows.
    pub(super) fn new(grant: Grant, actor: Actor, count: u32) -> Self {
        Self {
            grant,
            actor,
            count,
            stored: count,
            telling: false,
            is_forced: false,
        }
    }

    pub(super) fn name(&self) -> &LockName {
        &self.grant.claim.name
    }

    pub(super) fn mode(&self) -> Mode {
        self.grant.mode
    }

    pub(super) fn count(&self) -> u32 {
        self.count
    }

    /// Tells the store how many times it is held, unless that is under way: then it is told again after the reply. Where too
    /// much is in flight, it is told after the next renewal.
    fn tell_count(&mut self, effects: &mut Effects) {
        let (owner, count) = (self.grant.claim.owner, self.count);
        if effects.is_busy() || self.telling || self.stored == count {
            return;
        }
        self.telling = true;
        let op = Op::SetCount { owner, count };
        effects.store(Purpose::SetCount(owner, count), self.name().clone(), op);
    }
}

/// The holds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Holds {
    held: BTreeMap<OwnerId, Hold>,
    /// Holds of each actor. Actor 0 is not among them.
    by_actor: BTreeMap<Actor, BTreeMap<LockName, OwnerId>>,
    /// No hold's time in the store ends before this.
    expiry: Option<Moment>,
    /// No hold reaches its bound before this.
    bound: Option<Moment>,
    asked: Asked,
}

impl Holds {
    pub(super) fn len(&self) -> usize {
        self.held.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.held.is_empty()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&OwnerId, &Hold)> {
        self.held.iter()
    }

    pub(super) fn get(&self, owner: &OwnerId) -> Option<&Hold> {
        self.held.get(owner)
    }

    pub(super) fn insert(&mut self, hold: Hold) {
        let expiries = [self.expiry, Some(hold.grant.stands_until())];
        self.expiry = expiries.into_iter().flatten().min();
        let bounds = [self.bound, ends_at(&hold)];
        self.bound = bounds.into_iter().flatten().min();
        let owner = hold.grant.claim.owner;
        if !hold.actor.is_nobody() {
            let names = self.by_actor.entry(hold.actor).or_default();
            names.insert(hold.name().clone(), owner);
        }
        self.held.insert(owner, hold);
    }

    pub(super) fn remove(&mut self, owner: &OwnerId) -> Option<Hold> {
        let hold = self.held.remove(owner)?;
        self.asked.forget(owner);
        if let Some(names) = self.by_actor.get_mut(&hold.actor) {
            names.remove(hold.name());
            if names.is_empty() {
                self.by_actor.remove(&hold.actor);
            }
        }
        Some(hold)
    }

    /// Removes all of them.
    pub(super) fn take_all(&mut self) -> impl Iterator<Item = Hold> + use<> {
        std::mem::take(self).held.into_values()
    }

    /// Returns whether an actor holds anything.
    pub(super) fn any_of(&self, actor: Actor) -> bool {
        self.by_actor.contains_key(&actor)
    }

    /// Returns what an actor holds of a name.
    pub(super) fn of(&self, actor: Actor, name: &LockName) -> Option<&Hold> {
        self.held.get(self.by_actor.get(&actor)?.get(name)?)
    }

    /// Notes that a message says that an operator took a hold. Returns whether it is one of these.
    pub(super) fn forced(&mut self, owner: &OwnerId) -> bool {
        let hold = self.held.get_mut(owner);
        hold.map(|hold| hold.is_forced = true).is_some()
    }

    /// Notes that an operator took something else than this hold: a renewal that was sent later has found it.
    pub(super) fn not_forced(&mut self, owner: &OwnerId) {
        if let Some(hold) = self.held.get_mut(owner) {
            hold.is_forced = false;
        }
    }

    /// Notes that a renewal sent at this moment was carried out.
    pub(super) fn renewed(&mut self, owner: &OwnerId, sent_at: Moment, effects: &mut Effects) {
        if let Some(hold) = self.held.get_mut(owner) {
            hold.grant.sent_at = hold.grant.sent_at.max(sent_at);
            hold.tell_count(effects);
        }
    }

    /// Notes that the hold may have a value. Returns whether it is one of these.
    pub(super) fn set_value(&mut self, owner: &OwnerId) -> bool {
        let hold = self.held.get_mut(owner);
        hold.map(|hold| hold.grant.claim.is_plain = false).is_some()
    }

    /// Notes that nothing may count on the hold's being exclusive any more.
    pub(super) fn downgrade(&mut self, owner: &OwnerId) {
        if let Some(hold) = self.held.get_mut(owner) {
            hold.grant.mode = Mode::Shared;
        }
    }

    /// Notes that nothing may count on the hold's having more than these permits any more.
    pub(super) fn reduce(&mut self, owner: &OwnerId, permits: u32) {
        if let Some(hold) = self.held.get_mut(owner)
            && let Mode::Semaphore(held) = hold.grant.mode
        {
            hold.grant.mode = Mode::Semaphore(held.reduced_to(permits));
        }
    }

    /// Notes that an operator asks the client to release a hold, unless the session does not have it. A request for an earlier grant
    /// to the same owner id may arrive late, after that grant has expired unclaimed: it is dropped. A request for a later grant, which
    /// the store may have made after it lost writes, applies to the hold.
    pub(super) fn ask(
        &mut self,
        (owner, token): (OwnerId, FencingToken),
        request: Arc<ReleaseRequest>,
        now: Moment,
    ) {
        if let Some(hold) = self.held.get(&owner)
            && token >= hold.grant.token
        {
            self.asked.insert(owner, request, now);
        }
    }

    /// Tells the client of the requests that it has not been told of.
    pub(super) fn tell_requests(&mut self, now: Moment, effects: &mut Effects) {
        for (owner, asked) in self.asked.untold() {
            let Some(hold) = self.held.get(&owner) else {
                continue;
            };
            let waited = asked.came_at.until(now);
            let request = &asked.request;
            let response = Response::ReleaseRequested {
                name: hold.name().clone(),
                owner,
                reason: request.reason.clone(),
                within: request.within.map(|time| time.saturating_sub(waited)),
            };
            effects.send(0, response);
        }
    }

    /// Returns until when everything that is held stands in the store; `None` if nothing is held.
    pub(super) fn standing(&self) -> Option<Moment> {
        self.held
            .values()
            .map(|hold| hold.grant.stands_until())
            .min()
    }

    /// Returns when the first of them may expire.
    pub(super) fn expiry(&self) -> Option<Moment> {
        self.expiry
    }

    /// Returns those whose time in the store may be over.
    pub(super) fn expired(&mut self, now: Moment) -> Vec<OwnerId> {
        ended(&self.held, &mut self.expiry, now, |hold| {
            Some(hold.grant.stands_until())
        })
    }

    /// Returns when the first of them may reach its bound.
    pub(super) fn bound(&self) -> Option<Moment> {
        self.bound
    }

    /// Returns those that have reached their bounds.
    pub(super) fn over(&mut self, now: Moment) -> Vec<OwnerId> {
        if is_planted(Fault::MaxHoldIgnored) {
            self.bound = None;
        }
        ended(&self.held, &mut self.bound, now, ends_at)
    }

    /// Holds a hold once more.
    pub(super) fn count_up(&mut self, owner: &OwnerId, effects: &mut Effects) {
        if let Some(hold) = self.held.get_mut(owner) {
            hold.count = hold.count.saturating_add(1);
            hold.tell_count(effects);
        }
    }

    /// Holds a hold once less. Returns how many times are left, and the hold if there are none: it is removed.
    pub(super) fn count_down(
        &mut self,
        owner: &OwnerId,
        effects: &mut Effects,
    ) -> (u32, Option<Claim>) {
        let Some(hold) = self.held.get_mut(owner) else {
            return (0, None);
        };
        hold.count -= 1;
        if hold.count == 0 {
            return (0, self.remove(owner).map(|hold| hold.grant.claim));
        }
        hold.tell_count(effects);
        (hold.count, None)
    }

    /// Notes that the store has the number, or (`None`) that it is not known whether it has.
    pub(super) fn counted(&mut self, owner: &OwnerId, stored: Option<u32>, effects: &mut Effects) {
        let Some(hold) = self.held.get_mut(owner) else {
            return;
        };
        hold.telling = false;
        hold.stored = stored.unwrap_or(0);
        if stored.is_some() {
            hold.tell_count(effects);
        }
    }
}

/// Returns when a hold reaches its bound, if it has one.
fn ends_at(hold: &Hold) -> Option<Moment> {
    hold.grant.bound.map(|bound| bound.ends_at)
}

/// Returns those whose time is over. None is before `first`, which becomes the time of the first of the others.
fn ended(
    held: &BTreeMap<OwnerId, Hold>,
    first: &mut Option<Moment>,
    now: Moment,
    ends_at: impl Fn(&Hold) -> Option<Moment>,
) -> Vec<OwnerId> {
    if first.is_none_or(|at| now < at) {
        return Vec::new();
    }
    *first = held
        .values()
        .filter_map(&ends_at)
        .filter(|at| *at > now)
        .min();
    let ended = held
        .iter()
        .filter(|(_, hold)| ends_at(hold).is_some_and(|at| at <= now));
    ended.map(|(owner, _)| *owner).collect()
}

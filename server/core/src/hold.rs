//! Holds and lock-delays of one name: everything that keeps the next acquire from being granted.

use std::{
    collections::{BTreeSet, HashMap},
    hash::{Hash, Hasher},
    time::Duration,
};

use crate::{
    id::{Actor, CoordinatorId, FencingToken, OwnerId, Predecessors, SessionId},
    mode::{Limit, Mode, Taken},
    name::{ClientName, Value},
    planted::{Fault, is_planted},
    time::StoreTime,
    view::{HoldEdge, HoldView},
};

/// Hold of a name.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Hold {
    pub(crate) owner: OwnerId,
    pub(crate) session: Option<SessionId>,
    pub(crate) predecessors: Predecessors,
    pub(crate) actor: Actor,
    pub(crate) client_name: ClientName,
    pub(crate) mode: Mode,
    pub(crate) count: u32,
    pub(crate) coordinator: CoordinatorId,
    pub(crate) token: FencingToken,
    pub(crate) acquired_at: StoreTime,
    pub(crate) lock_delay: Duration,
    pub(crate) max_hold: Option<Duration>,
    /// False for a hand-off to another coordinator until that has confirmed it.
    pub(crate) confirmed: bool,
    /// Whether it was handed to a waiter and has not been renewed since: its coordinator may not know of it.
    pub(crate) fresh: bool,
    pub(crate) value: Value,
    /// Time of its end unless it is renewed, its lock-delay included.
    pub(crate) ends_at: StoreTime,
}

impl Hold {
    /// Returns how long the name stays closed if the hold ends uncleanly: not at all before it is confirmed, because its
    /// client does not know of it.
    pub(crate) fn delay(&self) -> Duration {
        if self.confirmed {
            self.lock_delay
        } else {
            Duration::ZERO
        }
    }

    /// Returns the time left of its `max_hold`, if it has one.
    pub(crate) fn ends_in(&self, now: StoreTime) -> Option<Duration> {
        let max_hold = self.max_hold?;
        Some(now.until(self.acquired_at.after(max_hold)))
    }

    /// Removes the value and the client name of a hold that is over and lasts only for its lock-delay.
    pub(crate) fn anonymize(&mut self) {
        self.client_name = ClientName::default();
        self.value = Value::default();
    }

    /// Returns its view.
    pub(crate) fn view(&self, now: StoreTime) -> HoldView {
        HoldView {
            session: self.session,
            predecessors: self.predecessors.clone(),
            actor: self.actor,
            client_name: self.client_name.clone(),
            mode: self.mode,
            count: self.count,
            coordinator: self.coordinator.clone(),
            token: self.token,
            acquired_at: self.acquired_at,
            expires_in: now.until(self.ends_at).saturating_sub(self.delay()),
            lock_delay: self.delay(),
            max_hold: self.max_hold,
            value: self.value.clone(),
        }
    }

    /// Returns its edge for the detector of deadlocks.
    pub(crate) fn edge(&self) -> HoldEdge {
        HoldEdge {
            owner: self.owner,
            session: self.session,
            actor: self.actor,
            client_name: self.client_name.clone(),
            mode: self.mode,
        }
    }
}

/// Holds and lock-delays that block a name's next holder.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Holders {
    holds: HashMap<OwnerId, Hold>,
    /// Shared holds and permits that ended uncleanly: they stay taken for their lock-delay.
    ghosts: HashMap<OwnerId, Ghost>,
    /// The end of the lock-delay of an exclusive hold that ended uncleanly.
    closed_until: Option<StoreTime>,
    /// Time of the end of each hold or ghost (true).
    ends: BTreeSet<(StoreTime, OwnerId, bool)>,
    /// Permits that are taken, while it is held as a semaphore.
    permits: u64,
    /// The limit in force, while it is held as a semaphore.
    limit: Option<Limit>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Ghost {
    mode: Mode,
    ends_at: StoreTime,
}

impl Hash for Holders {
    /// Hashes the holds and lock-delays in the order of their ends. The number of permits follows from them.
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.ends.hash(state);
        for (_, owner, _) in &self.ends {
            self.holds.get(owner).hash(state);
            self.ghosts.get(owner).hash(state);
        }
        self.closed_until.hash(state);
        self.limit.hash(state);
    }
}

impl Holders {
    /// Drops expired holds and lock-delays, and calls `gone` for each expired hold.
    pub(crate) fn purge(&mut self, now: StoreTime, mut gone: impl FnMut(&Hold)) {
        self.closed_until.take_if(|until| *until <= now);
        while let Some((ends_at, owner, is_ghost)) = self.ends.first().copied()
            && ends_at <= now
        {
            if is_ghost {
                self.remove_ghost(&owner);
            } else if let Some(hold) = self.remove(&owner) {
                gone(&hold);
            }
        }
    }

    /// Returns whether nothing blocks the next holder.
    pub(crate) fn is_empty(&self) -> bool {
        self.ends.is_empty() && self.closed_until.is_none()
    }

    /// Returns the room that the holds and lock-delays take.
    pub(crate) fn taken(&self) -> Taken {
        if self.closed_until.is_some() {
            return Taken::All;
        }
        let Some((_, owner, is_ghost)) = self.ends.first() else {
            return Taken::Nothing;
        };
        let mode = if *is_ghost {
            self.ghosts.get(owner).map(|ghost| ghost.mode)
        } else {
            self.get(owner).map(|hold| hold.mode)
        };
        match Taken::Nothing.with(mode.unwrap_or_default()) {
            Taken::Permits { limit, .. } => Taken::Permits {
                number: self.permits,
                limit: self.limit.map_or(limit, |limit| limit.number),
            },
            taken => taken,
        }
    }

    /// Returns how many permits are taken; 0 unless it is held as a semaphore.
    pub(crate) fn permits_taken(&self) -> u64 {
        self.permits
    }

    /// Returns the limit in force, while it is held as a semaphore.
    pub(crate) fn limit(&self) -> Option<Limit> {
        match self.taken() {
            Taken::Permits { .. } => self.limit,
            _ => None,
        }
    }

    /// Replaces the limit in force, while it is held as a semaphore.
    pub(crate) fn set_limit(&mut self, limit: Limit) {
        if self.limit().is_some() {
            self.limit = Some(limit);
        }
    }

    /// Returns the exclusive hold, if any.
    pub(crate) fn exclusive(&self) -> Option<&Hold> {
        let hold = self.holds.values().next()?;
        (hold.mode == Mode::Exclusive).then_some(hold)
    }

    pub(crate) fn get(&self, owner: &OwnerId) -> Option<&Hold> {
        self.holds.get(owner)
    }

    /// Returns a hold, to change anything but its mode and its end.
    pub(crate) fn get_mut(&mut self, owner: &OwnerId) -> Option<&mut Hold> {
        self.holds.get_mut(owner)
    }

    /// Adds a hold that fits. The limit of the first permits comes into force.
    pub(crate) fn add(&mut self, hold: Hold) {
        if self.ends.is_empty() {
            self.limit = hold.mode.limit();
        }
        self.ends.insert((hold.ends_at, hold.owner, false));
        self.permits += u64::from(hold.mode.permits());
        self.holds.insert(hold.owner, hold);
    }

    pub(crate) fn remove(&mut self, owner: &OwnerId) -> Option<Hold> {
        let hold = self.holds.remove(owner)?;
        self.ends.remove(&(hold.ends_at, hold.owner, false));
        self.give_back(hold.mode.permits());
        Some(hold)
    }

    fn give_back(&mut self, permits: u32) {
        let permits = u64::from(permits);
        if is_planted(Fault::PermitsTwice) {
            self.permits = self.permits.saturating_sub(2 * permits);
        } else {
            self.permits -= permits;
        }
    }

    /// Leaves a hold no more than these permits. Returns how many it had on top; `None` if there is no such hold of permits.
    pub(crate) fn reduce(&mut self, owner: &OwnerId, permits: u32) -> Option<u32> {
        let hold = self.holds.get_mut(owner)?;
        let Mode::Semaphore(held) = hold.mode else {
            return None;
        };
        let kept = held.reduced_to(permits);
        let by = held.number() - kept.number();
        hold.mode = Mode::Semaphore(kept);
        self.give_back(by);
        Some(by)
    }

    /// Makes a hold last until `ends_at`.
    pub(crate) fn extend(&mut self, owner: &OwnerId, ends_at: StoreTime) {
        if let Some(hold) = self.holds.get_mut(owner) {
            self.ends.remove(&(hold.ends_at, hold.owner, false));
            hold.ends_at = ends_at;
            self.ends.insert((hold.ends_at, hold.owner, false));
        }
    }

    /// Keeps what a removed hold took closed until `until`.
    pub(crate) fn close(&mut self, hold: &Hold, until: StoreTime) {
        if hold.mode == Mode::Exclusive {
            self.closed_until = Some(until);
            return;
        }
        self.remove_ghost(&hold.owner);
        self.permits += u64::from(hold.mode.permits());
        self.ends.insert((until, hold.owner, true));
        let ghost = Ghost {
            mode: hold.mode,
            ends_at: until,
        };
        self.ghosts.insert(hold.owner, ghost);
    }

    fn remove_ghost(&mut self, owner: &OwnerId) {
        if let Some(ghost) = self.ghosts.remove(owner) {
            self.ends.remove(&(ghost.ends_at, *owner, true));
            self.give_back(ghost.mode.permits());
        }
    }

    /// Returns the number of holds.
    pub(crate) fn len(&self) -> usize {
        self.holds.len()
    }

    /// Returns the holds, those that end first before the others.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Hold> {
        self.ends
            .iter()
            .filter(|(.., is_ghost)| !is_ghost)
            .filter_map(|(_, owner, _)| self.get(owner))
    }

    /// Returns how long the name is closed, at least to some modes.
    pub(crate) fn closed_for(&self, now: StoreTime) -> Option<Duration> {
        let ghosts = self.ghosts.values().map(|ghost| ghost.ends_at).max();
        self.closed_until.or(ghosts).map(|until| now.until(until))
    }

    /// Returns when the first hold or lock-delay expires.
    pub(crate) fn next_end(&self) -> Option<StoreTime> {
        let first = self.ends.first().map(|(ends_at, ..)| *ends_at);
        first.or(self.closed_until)
    }

    /// Returns when the last one expires.
    pub(crate) fn last_end(&self) -> Option<StoreTime> {
        let last = self.ends.last().map(|(ends_at, ..)| *ends_at);
        last.max(self.closed_until)
    }

    /// Returns when each of them ends, and when the lock-delays of holds begin.
    pub(crate) fn deadlines(&self) -> Vec<StoreTime> {
        let ends = self.ends.iter().map(|(ends_at, ..)| *ends_at);
        let delays = self
            .holds
            .values()
            .map(|hold| hold.ends_at.before(hold.delay()));
        ends.chain(delays).chain(self.closed_until).collect()
    }
}

//! Holds that were taken away: the client has lost its permission for them, or held them for as long as it may.
//!
//! They are renewed no more, but stay in the store until everything that the client was promised has passed: the message
//! that tells it of the loss may be on its way for as long as that.

use std::collections::BTreeMap;

use super::{effects::Claim, output::LostWhy};
use crate::{id::OwnerId, name::LockName, time::Moment};

/// Revoked holds, each until its promise has passed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Revoked {
    holds: BTreeMap<OwnerId, RevokedHold>,
    /// None of them is over before this.
    due: Option<Moment>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct RevokedHold {
    claim: Claim,
    why: LostWhy,
    until: Moment,
    /// Number of times that it is held, as the client counts until it hears of the loss.
    count: u32,
}

impl Revoked {
    pub(super) fn is_empty(&self) -> bool {
        self.holds.is_empty()
    }

    pub(super) fn insert(&mut self, claim: Claim, why: LostWhy, count: u32, until: Moment) {
        self.due = Some(self.due.map_or(until, |due| due.min(until)));
        let owner = claim.owner;
        let hold = RevokedHold {
            claim,
            why,
            until,
            count,
        };
        self.holds.insert(owner, hold);
    }

    /// Returns whether this owner id is that of a revoked hold of this name.
    pub(super) fn contains(&self, owner: &OwnerId, name: &LockName) -> bool {
        self.why(owner, name).is_some()
    }

    pub(super) fn has(&self, owner: &OwnerId) -> bool {
        self.holds.contains_key(owner)
    }

    /// Returns each, by its owner id.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&OwnerId, &LockName)> {
        let holds = self.holds.iter();
        holds.map(|(owner, hold)| (owner, &hold.claim.name))
    }

    /// Returns why the hold with this owner id and name was revoked; `None` if it was not.
    pub(super) fn why(&self, owner: &OwnerId, name: &LockName) -> Option<LostWhy> {
        let hold = self.holds.get(owner);
        hold.filter(|hold| hold.claim.name == *name)
            .map(|hold| hold.why)
    }

    /// Counts that the client gave back one of the several times that it holds a hold. Returns how many are left; `None` if
    /// none are.
    pub(super) fn count_down(&mut self, owner: &OwnerId) -> Option<u32> {
        let hold = self.holds.get_mut(owner)?;
        hold.count = hold.count.checked_sub(1).filter(|left| *left > 0)?;
        Some(hold.count)
    }

    pub(super) fn remove(&mut self, owner: &OwnerId) -> Option<Claim> {
        self.holds.remove(owner).map(|hold| hold.claim)
    }

    /// Removes all of them.
    pub(super) fn take_all(&mut self) -> impl Iterator<Item = Claim> + use<> {
        let holds = std::mem::take(self).holds;
        holds.into_values().map(|hold| hold.claim)
    }

    /// Returns when the first of them may be over.
    pub(super) fn due(&self) -> Option<Moment> {
        self.due
    }

    /// Removes those whose promise has passed.
    pub(super) fn take_due(&mut self, now: Moment) -> Vec<Claim> {
        if self.due.is_none_or(|due| now < due) {
            return Vec::new();
        }
        let over: Vec<OwnerId> = self
            .holds
            .iter()
            .filter(|(_, hold)| hold.until <= now)
            .map(|(owner, _)| *owner)
            .collect();
        let over = over.iter().filter_map(|owner| self.remove(owner)).collect();
        self.due = self.holds.values().map(|hold| hold.until).min();
        over
    }
}

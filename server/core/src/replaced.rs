//! Owner ids that resumes replaced, and those of waiters that an operator removed.

use std::{
    collections::{BTreeSet, HashMap},
    hash::{Hash, Hasher},
};

use crate::{command::Loss, id::OwnerId, time::StoreTime};

/// Most owner ids that are remembered for one name. Redis keeps this many in its compact form. `found.lua` and
/// `quorum/common.lua` have the same number.
///
/// Beyond it, the ids that would be forgotten first are forgotten at once. A former owner then learns "deleted" or "taken"
/// instead of "resumed" or "forced", and a former waiter that asks again joins the end of the queue. No client gains a hold by
/// it: only the owner id in its key holds a lock, and a resume changes that id only if it finds one that it names.
pub(crate) const MOST_REPLACED: usize = 128;

/// Reason for which an owner id is void.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Void {
    /// A resume replaced it.
    Resumed,
    /// An operator removed its waiter.
    Forced,
}

/// Owner ids that are void, each for as long as a client may still use it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Replaced {
    until: HashMap<(OwnerId, Void), StoreTime>,
    ends: BTreeSet<(StoreTime, OwnerId, Void)>,
}

impl Hash for Replaced {
    /// Hashes the set, which has all that the map has.
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.ends.hash(state);
    }
}

impl Replaced {
    /// Remembers an id until then, and forgets another one if there are too many.
    pub(crate) fn insert(&mut self, owner: OwnerId, why: Void, until: StoreTime) {
        if let Some(before) = self.until.insert((owner, why), until) {
            self.ends.remove(&(before, owner, why));
        }
        self.ends.insert((until, owner, why));
        if self.ends.len() > MOST_REPLACED
            && let Some((_, first, why)) = self.ends.pop_first()
        {
            self.until.remove(&(first, why));
        }
    }

    /// Returns whether a resume replaced an id.
    pub(crate) fn contains(&self, owner: &OwnerId) -> bool {
        self.until.contains_key(&(*owner, Void::Resumed))
    }

    /// Returns why an id is void, if it is.
    pub(crate) fn get(&self, owner: &OwnerId) -> Option<Loss> {
        if self.contains(owner) {
            return Some(Loss::Resumed);
        }
        let is_forced = self.until.contains_key(&(*owner, Void::Forced));
        is_forced.then_some(Loss::Forced)
    }

    /// Forgets expired ids.
    pub(crate) fn purge(&mut self, now: StoreTime) {
        while let Some((until, owner, why)) = self.ends.first().copied()
            && until <= now
        {
            self.ends.remove(&(until, owner, why));
            self.until.remove(&(owner, why));
        }
    }

    /// Returns when the last one expires.
    pub(crate) fn last_end(&self) -> Option<StoreTime> {
        self.ends.last().map(|(until, ..)| *until)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owner(number: usize) -> OwnerId {
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&number.to_be_bytes());
        OwnerId::from_bytes(bytes)
    }

    #[test]
    fn a_name_remembers_a_bounded_number_of_owner_ids_those_that_last_longest() {
        let mut replaced = Replaced::default();
        let at = |number: usize| StoreTime::from_micros(i64::try_from(number).unwrap_or(0));
        for number in 1..=10 * MOST_REPLACED {
            replaced.insert(owner(number), Void::Resumed, at(number));
            // The same again takes no room.
            replaced.insert(owner(number), Void::Resumed, at(number));
        }
        assert_eq!(replaced.until.len(), MOST_REPLACED);
        assert_eq!(replaced.ends.len(), MOST_REPLACED);
        let oldest_kept = 9 * MOST_REPLACED + 1;
        assert!(replaced.contains(&owner(oldest_kept)));
        assert!(!replaced.contains(&owner(oldest_kept - 1)));
        // One that would be the first to be forgotten is not remembered.
        replaced.insert(owner(0), Void::Forced, at(1));
        assert_eq!(replaced.get(&owner(0)), None);
        replaced.purge(at(10 * MOST_REPLACED));
        assert_eq!((replaced.until.len(), replaced.ends.len()), (0, 0));
    }
}

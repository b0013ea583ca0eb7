//! The owner ids that resumes replaced.

use std::collections::{BTreeSet, HashMap};

use crate::{id::OwnerId, time::StoreTime};

/// The most owner ids that are remembered for one name. Redis keeps so many in its compact form. `hold.lua` has the same
/// number, and `quorum/common.lua` too.
///
/// Beyond it the ids that would be forgotten first are forgotten at once. Then a former owner learns "deleted" or "taken"
/// instead of "resumed", and a former waiter that asks again joins the end of the queue. Nobody gains a hold by it: what a
/// lock is held under is the owner id in its key alone, and a resume changes that only where it finds the id that it names.
pub(crate) const MOST_REPLACED: usize = 128;

/// Owner ids that stand for nothing any more because a resume gave what they stood for another one, each for as long as
/// somebody may still believe in it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Replaced {
    until: HashMap<OwnerId, StoreTime>,
    ends: BTreeSet<(StoreTime, OwnerId)>,
}

impl Replaced {
    /// Remembers one until then, and forgets another if there are too many.
    pub(crate) fn insert(&mut self, owner: OwnerId, until: StoreTime) {
        if let Some(before) = self.until.insert(owner, until) {
            self.ends.remove(&(before, owner));
        }
        self.ends.insert((until, owner));
        if self.ends.len() > MOST_REPLACED
            && let Some((_, first)) = self.ends.pop_first()
        {
            self.until.remove(&first);
        }
    }

    /// Whether it is one.
    pub(crate) fn contains(&self, owner: &OwnerId) -> bool {
        self.until.contains_key(owner)
    }

    /// Forgets those that are over.
    pub(crate) fn purge(&mut self, now: StoreTime) {
        while let Some((until, owner)) = self.ends.first().copied()
            && until <= now
        {
            self.ends.remove(&(until, owner));
            self.until.remove(&owner);
        }
    }

    /// When the last of them is over.
    pub(crate) fn last_end(&self) -> Option<StoreTime> {
        self.ends.last().map(|(until, _)| *until)
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
            replaced.insert(owner(number), at(number));
            // The same again takes no room.
            replaced.insert(owner(number), at(number));
        }
        assert_eq!(replaced.until.len(), MOST_REPLACED);
        assert_eq!(replaced.ends.len(), MOST_REPLACED);
        let oldest_kept = 9 * MOST_REPLACED + 1;
        assert!(replaced.contains(&owner(oldest_kept)));
        assert!(!replaced.contains(&owner(oldest_kept - 1)));
        // One that would be the first to be forgotten is not remembered.
        replaced.insert(owner(0), at(1));
        assert!(!replaced.contains(&owner(0)));
        replaced.purge(at(10 * MOST_REPLACED));
        assert_eq!((replaced.until.len(), replaced.ends.len()), (0, 0));
    }
}

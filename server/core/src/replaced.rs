//! The owner ids that resumes replaced.

use std::collections::{BTreeSet, HashMap};

use crate::{id::OwnerId, time::StoreTime};

/// Owner ids that stand for nothing any more because a resume gave what they stood for another one, each for as long as
/// somebody may still believe in it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Replaced {
    until: HashMap<OwnerId, StoreTime>,
    ends: BTreeSet<(StoreTime, OwnerId)>,
}

impl Replaced {
    /// Remembers one until then.
    pub(crate) fn insert(&mut self, owner: OwnerId, until: StoreTime) {
        if let Some(before) = self.until.insert(owner, until) {
            self.ends.remove(&(before, owner));
        }
        self.ends.insert((until, owner));
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

//! Holds and waiters of this coordinator, by owner id, with what a line of the audit log tells of each.
//!
//! An entry begins with its acquire, or with the resume that brought it here, and ends with its hold, or when it is known that it
//! stands for nothing.

use std::collections::{BTreeSet, HashMap};

use leasehold_core::{id::OwnerId, time::Moment};
use parking_lot::{Mutex, MutexGuard};

use super::event::{Facts, Why};

/// Number of parts of the ledger, so that sessions seldom wait for each other.
const SHARDS: usize = 16;

/// Entry of a hold or waiter.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub(super) facts: Facts,
    /// When the acquire was sent from here.
    pub(super) since: Option<Moment>,
    /// Why it is about to end, once that is known.
    pub(super) why: Option<Why>,
    /// Of a hold of the unary calls: when nobody may have renewed it.
    pub(super) due: Option<Moment>,
}

impl Entry {
    pub(super) fn is_granted(&self) -> bool {
        self.facts.token.is_some()
    }
}

/// The entries.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    shards: [Mutex<HashMap<OwnerId, Entry>>; SHARDS],
    due: Mutex<BTreeSet<(Moment, OwnerId)>>,
}

impl Ledger {
    /// Adds an entry, unless the owner id has one.
    pub(super) fn insert(&self, owner: OwnerId, entry: impl FnOnce() -> Entry) {
        self.shard(&owner).entry(owner).or_insert_with(entry);
    }

    /// Replaces an entry.
    pub(super) fn replace(&self, owner: OwnerId, entry: Entry) {
        self.shard(&owner).insert(owner, entry);
    }

    /// Changes an entry, if the owner id has one.
    pub(super) fn change<T>(
        &self,
        owner: &OwnerId,
        change: impl FnOnce(&mut Entry) -> T,
    ) -> Option<T> {
        self.shard(owner).get_mut(owner).map(change)
    }

    /// Removes an entry for which this holds.
    pub(super) fn remove_if(
        &self,
        owner: &OwnerId,
        condition: impl FnOnce(&Entry) -> bool,
    ) -> Option<Entry> {
        let mut shard = self.shard(owner);
        if !condition(shard.get(owner)?) {
            return None;
        }
        let entry = shard.remove(owner)?;
        drop(shard);
        if let Some(due) = entry.due {
            self.due.lock().remove(&(due, *owner));
        }
        Some(entry)
    }

    /// Sets the time at which a hold of the unary calls is due. Returns whether it is the first one due.
    pub(super) fn set_due(&self, owner: OwnerId, due: Moment) -> bool {
        let before = self.change(&owner, |entry| entry.due.replace(due));
        let Some(before) = before else { return false };
        let mut all = self.due.lock();
        if let Some(before) = before {
            all.remove(&(before, owner));
        }
        all.insert((due, owner));
        all.first() == Some(&(due, owner))
    }

    /// Returns when the first hold of the unary calls is due.
    pub(super) fn next_due(&self) -> Option<Moment> {
        self.due.lock().first().map(|(due, _)| *due)
    }

    /// Returns a hold of the unary calls that is due, which is due no more, and its entry.
    pub(super) fn take_due(&self, now: Moment) -> Option<(OwnerId, Entry)> {
        loop {
            let owner = {
                let mut all = self.due.lock();
                let (_, owner) = all.first().copied().filter(|(due, _)| *due <= now)?;
                all.pop_first();
                owner
            };
            let entry = self.change(&owner, |entry| {
                entry.due = None;
                entry.clone()
            });
            if let Some(entry) = entry {
                return Some((owner, entry));
            }
        }
    }

    /// Removes all entries.
    pub(super) fn take_all(&self) -> impl Iterator<Item = Entry> {
        let shards = self.shards.iter();
        shards.flat_map(|shard| std::mem::take(&mut *shard.lock()).into_values())
    }

    fn shard(&self, owner: &OwnerId) -> MutexGuard<'_, HashMap<OwnerId, Entry>> {
        let shard = usize::from(owner.as_bytes()[0]) % SHARDS;
        self.shards[shard].lock()
    }
}

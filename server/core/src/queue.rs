//! The queue of one name: who is next, among the living.

use std::collections::{BTreeMap, HashMap};

use crate::{
    command::{Acquire, DEAD_AFTER, PLACES_KEPT},
    id::{CoordinatorId, OwnerId},
    time::StoreTime,
};

/// The waiters of one name in the order in which the store saw them, and when each coordinator last showed that its
/// waiters live.
#[derive(Clone, Debug, Default)]
pub struct Queue {
    by_place: BTreeMap<u64, Waiter>,
    places: HashMap<OwnerId, u64>,
    refreshed: BTreeMap<CoordinatorId, StoreTime>,
}

/// A queued acquire.
#[derive(Clone, Debug)]
pub struct Waiter {
    /// What it asked for.
    pub acquire: Acquire,
    /// Where it waits.
    pub coordinator: CoordinatorId,
    /// Since when.
    pub since: StoreTime,
}

impl Queue {
    /// How many wait.
    pub fn len(&self) -> usize {
        self.by_place.len()
    }

    /// Whether nobody waits.
    pub fn is_empty(&self) -> bool {
        self.by_place.is_empty()
    }

    /// Whether the owner id waits here.
    pub fn contains(&self, owner: &OwnerId) -> bool {
        self.places.contains_key(owner)
    }

    /// The waiters in order.
    pub fn iter(&self) -> impl Iterator<Item = &Waiter> {
        self.by_place.values()
    }

    /// When coordinators will be taken for dead, and when they lose their waiters' places.
    pub fn deadlines(&self) -> Vec<StoreTime> {
        self.refreshed
            .values()
            .flat_map(|last| [last.after(DEAD_AFTER), last.after(PLACES_KEPT)])
            .collect()
    }

    /// Joins the queue at its end, or stays where it is; gives the place, 1 for the next.
    pub fn join(&mut self, waiter: Waiter) -> u64 {
        let owner = waiter.acquire.owner;
        self.refreshed
            .insert(waiter.coordinator.clone(), waiter.since);
        if !self.places.contains_key(&owner) {
            let place = self
                .by_place
                .last_key_value()
                .map_or(1, |(last, _)| last + 1);
            self.by_place.insert(place, waiter);
            self.places.insert(owner, place);
        }
        self.position(&owner).unwrap_or(0)
    }

    /// Leaves the queue; false if it was not there.
    pub fn leave(&mut self, owner: &OwnerId) -> bool {
        let Some(place) = self.places.remove(owner) else {
            return false;
        };
        self.by_place.remove(&place);
        self.forget_if_empty();
        true
    }

    /// The place of an owner id, 1 for the next.
    pub fn position(&self, owner: &OwnerId) -> Option<u64> {
        let place = self.places.get(owner)?;
        Some(self.by_place.range(..=place).count() as u64)
    }

    /// Notes that a coordinator's waiters live. Nothing is kept of a coordinator while nobody waits.
    pub fn refresh(&mut self, coordinator: &CoordinatorId, now: StoreTime) {
        if !self.is_empty() {
            self.refreshed.insert(coordinator.clone(), now);
        }
    }

    /// Removes the waiters of coordinators that have been silent for too long to keep their places.
    pub fn purge(&mut self, now: StoreTime) {
        let gone: Vec<CoordinatorId> = self
            .refreshed
            .iter()
            .filter(|(_, last)| last.after(PLACES_KEPT) <= now)
            .map(|(coordinator, _)| coordinator.clone())
            .collect();
        for coordinator in gone {
            self.refreshed.remove(&coordinator);
            self.by_place.retain(|_, waiter| {
                let stays = waiter.coordinator != coordinator;
                if !stays {
                    self.places.remove(&waiter.acquire.owner);
                }
                stays
            });
        }
        self.forget_if_empty();
    }

    /// Takes the first waiter whose coordinator lives. Those of a dead one are skipped but keep their places.
    pub fn take_next(&mut self, now: StoreTime) -> Option<Waiter> {
        let place = self.by_place.iter().find_map(|(place, waiter)| {
            let last = self.refreshed.get(&waiter.coordinator)?;
            (last.after(DEAD_AFTER) > now).then_some(*place)
        })?;
        let waiter = self.by_place.remove(&place)?;
        self.places.remove(&waiter.acquire.owner);
        self.forget_if_empty();
        Some(waiter)
    }

    fn forget_if_empty(&mut self) {
        if self.is_empty() {
            self.refreshed.clear();
        }
    }
}

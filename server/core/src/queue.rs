//! Queue of one name: its waiters in order. Only those whose coordinators live are served.

use std::{
    collections::{BTreeMap, HashMap},
    hash::{Hash, Hasher},
};

use crate::{
    command::{Acquire, DEAD_AFTER, PLACES_KEPT},
    id::{CoordinatorId, OwnerId, Predecessors, WaiterNumber},
    mode::Limit,
    planted::{Fault, is_planted},
    ranks::Ranks,
    time::StoreTime,
};

/// Waiters of one name in the order in which the store saw them, and the last refresh of each coordinator.
///
/// Each coordinator's waiters form a line of their own, so that the next waiter is the first of one of the lines, and a
/// hand-off need not walk past those of a dead coordinator: joining, leaving and a hand-off take O(log n) for n waiters, and
/// O(k) for k coordinators.
#[derive(Clone, Debug, Default)]
pub struct Queue {
    lines: BTreeMap<CoordinatorId, Line>,
    places: HashMap<OwnerId, (u64, CoordinatorId)>,
    ranks: Ranks,
    /// The place of the last waiter that joined: the waiter's number.
    last_place: u64,
    /// The limit in force of the waiters for permits, if there was one since the queue was empty.
    limit: Option<Limit>,
}

/// Waiters of one coordinator.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Line {
    refreshed: StoreTime,
    /// Whether one of them was removed without asking for it since then.
    has_lost: bool,
    by_place: BTreeMap<u64, Waiter>,
}

/// Queued acquire.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Waiter {
    /// The acquire.
    pub acquire: Acquire,
    /// The coordinator at which it waits.
    pub coordinator: CoordinatorId,
    /// Time at which it joined.
    pub since: StoreTime,
    /// Its number, which is its place.
    pub number: WaiterNumber,
    /// The sessions that it was resumed from.
    pub predecessors: Predecessors,
}

impl PartialEq for Queue {
    /// Compares what follows from nothing else: the other fields are indexes, which depend on former waiters too.
    fn eq(&self, other: &Self) -> bool {
        (&self.lines, self.last_place, self.limit) == (&other.lines, other.last_place, other.limit)
    }
}

impl Eq for Queue {}

impl Hash for Queue {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (&self.lines, self.last_place, self.limit).hash(state);
    }
}

impl Queue {
    /// Returns the number of waiters.
    pub fn len(&self) -> usize {
        self.ranks.len()
    }

    /// Returns whether there are no waiters.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns whether the owner id waits here.
    pub fn contains(&self, owner: &OwnerId) -> bool {
        self.places.contains_key(owner)
    }

    /// Returns the semaphore's limit of the waiters, if any waits for permits.
    pub fn limit(&self) -> Option<Limit> {
        self.limit
    }

    /// Replaces the semaphore's limit of the waiters, if any has waited for permits.
    pub fn set_limit(&mut self, limit: Limit) {
        if self.limit.is_some() {
            self.limit = Some(limit);
        }
    }

    /// Returns the waiters in order. Each takes O(k) for k coordinators.
    pub fn iter(&self) -> impl Iterator<Item = &Waiter> {
        Self::merged(self.lines.values())
    }

    /// Returns the waiters whose coordinators live, in order.
    pub fn living(&self, now: StoreTime) -> impl Iterator<Item = &Waiter> {
        Self::merged(self.lines.values().filter(move |line| line.lives(now)))
    }

    fn merged<'a>(lines: impl Iterator<Item = &'a Line>) -> impl Iterator<Item = &'a Waiter> {
        let mut heads: Vec<_> = lines.map(|line| line.by_place.iter().peekable()).collect();
        std::iter::from_fn(move || {
            let next = heads
                .iter_mut()
                .filter_map(|line| Some((*line.peek()?.0, line)))
                .min_by_key(|(place, _)| *place);
            next?.1.next().map(|(_, waiter)| waiter)
        })
    }

    /// Returns when each coordinator will count as dead, and when its waiters lose their places.
    pub fn deadlines(&self) -> Vec<StoreTime> {
        self.lines
            .values()
            .flat_map(|line| [DEAD_AFTER, PLACES_KEPT].map(|after| line.refreshed.after(after)))
            .collect()
    }

    /// Returns when all waiters will have lost their places unless a coordinator refreshes; `None` without waiters.
    pub fn forgettable_at(&self) -> Option<StoreTime> {
        let last = self.lines.values().map(|line| line.refreshed).max()?;
        Some(last.after(PLACES_KEPT))
    }

    /// Adds a waiter at the end, or leaves it in its place, which it returns. `limit` is the one in force, if it waits for permits.
    pub fn join(
        &mut self,
        acquire: &Acquire,
        coordinator: &CoordinatorId,
        limit: Option<Limit>,
        now: StoreTime,
    ) -> WaiterNumber {
        self.limit = self.limit.or(limit);
        let number = match self.is_empty() {
            true => WaiterNumber::first_at(now).get(),
            false => self.last_place + 1,
        };
        let line = self.lines.entry(coordinator.clone());
        let line = line.or_insert_with(|| Line::new(now));
        line.refreshed = now;
        if let Some((place, _)) = self.places.get(&acquire.owner) {
            return WaiterNumber::new(*place);
        }
        self.last_place = number;
        let waiter = Waiter {
            acquire: acquire.clone(),
            coordinator: coordinator.clone(),
            since: now,
            number: WaiterNumber::new(number),
            predecessors: Predecessors::default(),
        };
        line.by_place.insert(number, waiter);
        let place = (number, coordinator.clone());
        self.places.insert(acquire.owner, place);
        self.ranks.push(number);
        WaiterNumber::new(number)
    }

    /// Removes a waiter; returns false if it was not in the queue.
    pub fn leave(&mut self, owner: &OwnerId) -> bool {
        self.remove(owner).is_some()
    }

    /// Returns the waiter of an owner id.
    pub fn get(&self, owner: &OwnerId) -> Option<&Waiter> {
        let (place, coordinator) = self.places.get(owner)?;
        self.lines.get(coordinator)?.by_place.get(place)
    }

    /// Returns the waiter of a number. Takes O(k) for k coordinators.
    pub fn numbered(&self, number: WaiterNumber) -> Option<&Waiter> {
        let mut lines = self.lines.values();
        lines.find_map(|line| line.by_place.get(&number.get()))
    }

    /// Returns how many waiters there are up to a place: 1 for that of the next.
    pub fn position(&self, place: WaiterNumber) -> u64 {
        self.ranks.rank(place.get())
    }

    /// Notes that a coordinator's waiters live. Keeps nothing of a coordinator without waiters. Returns whether one of its waiters
    /// was removed without asking for it since the last refresh.
    pub fn refresh(&mut self, coordinator: &CoordinatorId, now: StoreTime) -> bool {
        if self.is_empty() {
            return false;
        }
        let line = self.lines.entry(coordinator.clone());
        let line = line.or_insert_with(|| Line::new(now));
        line.refreshed = now;
        std::mem::take(&mut line.has_lost)
    }

    /// Removes a waiter that did not ask for it, and returns it, if it was in the queue. The coordinator's next refresh finds out.
    pub fn force_out(&mut self, owner: &OwnerId) -> Option<Waiter> {
        let waiter = self.remove(owner)?;
        if let Some(line) = self.lines.get_mut(&waiter.coordinator) {
            line.has_lost = true;
        }
        Some(waiter)
    }

    /// Removes the waiters of coordinators that have been silent for too long to keep their places.
    ///
    /// A refresh in the future, after the store's clock has stepped back, counts as one of now: otherwise its coordinator
    /// would live until the clock reaches it.
    pub fn purge(&mut self, now: StoreTime) {
        let (places, ranks) = (&mut self.places, &mut self.ranks);
        self.lines.retain(|_, line| {
            line.refreshed = line.refreshed.min(now);
            let stays = line.refreshed.after(PLACES_KEPT) > now;
            if !stays {
                for (place, waiter) in &line.by_place {
                    places.remove(&waiter.acquire.owner);
                    ranks.remove(*place);
                }
            }
            stays
        });
        self.forget_if_empty();
    }

    /// Returns the first waiter whose coordinator lives. Waiters of a dead one are skipped but keep their places.
    pub fn next(&self, now: StoreTime) -> Option<&Waiter> {
        let living = || self.lines.values().filter(|line| line.lives(now));
        if is_planted(Fault::LastFirst) {
            let last = living().filter_map(|line| line.by_place.last_key_value());
            return last
                .max_by_key(|(place, _)| **place)
                .map(|(_, waiter)| waiter);
        }
        living()
            .filter_map(|line| line.by_place.first_key_value())
            .min_by_key(|(place, _)| **place)
            .map(|(_, waiter)| waiter)
    }

    /// Moves a waiter to another coordinator, in its place, and changes it.
    pub fn take_over(
        &mut self,
        owner: &OwnerId,
        coordinator: &CoordinatorId,
        now: StoreTime,
        change: impl FnOnce(&mut Waiter),
    ) {
        let Some((place, before)) = self.places.remove(owner) else {
            return;
        };
        let line = self.lines.get_mut(&before);
        let Some(mut waiter) = line.and_then(|line| line.by_place.remove(&place)) else {
            return;
        };
        change(&mut waiter);
        waiter.coordinator = coordinator.clone();
        self.places
            .insert(waiter.acquire.owner, (place, coordinator.clone()));
        let line = self
            .lines
            .entry(coordinator.clone())
            .or_insert_with(|| Line::new(now));
        line.refreshed = now;
        line.by_place.insert(place, waiter);
    }

    /// Removes a waiter and returns it, if it was in the queue.
    pub fn remove(&mut self, owner: &OwnerId) -> Option<Waiter> {
        let (place, coordinator) = self.places.remove(owner)?;
        self.ranks.remove(place);
        let waiter = self.lines.get_mut(&coordinator)?.by_place.remove(&place);
        self.forget_if_empty();
        waiter
    }

    fn forget_if_empty(&mut self) {
        if self.is_empty() {
            *self = Self::default();
        }
    }
}

impl Line {
    fn new(refreshed: StoreTime) -> Self {
        Self {
            refreshed,
            has_lost: false,
            by_place: BTreeMap::new(),
        }
    }

    fn lives(&self, now: StoreTime) -> bool {
        self.refreshed.after(DEAD_AFTER) > now
    }
}

//! Locks that `top` knows, by name, from a watcher's snapshot and events. Bounded: beyond the bound, new names are not taken in.

use std::{
    cmp::Reverse,
    collections::HashMap,
    sync::Arc,
    time::{Instant, SystemTime},
};

use leasehold_client::{FencingToken, LockEvent, LockEventKind, LockMode, LockView};

use super::{input::Now, rate::Rate};
use crate::show::text;

/// Most locks that are kept. With names and clients of the greatest lengths, they take about 20 MiB.
pub(super) const MOST: usize = 20_000;
/// Rate, per second, below which a free lock is forgotten.
const FORGOTTEN: f64 = 0.05;

/// Order of the list.
#[derive(clap::ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Sort {
    /// Most waiters first
    Waiters,
    /// Most grants a second first
    Rate,
    /// Longest held first
    Held,
    /// By name
    Name,
}

impl Sort {
    pub(super) fn next(self) -> Self {
        match self {
            Self::Waiters => Self::Rate,
            Self::Rate => Self::Held,
            Self::Held => Self::Name,
            Self::Name => Self::Waiters,
        }
    }

    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Waiters => "waiters",
            Self::Rate => "rate",
            Self::Held => "time held",
            Self::Name => "name",
        }
    }
}

/// One lock, as the list shows it.
#[derive(Clone, Default, Debug)]
pub(super) struct Lock {
    pub(super) mode: Option<LockMode>,
    /// One of the holders, if it is known.
    pub(super) holder: Option<String>,
    token: Option<FencingToken>,
    pub(super) since: Option<SystemTime>,
    pub(super) holders: u64,
    pub(super) waiters: u64,
    closed_until: Option<Instant>,
    pub(super) rate: Rate,
}

impl Lock {
    fn is_free(&self, now: Instant) -> bool {
        self.holders == 0 && self.waiters == 0 && !self.is_closed(now)
    }

    pub(super) fn is_closed(&self, now: Instant) -> bool {
        self.closed_until.is_some_and(|until| until > now)
    }

    fn set(&mut self, view: &LockView, now: Instant) {
        let holder = view.holders.first();
        *self = Self {
            mode: view.mode,
            holder: holder.map(text::holder),
            token: holder.and_then(|holder| holder.fencing_token),
            since: holder.and_then(|holder| holder.acquired_at),
            holders: view.holder_count.max(view.holders.len() as u64),
            waiters: view.waiter_count,
            closed_until: view.closed_for.map(|time| now + time),
            rate: self.rate,
        };
    }

    fn change(&mut self, event: &LockEvent, now: Instant) {
        self.mode = event.mode;
        self.holders = event.holder_count;
        self.waiters = event.waiter_count;
        self.closed_until = event.closed_for.map(|time| now + time);
        let held = event.holder.as_ref();
        match event.kind {
            LockEventKind::Granted => {
                self.rate.count(now);
                self.holder = held.map(text::holder);
                self.token = event.fencing_token;
                self.since = held.and_then(|holder| holder.acquired_at).or(event.time);
            }
            LockEventKind::Released
            | LockEventKind::Expired
            | LockEventKind::Lost
            | LockEventKind::Forced
                if held.is_some() && self.token == event.fencing_token =>
            {
                (self.holder, self.token, self.since) = (None, None, None);
            }
            _ => {}
        }
        if self.holders == 0 {
            (self.holder, self.token, self.since) = (None, None, None);
        }
    }
}

/// Sums over all locks.
#[derive(Clone, Copy, PartialEq, Default, Debug)]
pub(super) struct Totals {
    pub(super) held: usize,
    pub(super) waiters: u64,
    pub(super) rate: f64,
}

/// The locks by name.
#[derive(Default, Debug)]
pub(super) struct Locks {
    by_name: HashMap<Arc<str>, Lock>,
    /// Grants of all locks, those that are not kept included.
    grants: Rate,
    /// Whether names were left out since the last snapshot.
    incomplete: bool,
    /// Whether there is nothing to forget before the next tidying.
    is_tidy: bool,
}

impl Locks {
    pub(super) fn get(&self, name: &str) -> Option<&Lock> {
        self.by_name.get(name)
    }

    pub(super) fn is_incomplete(&self) -> bool {
        self.incomplete
    }

    pub(super) fn show(&mut self, view: &LockView, now: Instant) {
        if let Some(lock) = self.entry(&view.name, now) {
            lock.set(view, now);
        }
    }

    pub(super) fn change(&mut self, event: &LockEvent, now: Instant) {
        if event.kind == LockEventKind::Granted {
            self.grants.count(now);
        }
        if let Some(lock) = self.entry(&event.name, now) {
            lock.change(event, now);
        }
    }

    /// Forgets the state of all locks, which a snapshot will bring anew, but not their rates.
    pub(super) fn doubt(&mut self) {
        for lock in self.by_name.values_mut() {
            *lock = Lock {
                rate: lock.rate,
                ..Lock::default()
            };
        }
        self.incomplete = false;
    }

    /// Forgets the locks that are free and were not granted of late.
    pub(super) fn tidy(&mut self, now: Instant) {
        self.is_tidy = false;
        self.by_name
            .retain(|_, lock| !lock.is_free(now) || lock.rate.at(now) >= FORGOTTEN);
    }

    /// Returns the lock of this name, or `None` if there is no room for it.
    fn entry(&mut self, name: &str, now: Instant) -> Option<&mut Lock> {
        if !self.by_name.contains_key(name) {
            if self.by_name.len() >= MOST && !self.is_tidy {
                // Many names that are held for a moment each must not keep out those that are held.
                self.by_name.retain(|_, lock| !lock.is_free(now));
                self.is_tidy = self.by_name.len() > MOST - MOST / 8;
            }
            if self.by_name.len() >= MOST {
                self.incomplete = true;
                return None;
            }
            self.by_name.insert(name.into(), Lock::default());
        }
        self.by_name.get_mut(name)
    }

    pub(super) fn totals(&self, now: Instant) -> Totals {
        let mut totals = Totals {
            rate: self.grants.at(now),
            ..Totals::default()
        };
        for lock in self.by_name.values() {
            totals.held += usize::from(lock.holders > 0);
            totals.waiters += lock.waiters;
        }
        totals
    }

    /// Returns the names of the locks that contain a text in their name or holder, in this order. Equals are in the order of
    /// their names, so that rows don't jump.
    pub(super) fn arranged(&self, sort: Sort, filter: &str, now: Now) -> Vec<Arc<str>> {
        let wanted = self.by_name.iter().filter(|(name, lock)| {
            let in_holder = || lock.holder.as_deref().is_some_and(|it| it.contains(filter));
            name.contains(filter) || in_holder()
        });
        let mut rows: Vec<(u64, &Arc<str>)> = wanted
            .map(|(name, lock)| {
                let heat = match sort {
                    Sort::Waiters => lock.waiters,
                    // In hundredths.
                    Sort::Rate => (lock.rate.at(now.instant) * 100.0) as u64,
                    Sort::Held => {
                        text::age(lock.since, now.wall).map_or(0, |age| age.as_millis() as u64 + 1)
                    }
                    Sort::Name => 0,
                };
                (heat, name)
            })
            .collect();
        rows.sort_unstable_by_key(|&(heat, name)| (Reverse(heat), name));
        rows.into_iter().map(|(_, name)| name.clone()).collect()
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.by_name.len()
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests fail by panicking")]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::top::input::made;

    fn names(locks: &Locks, sort: Sort, filter: &str, now: Now) -> Vec<String> {
        let arranged = locks.arranged(sort, filter, now);
        arranged.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn locks_are_in_the_order_that_is_asked_for() {
        let now = made::now();
        let mut locks = Locks::default();
        for (name, waiters, held) in [("a", 1, 5), ("b", 3, 50), ("c", 1, 500)] {
            let since = now.wall - Duration::from_secs(held);
            locks.show(&made::held(name, "worker", since, waiters), now.instant);
        }
        for _ in 0..9 {
            locks.change(&made::granted("c", "worker", now.wall), now.instant);
        }
        assert_eq!(names(&locks, Sort::Waiters, "", now), ["b", "a", "c"]);
        assert_eq!(names(&locks, Sort::Rate, "", now), ["c", "a", "b"]);
        assert_eq!(names(&locks, Sort::Held, "", now), ["b", "a", "c"]);
        assert_eq!(names(&locks, Sort::Name, "", now), ["a", "b", "c"]);
        assert_eq!(names(&locks, Sort::Name, "b", now), ["b"]);
        assert_eq!(names(&locks, Sort::Name, "orke", now).len(), 3);
    }

    #[test]
    fn a_lock_that_was_released_goes_when_its_rate_is_forgotten() {
        let now = made::now();
        let mut locks = Locks::default();
        locks.change(&made::granted("a", "worker", now.wall), now.instant);
        assert_eq!(locks.totals(now.instant).held, 1);
        locks.change(&made::released("a", "worker"), now.instant);
        assert_eq!(locks.get("a").unwrap().holder, None);
        locks.tidy(now.instant);
        assert_eq!(locks.len(), 1);
        locks.tidy(now.instant + Duration::from_secs(60));
        assert_eq!(locks.len(), 0);
    }

    #[test]
    fn a_holder_among_several_is_forgotten_when_it_leaves() {
        let now = made::now();
        let mut locks = Locks::default();
        locks.show(&made::held("a", "worker", now.wall, 0), now.instant);
        let mut left = made::released("a", "worker");
        left.holder_count = 2;
        locks.change(&left, now.instant);
        let lock = locks.get("a").unwrap();
        assert_eq!((lock.holders, lock.holder.as_deref()), (2, None));
    }

    #[test]
    fn memory_is_bounded_and_what_is_held_has_precedence() {
        let now = made::now();
        let mut locks = Locks::default();
        for number in 0..MOST {
            let name = format!("passing/{number}");
            locks.change(&made::granted(&name, "worker", now.wall), now.instant);
            locks.change(&made::released(&name, "worker"), now.instant);
        }
        assert_eq!(locks.len(), MOST);
        for number in 0..MOST + 100 {
            let name = format!("held/{number}");
            locks.change(&made::granted(&name, "worker", now.wall), now.instant);
        }
        assert_eq!(locks.len(), MOST);
        assert_eq!(locks.totals(now.instant).held, MOST);
        assert!(locks.is_incomplete());
    }

    #[test]
    fn doubt_keeps_rates_only() {
        let now = made::now();
        let mut locks = Locks::default();
        locks.change(&made::granted("a", "worker", now.wall), now.instant);
        locks.doubt();
        assert_eq!(locks.totals(now.instant).held, 0);
        assert!(locks.get("a").unwrap().rate.at(now.instant) > 0.0);
    }
}

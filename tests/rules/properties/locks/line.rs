//! Model of one name's queue, from the replies alone.

use std::collections::{HashMap, HashSet};

use leasehold_core::{
    command::{DEAD_AFTER, One, PLACES_KEPT, Reply},
    id::WaiterNumber,
    mode::{Limit, Mode},
    time::StoreTime,
};

use crate::locks::{
    history::{Asked, Deed, Event, Found, Owner},
    hold::Grant,
    modes::{chosen, fewest},
};

/// An acquire that waits.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Waiting {
    pub(crate) owner: Owner,
    pub(crate) mode: Mode,
    pub(crate) coordinator: usize,
    pub(crate) since: StoreTime,
    pub(crate) number: WaiterNumber,
}

/// Waiters of one name, in order of arrival, and the last sign of life of each coordinator.
#[derive(Clone, Debug, Default)]
pub(crate) struct Line {
    pub(crate) waiters: Vec<Waiting>,
    /// Limit of the first waiter that asked for permits since the line was empty.
    pub(crate) limit: Option<Limit>,
    /// Number of the last waiter that joined.
    last: u64,
    signs: HashMap<usize, StoreTime>,
    /// Coordinators of which a waiter was removed by force since their last refresh.
    pub(crate) has_lost: HashSet<usize>,
    /// The violations of the order.
    pub(crate) complaints: Vec<String>,
}

impl Line {
    /// Removes waiters whose coordinators have been silent for too long. After a step back of the clock nobody's
    /// silence has begun before now.
    pub(crate) fn pass(&mut self, now: StoreTime) {
        for sign in self.signs.values_mut() {
            *sign = now.min(*sign);
        }
        let signs = self.signs.clone();
        let is_gone = |by: &usize| {
            signs
                .get(by)
                .is_none_or(|sign| now >= sign.after(PLACES_KEPT))
        };
        self.has_lost.retain(|by| !is_gone(by));
        self.keep(|waiter| now < signs[&waiter.coordinator].after(PLACES_KEPT));
    }

    /// Enters an event and the grants that it made.
    pub(crate) fn enter(&mut self, event: &Event, asked: &[Asked], grants: &[Grant], found: Found) {
        let is_new = |owner| grants.iter().any(|grant| grant.hold.owner == owner);
        match (event.deed, &event.reply) {
            (Deed::Acquire(owner, true), Reply::Granted { .. }) if is_new(owner) => {
                self.join(owner, event, asked);
            }
            (Deed::Acquire(owner, _), Reply::Queued { .. }) => self.join(owner, event, asked),
            (Deed::Release(owner, _), Reply::Released { waited, .. }) => {
                let waits = self.position(owner).is_some();
                self.check(*waited == waits, "not told right whether it waits", event);
                self.keep(|waiter| waiter.owner != owner);
            }
            (Deed::ForceOne(One::Waiter(number)), Reply::Forced { former, .. }) => {
                let mut waiters = self.waiters.iter();
                let due = waiters.find(|waiter| waiter.number == number);
                let due = due.map(|waiter| waiter.owner);
                let told = former.iter().map(|former| Owner::of(&former.owner));
                self.check(told.eq(due), "another wait ended, or none", event);
                let due = self.waiters.iter().find(|waiter| waiter.number == number);
                self.has_lost.extend(due.map(|waiter| waiter.coordinator));
                self.keep(|waiter| waiter.number != number);
            }
            (Deed::Resume(resumption), reply) if *reply != Reply::Late => {
                let is_told = matches!(reply, Reply::ResumedWait { .. }) || is_new(resumption.next);
                let is_due = matches!(found, Found::Place(_));
                self.check(is_told == is_due, "a place resumed, or not", event);
                if let Found::Place(owner) = found {
                    self.resume(owner, resumption.next, event, asked);
                }
            }
            (Deed::Refresh(_), Reply::Refreshed { .. }) => {
                self.signs.insert(event.by, event.at);
                self.has_lost.remove(&event.by);
            }
            (Deed::Refresh(_), _) => {
                self.signs.insert(event.by, event.at);
            }
            _ => {}
        }
        for grant in grants {
            let owner = grant.hold.owner;
            let first = self.first_living(event.at).copied();
            match first {
                Some(first) => {
                    self.check(first.owner == owner, "out of turn", event);
                    let to_it = grant.hold.coordinator == first.coordinator;
                    self.check(to_it, "handed to another coordinator", event);
                }
                None => {
                    let asks = matches!(event.deed, Deed::Acquire(asks, false) if asks == owner);
                    self.check(asks, "nobody was to be granted it", event);
                }
            }
            self.keep(|waiter| waiter.owner != owner);
        }
        let place_of = match (event.deed, &event.reply) {
            (Deed::Acquire(owner, _), Reply::Queued { position, .. }) => Some((owner, position)),
            (Deed::Resume(resumption), Reply::ResumedWait { position, .. }) => {
                Some((resumption.next, position))
            }
            _ => None,
        };
        if let Some((owner, position)) = place_of {
            // The place is told as it is after the hand-offs that the acquire brought about.
            let place = self.position(owner).map(|place| place as u64);
            self.check(place == Some(*position), "told another place", event);
        }
        let waiters: Vec<Owner> = self.waiters.iter().map(|waiter| waiter.owner).collect();
        self.check(waiters == event.waiters(), "others wait", event);
    }

    /// Returns the waiters whose coordinators live.
    pub(crate) fn living(&self, now: StoreTime) -> impl Iterator<Item = &Waiting> {
        let lives =
            move |waiter: &&Waiting| now < self.signs[&waiter.coordinator].after(DEAD_AFTER);
        self.waiters.iter().filter(lives)
    }

    pub(crate) fn first_living(&self, now: StoreTime) -> Option<&Waiting> {
        self.living(now).next()
    }

    /// Returns the place of a waiter, 1 for the next.
    pub(crate) fn position(&self, owner: Owner) -> Option<usize> {
        let mut waiters = self.waiters.iter();
        Some(waiters.position(|waiter| waiter.owner == owner)? + 1)
    }

    pub(crate) fn get(&self, owner: Owner) -> Option<&Waiting> {
        self.waiters.iter().find(|waiter| waiter.owner == owner)
    }

    /// Moves a waiter to another stream; its place stays.
    fn resume(&mut self, owner: Owner, next: Owner, event: &Event, asked: &[Asked]) {
        self.signs.insert(event.by, event.at);
        let (before, after) = (asked[owner.0], asked[next.0]);
        let Some(waiter) = self.waiters.iter_mut().find(|w| w.owner == owner) else {
            return;
        };
        (waiter.owner, waiter.coordinator) = (next, event.by);
        // It may have been granted what is left at once: the ledger checks the number.
        let is_left = chosen(after.ask.mode).is_some_and(|left| left < waiter.mode.permits());
        let same_mode = waiter.mode == after.ask.mode
            || is_left && fewest(waiter.mode) == fewest(after.ask.mode);
        let same = same_mode
            && (before.actor, before.ask.lock_delay) == (after.actor, after.ask.lock_delay);
        self.check(same, "resumed as another", event);
    }

    fn join(&mut self, owner: Owner, event: &Event, asked: &[Asked]) {
        self.signs.insert(event.by, event.at);
        if self.position(owner).is_none() {
            let mode = asked[owner.0].ask.mode;
            self.limit = self.limit.or(mode.limit());
            self.last = match self.waiters.is_empty() {
                true => u64::try_from(event.at.as_micros()).unwrap(),
                false => self.last + 1,
            };
            self.waiters.push(Waiting {
                owner,
                mode,
                coordinator: event.by,
                since: event.at,
                number: WaiterNumber::new(self.last),
            });
        }
    }

    fn keep(&mut self, stays: impl FnMut(&Waiting) -> bool) {
        self.waiters.retain(stays);
        if self.waiters.is_empty() {
            self.limit = None;
            self.has_lost.clear();
        }
    }

    fn check(&mut self, holds: bool, complaint: &str, event: &Event) {
        if !holds {
            let complaint = format!(
                "{complaint}: {event:#?} while these wait: {:#?}",
                self.waiters
            );
            self.complaints.push(complaint);
        }
    }
}

//! One contended name: its waiters here, and its refresh.

use std::{
    collections::{BTreeMap, HashMap},
    hash::{Hash, Hasher},
    sync::Arc,
};

use super::Owners;
use crate::{command::Acquire, id::OwnerId, time::Moment};

/// One contended name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Contended {
    /// The time of the next refresh. It only moves nearer until then.
    pub(super) due: Moment,
    /// Whether waiters may be missing from the queue in the store although the oldest is not.
    pub(super) rejoin: bool,
    /// The waiters here, in the order in which they joined.
    waiters: BTreeMap<u64, Arc<Acquire>>,
    places: HashMap<OwnerId, u64>,
    refresh: Option<Refresh>,
}

/// A refresh under way.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Refresh {
    /// Distinguishes it from those of the name's former waiters.
    number: u64,
    /// Commands of it that have no answer yet.
    unanswered: usize,
    /// Whether the waiters join the queue again once all of them have one.
    join: bool,
    /// Whether another refresh follows at once.
    again: bool,
}

impl Contended {
    /// Returns a name without waiters.
    pub(super) fn new(due: Moment) -> Self {
        Self {
            due,
            rejoin: false,
            waiters: BTreeMap::new(),
            places: HashMap::new(),
            refresh: None,
        }
    }

    /// Adds a waiter after all others.
    pub(super) fn join(&mut self, number: u64, acquire: Arc<Acquire>) {
        self.places.insert(acquire.owner, number);
        self.waiters.insert(number, acquire);
    }

    /// Removes a waiter. Returns whether that was the last one.
    pub(super) fn leave(&mut self, owner: &OwnerId) -> bool {
        if let Some(place) = self.places.remove(owner) {
            self.waiters.remove(&place);
        }
        self.waiters.is_empty()
    }

    /// Returns a waiter.
    pub(super) fn waiter(&self, owner: &OwnerId) -> Option<&Arc<Acquire>> {
        self.waiters.get(self.places.get(owner)?)
    }

    /// Returns the waiters that have not been told of the end of their wait, in the order in which they joined.
    pub(super) fn waiting(&self, owners: &dyn Owners) -> impl Iterator<Item = &Arc<Acquire>> {
        let waiters = self.waiters.values();
        waiters.filter(|acquire| owners.waits(&acquire.owner))
    }

    /// Begins a refresh. Returns false if one is under way: then another one follows it.
    pub(super) fn begin_refresh(&mut self, number: u64) -> bool {
        if let Some(refresh) = &mut self.refresh {
            refresh.again = true;
            return false;
        }
        self.refresh = Some(Refresh {
            number,
            unanswered: 0,
            join: std::mem::take(&mut self.rejoin),
            again: false,
        });
        true
    }

    /// Counts a command of a refresh.
    pub(super) fn sent(&mut self, number: u64) {
        if let Some(refresh) = self.refresh(number) {
            refresh.unanswered += 1;
        }
    }

    /// Has the waiters join the queue again later in this refresh.
    pub(super) fn join_after(&mut self, number: u64) {
        if let Some(refresh) = self.refresh(number) {
            refresh.join = true;
        }
    }

    /// Puts off what this refresh was to do.
    pub(super) fn refresh_failed(&mut self, number: u64) {
        if let Some(refresh) = self.refresh(number) {
            let join = std::mem::take(&mut refresh.join);
            self.rejoin |= join;
        }
    }

    /// Counts an answer to a command of a refresh. Returns whether the waiters join the queue again now.
    pub(super) fn answered(&mut self, number: u64) -> bool {
        let Some(refresh) = self.refresh(number) else {
            return false;
        };
        refresh.unanswered -= 1;
        refresh.unanswered == 0 && std::mem::take(&mut refresh.join)
    }

    /// Ends the refresh if all of its commands are answered. Returns whether another one follows at once.
    pub(super) fn end_refresh(&mut self) -> bool {
        let ended = self.refresh.take_if(|refresh| refresh.unanswered == 0);
        ended.is_some_and(|refresh| refresh.again)
    }

    /// Returns whether a refresh of this number is under way.
    pub(super) fn is_refreshed(&self, number: u64) -> bool {
        let refresh = self.refresh.as_ref();
        refresh.is_some_and(|refresh| refresh.number == number)
    }

    /// Returns the refresh of this number, unless it is that of former waiters.
    fn refresh(&mut self, number: u64) -> Option<&mut Refresh> {
        let refresh = self.refresh.as_mut();
        refresh.filter(|refresh| refresh.number == number)
    }
}

impl Hash for Contended {
    /// Hashes the waiters in their order, but no number of a waiter or refresh.
    fn hash<H: Hasher>(&self, state: &mut H) {
        (self.due, self.rejoin, self.waiters.len()).hash(state);
        for acquire in self.waiters.values() {
            acquire.hash(state);
        }
        let refresh = self.refresh.as_ref();
        let refresh = refresh.map(|refresh| (refresh.unanswered, refresh.join, refresh.again));
        refresh.hash(state);
    }
}

//! Mirror of all watched locks, made from the store's reports.

use std::{
    collections::{BTreeMap, BTreeSet, HashSet},
    ops::Bound,
    time::Duration,
};

use super::{
    event::{Event, Leader, Telling},
    mirrored::{Events, Heard, Mirrored},
};
use crate::{
    name::LockName,
    time::{Moment, StoreTime},
    view::NameView,
};

/// Time after which the mirror looks again at a name, if the first look was neither reported nor has failed.
const LOST_LOOK: Duration = Duration::from_secs(5);

/// State of all watched locks at a coordinator, from the store's reports in order.
///
/// It has no clock of its own: `now` is the coordinator's, `at` the store's.
#[derive(Debug, Default)]
pub struct Mirror {
    locks: BTreeMap<LockName, Mirrored>,
    /// Time at which to look at each name; during a look, time at which to look again if that one is lost.
    due: BTreeSet<(Moment, LockName)>,
    due_of: BTreeMap<LockName, Moment>,
    looking: HashSet<LockName>,
}

impl Mirror {
    /// Applies an operation's report on a name, and returns the events that follow. Their numbers of waiters are those after
    /// the whole report.
    pub fn tell(
        &mut self,
        name: &LockName,
        at: StoreTime,
        telling: Telling,
        now: Moment,
    ) -> Vec<Event> {
        let heard = Heard { at, now };
        let mut events = Events {
            name,
            list: Vec::new(),
        };
        let lock = self.locks.entry(name.clone()).or_default();
        if let Some(count) = telling.waiter_count {
            lock.set_waiter_count(count);
        }
        for change in telling.changes {
            lock.change(change, heard, &mut events);
        }
        if let Some(view) = telling.looked {
            self.looking.remove(name);
            lock.look(*view, heard, &mut events);
        }
        self.schedule(name, now);
        events.list
    }

    /// Returns the names to look at now, at most `most`. Returns each once, until a look at it is reported or has
    /// [failed](Self::look_failed).
    pub fn due(&mut self, now: Moment, most: usize) -> Vec<LockName> {
        let mut names = Vec::new();
        while names.len() < most
            && let Some((at, name)) = self.due.first().cloned()
            && at <= now
        {
            self.unschedule(&name);
            self.due_at(&name, now.after(LOST_LOOK));
            self.looking.insert(name.clone());
            names.push(name);
        }
        names
    }

    /// Returns when to look at the next name.
    pub fn next_due(&self) -> Option<Moment> {
        self.due.first().map(|(at, _)| *at)
    }

    /// Notes that a look failed, and must be made again at that time.
    pub fn look_failed(&mut self, name: &LockName, again: Moment) {
        if self.looking.remove(name) {
            self.unschedule(name);
            self.due_at(name, again);
        }
    }

    /// Returns the locks that begin with a prefix, in the order of their names, after one of them: at most `most`.
    pub fn page(
        &self,
        prefix: &str,
        after: Option<&LockName>,
        most: usize,
        now: Moment,
    ) -> Vec<(LockName, NameView)> {
        let start = match after {
            Some(name) => Bound::Excluded(name.as_str()),
            None => Bound::Included(prefix),
        };
        self.locks
            .range::<str, _>((start, Bound::Unbounded))
            .take_while(|(name, _)| name.as_str().starts_with(prefix))
            .take(most)
            .map(|(name, lock)| (name.clone(), lock.view(now)))
            .collect()
    }

    /// Returns the leader of the election of this name.
    pub fn leader(&self, name: &LockName) -> Option<Leader> {
        let hold = self.locks.get(name)?.exclusive()?;
        Some(Leader(hold.clone()))
    }

    /// Returns how many locks it knows.
    pub fn len(&self) -> usize {
        self.locks.len()
    }

    /// Returns whether it knows none.
    pub fn is_empty(&self) -> bool {
        self.locks.is_empty()
    }

    /// Forgets the locks that are no longer watched.
    pub fn retain(&mut self, is_watched: impl Fn(&LockName) -> bool) {
        self.locks.retain(|name, _| is_watched(name));
        self.looking.retain(&is_watched);
        let gone: Vec<LockName> = self
            .due_of
            .keys()
            .filter(|name| !is_watched(name))
            .cloned()
            .collect();
        for name in gone {
            self.unschedule(&name);
        }
    }

    /// Forgets one lock that is no longer watched.
    pub fn forget(&mut self, name: &LockName) {
        self.locks.remove(name);
        self.looking.remove(name);
        self.unschedule(name);
    }

    fn schedule(&mut self, name: &LockName, now: Moment) {
        let Some(due) = self.locks.get(name).and_then(|lock| lock.due(now)) else {
            return self.forget(name);
        };
        if !self.looking.contains(name) {
            self.unschedule(name);
            self.due_at(name, due);
        }
    }

    fn due_at(&mut self, name: &LockName, at: Moment) {
        self.due.insert((at, name.clone()));
        self.due_of.insert(name.clone(), at);
    }

    fn unschedule(&mut self, name: &LockName) {
        if let Some(at) = self.due_of.remove(name) {
            self.due.remove(&(at, name.clone()));
        }
    }
}

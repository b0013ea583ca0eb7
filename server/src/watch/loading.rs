//! Scopes of watchers and observers, and how far each is loaded: its locks are listed, and the store looks at each.

use std::{
    collections::{BTreeMap, HashSet, btree_map::Entry},
    sync::Arc,
    time::Duration,
};

use leasehold_core::{name::LockName, time::Moment};
use leasehold_store::Subject;

/// Time within which the feed must report a look.
const TOLD_WITHIN: Duration = Duration::from_secs(5);
/// Pause before a retry.
pub(super) const RETRY: Duration = Duration::from_millis(250);

/// Scope of a watcher or observer.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Scope {
    /// All locks whose names begin with this.
    Prefix(Arc<str>),
    /// One lock.
    Name(LockName),
}

/// All scopes with their phases. Prefixes come first, of which there are few.
#[derive(Debug, Default)]
pub(super) struct Scopes(BTreeMap<Scope, Phase>);

impl Scopes {
    /// Adds a scope to be loaded; returns false if it exists already.
    pub(super) fn add(&mut self, scope: Scope) -> bool {
        match self.0.entry(scope) {
            Entry::Vacant(entry) => {
                entry.insert(Phase::waiting());
                true
            }
            Entry::Occupied(_) => false,
        }
    }

    pub(super) fn remove(&mut self, scope: &Scope) {
        self.0.remove(scope);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn contains(&self, scope: &Scope) -> bool {
        self.0.contains_key(scope)
    }

    pub(super) fn get_mut(&mut self, scope: &Scope) -> Option<&mut Phase> {
        self.0.get_mut(scope)
    }

    pub(super) fn is_ready(&self, scope: &Scope) -> bool {
        matches!(self.0.get(scope), Some(Phase::Ready))
    }

    /// Returns the scopes that need a subject.
    pub(super) fn of(&self, subject: &Subject) -> Vec<Scope> {
        match subject {
            Subject::Everything => self.prefixes().map(|(_, scope, _)| scope.clone()).collect(),
            Subject::Name(name) => {
                let scope = Scope::Name(name.clone());
                self.contains(&scope).then_some(scope).into_iter().collect()
            }
        }
    }

    /// Returns the scopes whose time to act has come.
    pub(super) fn woken(&self, now: Moment) -> Vec<Scope> {
        let all = self.0.iter();
        let woken = all.filter(|(_, phase)| phase.wake_at().is_some_and(|at| at <= now));
        woken.map(|(scope, _)| scope.clone()).collect()
    }

    /// Returns the earliest time to act on a scope.
    pub(super) fn wake_at(&self) -> Option<Moment> {
        self.0.values().filter_map(Phase::wake_at).min()
    }

    /// Makes all scopes load again, and returns them.
    pub(super) fn start_over(&mut self) -> Vec<Scope> {
        let all = self.0.iter_mut().map(|(scope, phase)| {
            *phase = Phase::waiting();
            scope.clone()
        });
        all.collect()
    }

    pub(super) fn have_prefixes(&self) -> bool {
        matches!(self.0.first_key_value(), Some((Scope::Prefix(_), _)))
    }

    /// Returns whether a name is watched.
    pub(super) fn cover(&self, name: &LockName) -> bool {
        self.covering(name).next().is_some()
    }

    /// Returns whether to process changes of a name: not before the feed follows it.
    pub(super) fn hear(&self, name: &LockName) -> bool {
        self.covering(name).any(|(_, phase)| phase.is_heard())
    }

    /// Notes a reported look at a name. Returns the scopes that are complete now.
    pub(super) fn told(&mut self, name: &LockName) -> Vec<Scope> {
        let scopes = self.covering(name).map(|(scope, _)| scope.clone());
        let mut scopes: Vec<Scope> = scopes.collect();
        scopes.retain(|scope| self.0.get_mut(scope).is_some_and(|phase| phase.told(name)));
        scopes
    }

    /// Returns the scopes that contain a name.
    fn covering(&self, name: &LockName) -> impl Iterator<Item = (&Scope, &Phase)> {
        let of_prefix = self
            .prefixes()
            .filter(|(prefix, ..)| name.as_str().starts_with(*prefix));
        let of_name = self.0.get_key_value(&Scope::Name(name.clone()));
        of_prefix
            .map(|(_, scope, phase)| (scope, phase))
            .chain(of_name)
    }

    fn prefixes(&self) -> impl Iterator<Item = (&str, &Scope, &Phase)> {
        self.0.iter().map_while(|(scope, phase)| match scope {
            Scope::Prefix(prefix) => Some((&**prefix, scope, phase)),
            Scope::Name(_) => None,
        })
    }
}

/// Phase of a scope.
#[derive(Debug)]
pub(super) enum Phase {
    /// It waits until the feed follows it, or until the time of a retry.
    Waiting { not_before: Option<Moment> },
    /// Its locks are being looked at.
    Loading {
        /// The number of this attempt, among those of all scopes.
        attempt: u64,
        /// The names whose looks were reported.
        told: HashSet<LockName>,
        /// The names whose looks are not reported yet, once all names are known.
        missing: Option<HashSet<LockName>>,
        /// The time at which looks that are not reported count as lost.
        until: Option<Moment>,
    },
    /// The mirror has its whole state.
    Ready,
}

impl Phase {
    pub(super) const fn waiting() -> Self {
        Self::Waiting { not_before: None }
    }

    pub(super) fn loading(attempt: u64) -> Self {
        Self::Loading {
            attempt,
            told: HashSet::new(),
            missing: None,
            until: None,
        }
    }

    pub(super) fn is_attempt(&self, number: u64) -> bool {
        matches!(self, Self::Loading { attempt, .. } if *attempt == number)
    }

    /// Returns whether it is to be loaded now.
    pub(super) fn is_due(&self, now: Moment) -> bool {
        matches!(self, Self::Waiting { not_before } if not_before.is_none_or(|at| at <= now))
    }

    /// Returns the time to act on it even if nothing happens.
    const fn wake_at(&self) -> Option<Moment> {
        match self {
            Self::Waiting { not_before } => *not_before,
            Self::Loading { until, .. } => *until,
            Self::Ready => None,
        }
    }

    /// Returns whether changes in the scope are reported and processed.
    const fn is_heard(&self) -> bool {
        !matches!(self, Self::Waiting { not_before: None })
    }

    /// Returns whether its missing looks count as lost.
    pub(super) fn is_overdue(&self, now: Moment) -> bool {
        matches!(self, Self::Loading { until: Some(until), .. } if *until <= now)
    }

    /// Notes a reported look at one of its names. Returns true if that was the last one missing.
    fn told(&mut self, name: &LockName) -> bool {
        let Self::Loading { told, missing, .. } = self else {
            return false;
        };
        match missing {
            None => {
                told.insert(name.clone());
                false
            }
            Some(missing) => missing.remove(name) && missing.is_empty(),
        }
    }

    /// Notes that these are all names that were looked at. Returns true if all of those looks were reported.
    pub(super) fn looked(&mut self, number: u64, names: HashSet<LockName>, now: Moment) -> bool {
        let Self::Loading {
            attempt,
            told,
            missing,
            until,
        } = self
        else {
            return false;
        };
        if *attempt != number {
            return false;
        }
        let left: HashSet<LockName> = names
            .into_iter()
            .filter(|name| !told.contains(name))
            .collect();
        *told = HashSet::new();
        let is_complete = left.is_empty();
        *until = Some(now.after(TOLD_WITHIN));
        *missing = Some(left);
        is_complete
    }
}

//! Loading of a watched scope: its locks are listed, and the store looks at each.

use std::{
    collections::{BTreeMap, HashSet, btree_map::Entry},
    sync::Arc,
    time::Duration,
};

use leasehold_core::{
    command::{Op, Reply},
    id::FeedId,
    name::LockName,
    time::Moment,
};
use leasehold_store::{LockStore, StoreError, Subject};

use crate::coordinator::Coordinator;

/// How many names are looked at in one go.
pub(super) const LOOKS: usize = 256;
/// How long what was looked at may take to be told.
const TOLD_WITHIN: Duration = Duration::from_secs(5);
/// How long to wait before what failed is tried again.
pub(super) const RETRY: Duration = Duration::from_millis(250);

/// What is watched.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Scope {
    /// All locks whose names begin with this.
    Prefix(Arc<str>),
    /// One lock.
    Name(LockName),
}

/// All scopes, and how far each is. Prefixes come first, of which there are few.
#[derive(Debug, Default)]
pub(super) struct Scopes(BTreeMap<Scope, Phase>);

impl Scopes {
    /// Adds one that is to be loaded; false if it is there already.
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

    /// Those that need a subject.
    pub(super) fn of(&self, subject: &Subject) -> Vec<Scope> {
        match subject {
            Subject::Everything => self.prefixes().map(|(_, scope, _)| scope.clone()).collect(),
            Subject::Name(name) => {
                let scope = Scope::Name(name.clone());
                self.contains(&scope).then_some(scope).into_iter().collect()
            }
        }
    }

    /// Those that something has to be done about by now.
    pub(super) fn woken(&self, now: Moment) -> Vec<Scope> {
        let all = self.0.iter();
        let woken = all.filter(|(_, phase)| phase.wake_at().is_some_and(|at| at <= now));
        woken.map(|(scope, _)| scope.clone()).collect()
    }

    /// When something has to be done about the first of them.
    pub(super) fn wake_at(&self) -> Option<Moment> {
        self.0.values().filter_map(Phase::wake_at).min()
    }

    /// All are to be loaded again; gives them.
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

    /// Whether a name is watched.
    pub(super) fn cover(&self, name: &LockName) -> bool {
        self.covering(name).next().is_some()
    }

    /// Whether what is told of a name is to be taken in: not before that name is followed, and all before was looked at.
    pub(super) fn hear(&self, name: &LockName) -> bool {
        self.covering(name).any(|(_, phase)| phase.is_heard())
    }

    /// A look at a name was told. Gives the scopes that are known by it.
    pub(super) fn told(&mut self, name: &LockName) -> Vec<Scope> {
        let scopes = self.covering(name).map(|(scope, _)| scope.clone());
        let mut scopes: Vec<Scope> = scopes.collect();
        scopes.retain(|scope| self.0.get_mut(scope).is_some_and(|phase| phase.told(name)));
        scopes
    }

    /// Those that a name is in.
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

/// How far a scope is.
#[derive(Debug)]
pub(super) enum Phase {
    /// It has to be followed first, or to be tried again from that moment on.
    Waiting { not_before: Option<Moment> },
    /// Its locks are being looked at.
    Loading {
        /// Which attempt it is, among all.
        attempt: u64,
        /// Those whose looks have been told.
        told: HashSet<LockName>,
        /// Those that were looked at, once that is known, and have not been told.
        missing: Option<HashSet<LockName>>,
        /// Those that have not been told by then will not be.
        until: Option<Moment>,
    },
    /// All that happens to it is in the mirror.
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

    /// Whether it is to be loaded by now.
    pub(super) fn is_due(&self, now: Moment) -> bool {
        matches!(self, Self::Waiting { not_before } if not_before.is_none_or(|at| at <= now))
    }

    /// When something has to be done about it though nothing happens.
    const fn wake_at(&self) -> Option<Moment> {
        match self {
            Self::Waiting { not_before } => *not_before,
            Self::Loading { until, .. } => *until,
            Self::Ready => None,
        }
    }

    /// Whether what happens in the scope is told, and taken in.
    const fn is_heard(&self) -> bool {
        !matches!(self, Self::Waiting { not_before: None })
    }

    /// Whether the rest of what it misses will not come any more.
    pub(super) fn is_overdue(&self, now: Moment) -> bool {
        matches!(self, Self::Loading { until: Some(until), .. } if *until <= now)
    }

    /// A look at one of its names was told. True if that was the last one missing.
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

    /// These names have been looked at, all that there are. True if all of those looks have been told.
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

/// Lists the locks of a scope, and has the store look at each. Gives those that were looked at; what happens to one before
/// its look is told is of no concern, and all after is told anyway.
pub(super) async fn load(
    coordinator: Coordinator,
    feed: FeedId,
    scope: Scope,
) -> Result<HashSet<LockName>, StoreError> {
    let mut looked = HashSet::new();
    let prefix = match scope {
        Scope::Name(name) => {
            look(&coordinator, feed, vec![name], &mut looked).await?;
            return Ok(looked);
        }
        Scope::Prefix(prefix) => prefix,
    };
    let mut token = String::new();
    loop {
        let page = coordinator.store().list(&prefix, &token, LOOKS).await?;
        let page = page.map_err(|invalid| StoreError::Garbled {
            reason: format!("the store does not know its own page token: it {invalid}"),
        })?;
        // A scan may give a name twice, and more than was asked for.
        let mut names: Vec<_> = page
            .names
            .into_iter()
            .filter(|name| !looked.contains(name))
            .collect();
        names.sort_unstable();
        names.dedup();
        for names in names.chunks(LOOKS) {
            look(&coordinator, feed, names.to_vec(), &mut looked).await?;
        }
        if page.next.is_empty() {
            return Ok(looked);
        }
        token = page.next;
    }
}

async fn look(
    coordinator: &Coordinator,
    feed: FeedId,
    names: Vec<LockName>,
    looked: &mut HashSet<LockName>,
) -> Result<(), StoreError> {
    for (name, result) in look_at(coordinator, feed, names).await {
        match result {
            Ok(()) => {
                looked.insert(name);
            }
            // Somebody else's keys stand where its companions should: nothing can be told of it.
            Err(StoreError::WrongType { .. }) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Has the store look at names.
pub(super) async fn look_at(
    coordinator: &Coordinator,
    feed: FeedId,
    names: Vec<LockName>,
) -> Vec<(LockName, Result<(), StoreError>)> {
    let commands = names
        .iter()
        .map(|name| coordinator.command(name.clone(), Op::Look { feed }))
        .collect();
    let results = coordinator.store().execute_all(commands).await;
    let results = results
        .into_iter()
        .map(|result| match result?.executed.reply {
            Reply::Looked => Ok(()),
            // The feed has just been closed, or nobody may ask who listens, or publish.
            Reply::Unheard => Err(StoreError::Refused {
                reason: "nobody hears what is published; its user needs the rights that docs/watching.md names"
                    .into(),
            }),
            _ => Err(StoreError::Garbled {
                reason: "the reply to look is that of another operation".into(),
            }),
        });
    names.into_iter().zip(results).collect()
}

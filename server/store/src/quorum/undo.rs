//! Undo of a failed acquire on the masters that granted it.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use leasehold_core::{id::OwnerId, name::LockName, time::Moment};

use super::{
    master::Outcome,
    round::{Masters, Round},
    script::{Ask, Said},
};
use crate::clock;

/// Effect of the first round at a master.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// The key is not set, or nothing was sent.
    Nothing,
    /// The key is set.
    Set,
    /// The key may be set, now or later.
    Unknown,
}

impl Fate {
    /// Returns the effect that follows from the outcome of the question.
    pub(super) fn of(outcome: &Outcome) -> Self {
        match outcome {
            Outcome::Said { reply, .. } => match reply.said {
                Said::Proposed { .. } => Self::Set,
                _ => Self::Nothing,
            },
            Outcome::Unsent(_) => Self::Nothing,
            Outcome::Unknown(_) | Outcome::Failed(_) => Self::Unknown,
        }
    }
}

/// Tokens of failed attempts that are still being undone, by owner id. A grant to the same owner id with such a token would be
/// undone as well.
#[derive(Debug, Default)]
pub(super) struct Undoing(Mutex<HashMap<OwnerId, Written>>);

#[derive(Debug, Default)]
struct Written {
    highest: i64,
    /// Number of attempts that are being undone.
    attempts: usize,
}

impl Undoing {
    fn all(&self) -> MutexGuard<'_, HashMap<OwnerId, Written>> {
        // A panic elsewhere can't leave it torn: each use is one step.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the largest token of an owner id.
    pub(super) fn of(&self, owner: &OwnerId) -> Option<i64> {
        self.all().get(owner).map(|written| written.highest)
    }

    fn begin(&self, owner: OwnerId, token: i64) {
        let mut all = self.all();
        let written = all.entry(owner).or_default();
        written.highest = written.highest.max(token);
        written.attempts += 1;
    }

    fn end(&self, owner: &OwnerId) {
        let mut all = self.all();
        if let Some(written) = all.get_mut(owner) {
            written.attempts -= 1;
            if written.attempts == 0 {
                all.remove(owner);
            }
        }
    }
}

/// Attempt that is being undone, until no master owes that any more.
pub(super) struct Undone {
    masters: Arc<Masters>,
    owner: OwnerId,
}

impl Drop for Undone {
    fn drop(&mut self) {
        self.masters.undoing.end(&self.owner);
    }
}

impl Masters {
    /// Notes that a token, if one was written back, is to be undone; `None` if it is 0: then no grant is in danger.
    pub(super) fn undone(self: &Arc<Self>, owner: OwnerId, token: i64) -> Option<Arc<Undone>> {
        if token == 0 {
            return None;
        }
        self.undoing.begin(owner, token);
        let masters = Arc::clone(self);
        Some(Arc::new(Undone { masters, owner }))
    }

    /// Undoes an attempt at every master, in the background, also at those that have not answered yet.
    pub(super) fn undo(
        self: &Arc<Self>,
        name: &LockName,
        undo: Ask,
        undone: Option<Arc<Undone>>,
        gone_at: Moment,
        mut fates: Vec<Fate>,
        mut first: Round,
    ) {
        if fates.iter().all(|fate| *fate == Fate::Nothing) {
            return;
        }
        // At once at masters that are known to need it: before the next try.
        let is_set = |place: usize| fates.get(place) == Some(&Fate::Set);
        let mut taken_back = self.ask_some(name, undo.clone(), is_set);
        let question = self.question(name, undo);
        let masters = Arc::clone(self);
        tokio::spawn(async move {
            let now = clock::now();
            while let Some(answer) = taken_back.next().await {
                if matches!(answer.outcome, Outcome::Said { .. })
                    && let Some(fate) = fates.get_mut(answer.from)
                {
                    *fate = Fate::Nothing;
                }
            }
            for (place, fate) in fates.iter_mut().enumerate() {
                if *fate == Fate::Set {
                    *fate = Fate::Nothing;
                    masters.owe(place, Arc::clone(&question), now, gone_at, undone.clone());
                }
            }
            while let Some(answer) = first.next().await {
                if let Some(fate) = fates.get_mut(answer.from) {
                    *fate = Fate::of(&answer.outcome);
                }
            }
            for (place, fate) in fates.into_iter().enumerate() {
                let not_before = match fate {
                    Fate::Nothing => continue,
                    Fate::Set => now,
                    // After this time, a master ignores the first round.
                    Fate::Unknown => first.until(),
                };
                masters.owe(
                    place,
                    Arc::clone(&question),
                    not_before,
                    gone_at,
                    undone.clone(),
                );
            }
        });
    }
}

//! Candidacies of a session, at most one for each election: a second one would wait behind the first.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError},
};

use crate::{
    clock::Moment,
    guard::LockWatch,
    lease::LockState,
    planted::{Fault, is_planted},
};

/// Elections for which a session campaigns, or which it leads. Cheap to clone; clones are the same set.
#[derive(Clone, Default)]
pub(crate) struct Candidacies(Arc<Mutex<Terms>>);

type Terms = HashMap<Arc<str>, Arc<Term>>;

/// Leadership of a candidacy, once it is elected.
type Term = OnceLock<LockWatch>;

/// Candidacy of one election. The session may campaign again once this is dropped, or its leadership is lost.
pub(crate) struct Candidacy {
    all: Candidacies,
    election: Arc<str>,
    term: Arc<Term>,
}

impl Candidacies {
    /// Begins a candidacy; `None` if the session has one that waits, leads or is suspended.
    pub(crate) fn begin(&self, now: Moment, election: Arc<str>) -> Option<Candidacy> {
        let mut terms = self.lock();
        let is_candidate = terms.get(&election).is_some_and(|term| !is_over(term, now));
        if is_candidate && !is_planted(Fault::SecondCandidacy) {
            return None;
        }
        let term = Arc::<Term>::default();
        terms.insert(Arc::clone(&election), Arc::clone(&term));
        drop(terms);
        let all = self.clone();
        Some(Candidacy {
            all,
            election,
            term,
        })
    }

    fn lock(&self) -> MutexGuard<'_, Terms> {
        // No code that holds it can panic half-way.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns whether a candidacy was elected and has lost its leadership.
fn is_over(term: &Term, now: Moment) -> bool {
    term.get()
        .is_some_and(|watch| matches!(watch.lease().state(now), LockState::Lost(_)))
}

impl Candidacy {
    /// Notes that it was elected.
    pub(crate) fn elected(&self, watch: LockWatch) {
        // It is elected once.
        self.term.set(watch).ok();
    }
}

impl Drop for Candidacy {
    fn drop(&mut self) {
        let mut terms = self.all.lock();
        let term = terms.get(&self.election);
        // After a loss the session may have begun another one.
        if term.is_some_and(|term| Arc::ptr_eq(term, &self.term)) {
            terms.remove(&self.election);
        }
    }
}

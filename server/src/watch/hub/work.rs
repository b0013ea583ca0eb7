//! Work of the hub at the store: loads the locks of a scope, and later looks at those that may have expired.

use leasehold_core::time::Moment;
use leasehold_store::{StoreError, Subject, clock};

use super::{BATCHES, Done, Hub, WARN_EVERY};
use crate::watch::loading::{self, LOOKS, Phase, RETRY, Scope};

impl Hub {
    pub(super) fn load_subject(&mut self, subject: &Subject) {
        for scope in self.scopes.of(subject) {
            self.load(&scope);
        }
    }

    /// Loads a scope, if it is due and the feed follows it.
    pub(super) fn load(&mut self, scope: &Scope) {
        let (now, attempt) = (clock::now(), self.attempts + 1);
        let follows = self.following.surely_follows(scope);
        let phase = self
            .scopes
            .get_mut(scope)
            .filter(|phase| follows && phase.is_due(now));
        let Some((phase, feed)) = phase.zip(self.following.id()) else {
            return;
        };
        self.attempts = attempt;
        *phase = Phase::loading(attempt);
        let (coordinator, scope) = (self.coordinator.clone(), scope.clone());
        self.work.push(Box::pin(async move {
            let result = loading::load(coordinator, feed, scope.clone()).await;
            Done::Loaded {
                attempt,
                scope,
                result,
            }
        }));
    }

    pub(super) fn on_done(&mut self, done: Done) {
        match done {
            Done::Loaded {
                attempt,
                scope,
                result,
            } => {
                let Some(phase) = self.scopes.get_mut(&scope) else {
                    return;
                };
                let now = clock::now();
                match result {
                    Ok(names) => {
                        if phase.looked(attempt, names, now) {
                            self.ready(&scope);
                        }
                    }
                    Err(error) if phase.is_attempt(attempt) => {
                        *phase = Phase::Waiting {
                            not_before: Some(now.after(RETRY)),
                        };
                        self.warn(&error, now);
                    }
                    Err(_) => {}
                }
                self.wake_at = self.scopes.wake_at();
            }
            Done::Looked(results) => {
                self.looks_in_flight -= 1;
                let again = clock::now().after(RETRY);
                for (name, result) in results {
                    if result.is_err() {
                        self.mirror.look_failed(&name, again);
                    }
                }
            }
        }
    }

    /// Logs now and then why no events come.
    fn warn(&mut self, error: &StoreError, now: Moment) {
        if self.warn_from <= now {
            self.warn_from = now.after(WARN_EVERY);
            tracing::warn!(%error, "failed to look at watched locks; trying again");
        }
    }

    pub(super) fn on_time(&mut self, now: Moment) {
        if self.wake_at.is_some_and(|at| at <= now) {
            self.see_to_scopes(now);
        }
        let Some(feed) = self.following.id() else {
            return;
        };
        while self.looks_in_flight < BATCHES {
            let names = self.mirror.due(now, LOOKS);
            if names.is_empty() {
                break;
            }
            self.looks_in_flight += 1;
            let coordinator = self.coordinator.clone();
            self.work.push(Box::pin(async move {
                Done::Looked(loading::look_at(&coordinator, feed, names).await)
            }));
        }
    }

    /// Loads scopes that could not be loaded before, and gives up looks that were not reported in time.
    fn see_to_scopes(&mut self, now: Moment) {
        for scope in self.scopes.woken(now) {
            let is_overdue = |phase: &mut Phase| phase.is_overdue(now);
            if self.scopes.get_mut(&scope).is_some_and(is_overdue) {
                tracing::warn!(
                    "the store did not report all watched locks in time; going on without"
                );
                self.ready(&scope);
            } else {
                self.load(&scope);
            }
        }
        self.wake_at = self.scopes.wake_at();
    }

    /// Returns the time of the next timer.
    pub(super) fn next_wake(&self) -> Option<Moment> {
        let look = self
            .mirror
            .next_due()
            .filter(|_| self.looks_in_flight < BATCHES);
        self.wake_at.into_iter().chain(look).min()
    }
}

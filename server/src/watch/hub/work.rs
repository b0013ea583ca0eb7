//! Loads of scopes, and looks at locks that may have expired.

use std::{collections::HashSet, time::Duration};

use leasehold_core::{name::LockName, time::Moment};
use leasehold_store::{StoreError, Subject};

use super::{Hub, LOOKS};
use crate::watch::{
    loading::{Phase, RETRY, Scope},
    output::Output,
};

/// Shortest interval between warnings that a look failed.
const WARN_EVERY: Duration = Duration::from_secs(10);
/// Most batches of looks that are in flight.
const BATCHES: usize = 4;

impl Hub {
    pub(super) fn load_subject(&mut self, subject: &Subject, now: Moment) {
        for scope in self.scopes.of(subject) {
            self.load(&scope, now);
        }
    }

    /// Loads a scope, if it is due and the feed follows it.
    pub(super) fn load(&mut self, scope: &Scope, now: Moment) {
        let attempt = self.attempts + 1;
        let follows = self.following.surely_follows(scope);
        let phase = self.scopes.get_mut(scope);
        let Some(phase) = phase.filter(|phase| follows && phase.is_due(now)) else {
            return;
        };
        self.attempts = attempt;
        *phase = Phase::loading(attempt);
        let scope = scope.clone();
        self.outputs.push_back(Output::Load { attempt, scope });
    }

    /// Takes in what a load has found: the names that the store looked at.
    pub fn on_loaded(
        &mut self,
        attempt: u64,
        scope: &Scope,
        result: Result<HashSet<LockName>, StoreError>,
        now: Moment,
    ) {
        let Some(phase) = self.scopes.get_mut(scope) else {
            return;
        };
        match result {
            Ok(names) => {
                if phase.looked(attempt, names, now) {
                    self.ready(scope, now);
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

    /// Takes in which looks were carried out.
    pub fn on_looked(&mut self, results: Vec<(LockName, Result<(), StoreError>)>, now: Moment) {
        self.looks_in_flight -= 1;
        let again = now.after(RETRY);
        for (name, result) in results {
            if result.is_err() {
                self.mirror.look_failed(&name, again);
            }
        }
    }

    /// Logs now and then why no events come.
    fn warn(&mut self, error: &StoreError, now: Moment) {
        if self.warn_from.is_none_or(|from| from <= now) {
            self.warn_from = Some(now.after(WARN_EVERY));
            tracing::warn!(%error, "failed to look at watched locks; trying again");
        }
    }

    /// Does what is due.
    pub fn handle_timeout(&mut self, now: Moment) {
        if self.wake_at.is_some_and(|at| at <= now) {
            self.see_to_scopes(now);
        }
        if !self.following.is_open() {
            return;
        }
        while self.looks_in_flight < BATCHES {
            let names = self.mirror.due(now, LOOKS);
            if names.is_empty() {
                break;
            }
            self.looks_in_flight += 1;
            self.outputs.push_back(Output::Look(names));
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
                self.ready(&scope, now);
            } else {
                self.load(&scope, now);
            }
        }
        self.wake_at = self.scopes.wake_at();
    }

    /// Returns when to call [`handle_timeout`](Self::handle_timeout) unless something else happens before.
    pub fn next_timeout(&self) -> Option<Moment> {
        let look = self
            .mirror
            .next_due()
            .filter(|_| self.looks_in_flight < BATCHES);
        self.wake_at.into_iter().chain(look).min()
    }
}

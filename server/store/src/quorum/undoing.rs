//! Tokens of failed attempts that are still being undone.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use leasehold_core::id::OwnerId;

/// Tokens of failed attempts that are still being undone, by owner id. A grant to the same owner id with such a token would be
/// undone as well.
#[derive(Clone, Debug, Default)]
pub(super) struct Undoing(Arc<Mutex<HashMap<OwnerId, Vec<i64>>>>);

/// Attempt that is being undone, until no master owes that any more.
pub(super) struct Undone {
    all: Undoing,
    owner: OwnerId,
    token: i64,
}

impl Undoing {
    fn all(&self) -> MutexGuard<'_, HashMap<OwnerId, Vec<i64>>> {
        // A panic elsewhere can't leave it torn: each use is one step.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the largest token of an owner id.
    pub(super) fn of(&self, owner: &OwnerId) -> Option<i64> {
        self.all().get(owner)?.iter().copied().max()
    }

    /// Notes that a token, if one was written back, is to be undone; `None` if it is 0: then no grant is in danger.
    pub(super) fn begin(&self, owner: OwnerId, token: i64) -> Option<Arc<Undone>> {
        if token == 0 {
            return None;
        }
        self.all().entry(owner).or_default().push(token);
        let all = self.clone();
        Some(Arc::new(Undone { all, owner, token }))
    }
}

impl Drop for Undone {
    fn drop(&mut self) {
        let mut all = self.all.all();
        if let Some(tokens) = all.get_mut(&self.owner) {
            if let Some(at) = tokens.iter().position(|token| *token == self.token) {
                tokens.swap_remove(at);
            }
            if tokens.is_empty() {
                all.remove(&self.owner);
            }
        }
    }
}

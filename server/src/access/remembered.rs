//! Cache of signed tokens that were verified recently, by their hashes. A hit costs no signature check, so that a known caller
//! is admitted whatever others at its address send.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

use super::{jwt::Subject, tokens::TokenHash};

/// Number of the newest tokens that are surely remembered. At most twice as many are kept.
const KEPT: usize = 2048;

/// Tokens that one set of keys has verified.
#[derive(Debug, Default)]
pub(super) struct Remembered(Mutex<Shelves>);

#[derive(Debug, Default)]
struct Shelves {
    recent: HashMap<TokenHash, Subject>,
    /// The tokens that were recent before.
    older: HashMap<TokenHash, Subject>,
}

impl Remembered {
    /// Returns the subject of a token, if it was verified recently. It may have expired since.
    pub(super) fn get(&self, token: &str) -> Option<Subject> {
        let hash = TokenHash::of(token);
        let mut shelves = self.shelves();
        if let Some(subject) = shelves.recent.get(&hash) {
            return Some(subject.clone());
        }
        let subject = shelves.older.remove(&hash)?;
        shelves.put(hash, subject.clone());
        Some(subject)
    }

    /// Remembers a token that was verified.
    pub(super) fn put(&self, token: &str, subject: Subject) {
        self.shelves().put(TokenHash::of(token), subject);
    }

    fn shelves(&self) -> MutexGuard<'_, Shelves> {
        // Nothing panics while it is held.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Shelves {
    fn put(&mut self, hash: TokenHash, subject: Subject) {
        if self.recent.len() >= KEPT {
            self.older = std::mem::take(&mut self.recent);
        }
        self.recent.insert(hash, subject);
    }
}

//! Cache of signed tokens that were verified recently, by their hashes. A hit costs no signature check, so that a known caller
//! is admitted whatever others at its address send.

use std::collections::HashMap;

use parking_lot::Mutex;

use super::tokens::TokenHash;

/// Number of the newest tokens that are surely remembered. At most twice as many are kept.
const KEPT: usize = 2048;

/// Tokens that one set of keys has verified, each with its subject.
#[derive(Debug)]
pub(super) struct Remembered<T>(Mutex<Shelves<T>>);

#[derive(Debug)]
struct Shelves<T> {
    recent: HashMap<TokenHash, T>,
    /// The tokens that were recent before.
    older: HashMap<TokenHash, T>,
}

impl<T> Default for Remembered<T> {
    fn default() -> Self {
        Self(Mutex::new(Shelves {
            recent: HashMap::new(),
            older: HashMap::new(),
        }))
    }
}

impl<T: Clone> Remembered<T> {
    /// Returns the subject of a token, if it was verified recently. It may have expired since.
    pub(super) fn get(&self, token: &str) -> Option<T> {
        let hash = TokenHash::of(token);
        let mut shelves = self.0.lock();
        if let Some(subject) = shelves.recent.get(&hash) {
            return Some(subject.clone());
        }
        let subject = shelves.older.remove(&hash)?;
        shelves.put(hash, subject.clone());
        Some(subject)
    }

    /// Remembers a token that was verified.
    pub(super) fn put(&self, token: &str, subject: T) {
        self.0.lock().put(TokenHash::of(token), subject);
    }
}

impl<T> Shelves<T> {
    fn put(&mut self, hash: TokenHash, subject: T) {
        if self.recent.len() >= KEPT {
            self.older = std::mem::take(&mut self.recent);
        }
        self.recent.insert(hash, subject);
    }
}

//! Check of every grant for exclusion and rising tokens during a measurement.

use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};

use anyhow::ensure;

/// One name, as its clients know it.
#[derive(Default)]
pub(crate) struct Exclusion {
    held: AtomicBool,
    newest: AtomicI64,
}

impl Exclusion {
    /// Notes a grant; fails if somebody else holds the name, or the token is not greater than every earlier one.
    pub(crate) fn granted(&self, token: i64) -> anyhow::Result<()> {
        let before = self.newest.swap(token, Ordering::SeqCst);
        ensure!(token > before, "token {token} was granted after {before}");
        self.granted_without_token()
    }

    /// The same for a rival that has no tokens.
    pub(crate) fn granted_without_token(&self) -> anyhow::Result<()> {
        let held = self.held.swap(true, Ordering::SeqCst);
        ensure!(!held, "a name was granted while somebody held it");
        Ok(())
    }

    /// Notes that a release is about to be sent.
    pub(crate) fn releasing(&self) {
        self.held.store(false, Ordering::SeqCst);
    }
}

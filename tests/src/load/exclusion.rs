//! Check of every grant for exclusion and rising tokens during a measurement.

use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};

use anyhow::ensure;

/// One name, as its clients know it.
#[derive(Debug, Default)]
pub struct Exclusion {
    held: AtomicBool,
    newest: AtomicI64,
}

impl Exclusion {
    /// Notes a grant, with its fencing token if the service has tokens.
    ///
    /// # Errors
    ///
    /// If somebody else holds the name, or the token is not greater than every earlier one.
    pub fn granted(&self, token: Option<i64>) -> anyhow::Result<()> {
        if let Some(token) = token {
            let before = self.newest.swap(token, Ordering::SeqCst);
            ensure!(token > before, "token {token} was granted after {before}");
        }
        let held = self.held.swap(true, Ordering::SeqCst);
        ensure!(!held, "a name was granted while somebody held it");
        Ok(())
    }

    /// Notes that a release is about to be sent.
    pub fn releasing(&self) {
        self.held.store(false, Ordering::SeqCst);
    }
}

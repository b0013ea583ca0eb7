//! Counters of the abuser's deeds.

use std::{
    collections::BTreeMap,
    fmt,
    sync::{Arc, Mutex, PoisonError},
};

/// Counts by name. Clones share them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tally(Arc<Mutex<BTreeMap<&'static str, u64>>>);

impl Tally {
    pub(crate) fn add(&self, what: &'static str, number: u64) {
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *counts.entry(what).or_default() += number;
    }

    pub(crate) fn one(&self, what: &'static str) {
        self.add(what, 1);
    }

    pub(crate) fn get(&self, what: &'static str) -> u64 {
        let counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        counts.get(what).copied().unwrap_or_default()
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for (place, (what, number)) in counts.iter().enumerate() {
            let space = if place == 0 { "" } else { " " };
            write!(f, "{space}{what}={number}")?;
        }
        Ok(())
    }
}

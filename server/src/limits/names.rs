//! Count of the acquires that wait for each name.

use std::{collections::HashMap, sync::Arc};

use leasehold_core::name::LockName;
use parking_lot::Mutex;

/// Numbers of acquires that wait, or may have to wait, for each name. Clones share them.
#[derive(Clone, Debug, Default)]
pub(super) struct Names(Arc<Mutex<HashMap<LockName, usize>>>);

/// Place of an acquire among the waiters of a name, taken for as long as this lives.
#[derive(Debug)]
#[must_use = "the place is free again when this is dropped"]
pub struct WaiterPlace {
    names: Names,
    name: LockName,
}

impl Names {
    /// Takes a place, unless `limit` are taken.
    pub(super) fn enter(&self, name: &LockName, limit: usize) -> Option<WaiterPlace> {
        let mut counts = self.0.lock();
        if let Some(count) = counts.get_mut(name) {
            if *count >= limit {
                return None;
            }
            *count += 1;
        } else {
            counts.insert(name.clone(), 1);
        }
        drop(counts);
        Some(WaiterPlace {
            names: self.clone(),
            name: name.clone(),
        })
    }

    /// Takes a place, whatever the number of taken ones.
    pub(super) fn enter_anyway(&self, name: &LockName) -> WaiterPlace {
        *self.0.lock().entry(name.clone()).or_default() += 1;
        WaiterPlace {
            names: self.clone(),
            name: name.clone(),
        }
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.0.lock().len()
    }
}

impl Drop for WaiterPlace {
    fn drop(&mut self) {
        let mut counts = self.names.0.lock();
        if let Some(count) = counts.get_mut(&self.name) {
            *count -= 1;
            if *count == 0 {
                counts.remove(&self.name);
            }
        }
    }
}

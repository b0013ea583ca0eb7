//! Hash of contended names, for models that look for states that they have seen.

use std::{
    collections::BTreeMap,
    hash::{Hash, Hasher},
};

use super::ContendedNames;

impl Hash for ContendedNames {
    /// Hashes commands in the order of their ids, but no number of a command, waiter or refresh: states that differ only in
    /// numbers have the same hash, and behave alike.
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.due.hash(state);
        for (_, name) in &self.due {
            self.names.get(name).hash(state);
        }
        self.sent.len().hash(state);
        for (_, sent) in self.sent.iter().collect::<BTreeMap<_, _>>() {
            let contended = self.names.get(&sent.name);
            let is_of_refresh = sent.refresh.is_some_and(|number| {
                contended.is_some_and(|contended| contended.is_refreshed(number))
            });
            (&sent.name, is_of_refresh, &sent.purpose).hash(state);
        }
        self.early.iter().collect::<BTreeMap<_, _>>().hash(state);
        self.outputs.hash(state);
    }
}

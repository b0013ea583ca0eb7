//! Reference model that tries all ways in which a world may go on.
//!
//! An actor that waits for nothing, or has been granted one of its waits, may release each of its holds and give up each
//! of its waits, at any time; waiters that then fit are granted in queue order. An actor that waits does nothing.

use std::collections::{BTreeSet, HashSet};

use crate::deadlocks::town::{Edge, Town, Who};

/// An actor, or one hold or wait of nobody in particular.
pub(crate) type Party = (Who, u32);

pub(crate) fn party(edge: &Edge) -> Party {
    let id = if edge.who.is_actor() { 0 } else { edge.id };
    (edge.who, id)
}

/// Returns the waiting parties that are granted nothing, whatever happens.
pub(crate) fn doomed(town: &Town) -> BTreeSet<Party> {
    let waiting: BTreeSet<Party> = town.waits().map(party).collect();
    let running = town.holds().map(party);
    let running = running.filter(|party| !waiting.contains(party)).collect();
    let mut search = Search {
        seen: HashSet::new(),
        granted: BTreeSet::new(),
        open: Vec::new(),
    };
    search.reach(town.clone(), running);
    while let Some((town, running)) = search.open.pop() {
        for edge in town.holds().chain(town.waits()) {
            if running.contains(&party(edge)) {
                let mut next = town.clone();
                next.end(|other| other.id == edge.id);
                search.reach(next, running.clone());
            }
        }
    }
    waiting.difference(&search.granted).copied().collect()
}

struct Search {
    seen: HashSet<(Town, BTreeSet<Party>)>,
    granted: BTreeSet<Party>,
    open: Vec<(Town, BTreeSet<Party>)>,
}

impl Search {
    fn reach(&mut self, mut town: Town, mut running: BTreeSet<Party>) {
        let granted: Vec<Party> = town.hand_on().iter().map(party).collect();
        running.extend(&granted);
        self.granted.extend(&granted);
        if self.seen.insert((town.clone(), running.clone())) {
            self.open.push((town, running));
        }
    }
}

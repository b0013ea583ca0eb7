//! Regular look at all names: for deadlocks, with the coordinators' real search, and for holds that nobody knows of.

use leasehold_core::{
    command::{Op, Reply},
    deadlock::{BlockedWait, Pass, find},
};

use crate::{
    dice::MS,
    world::{LONGEST_TTL, NAMES, World, micros, name},
};

/// Most looks in a row in which a hold may be one that its coordinator does not know: a grant may cross its end.
const STRANGE: u64 = 2;
/// Time between two looks.
const BETWEEN: u64 = 400 * MS;

impl World {
    /// Looks which waits block each other, and aborts those that two passes in a row found.
    pub(crate) fn detect(&mut self) {
        self.detect_at = self.now + BETWEEN;
        let mut pass = Pass::default();
        for coordinator in &self.coordinators {
            let sessions = coordinator.sessions.values();
            pass.blocked.extend(sessions.flat_map(|it| it.blocked()));
        }
        for BlockedWait { name, .. } in &pass.blocked {
            if let Reply::Edges(edges) = self.look(name, Op::Edges) {
                pass.names.insert(name.clone(), *edges);
            }
        }
        for deadlock in find(&self.before, &pass) {
            self.seen.deadlocks += 1;
            for coordinator in &mut self.coordinators {
                for session in coordinator.sessions.values_mut() {
                    session.abort(&deadlock);
                }
            }
        }
        self.before = pass;
        self.find_strangers();
        self.look_around();
    }

    /// Fails if a hold stays in the store of which the coordinator that has it knows nothing: it would only expire.
    fn find_strangers(&mut self) {
        let before = std::mem::take(&mut self.strangers);
        if self.now < self.strange_until {
            return;
        }
        for text in NAMES {
            let Reply::Edges(edges) = self.look(&name(text), Op::Edges) else {
                continue;
            };
            for hold in edges.holders {
                let run = self.store.had_by[&hold.owner];
                let coordinator = &self.coordinators[run.0];
                if coordinator.runs == run.1 && !coordinator.registry.knows(&hold.owner) {
                    let looks = before.get(&hold.owner).copied().unwrap_or(0) + 1;
                    // A place whose session is over may have come back with a fail-over, and be granted the lock until that
                    // expires: after its TTL and its lock-delay, which are each as long as they may be.
                    let most = match self.failed_over_at {
                        0 => STRANGE,
                        _ => STRANGE + (2 * micros(LONGEST_TTL)).div_ceil(BETWEEN),
                    };
                    assert!(
                        looks <= most,
                        "at {}, nobody knows of a hold of {text} at {looks} looks, after a fail-over at {}: {hold:?}",
                        self.now,
                        self.failed_over_at
                    );
                    self.strangers.insert(hold.owner, looks);
                }
            }
        }
    }
}

//! Coverage of the random histories: a property that holds because nothing happens is worth nothing.

use std::collections::BTreeMap;

use proptest::{
    strategy::{Strategy, ValueTree},
    test_runner::TestRunner,
};

use crate::locks::{corners::corners, steps::steps};

/// Cases that random histories must meet, each with the number of histories in 300 that must meet it.
const CORNERS: &[(&str, usize)] = &[
    ("granted at once", 250),
    ("granted to a waiter here", 70),
    ("granted to a waiter elsewhere", 70),
    ("granted past a waiter that is dead", 40),
    ("granted past the queue, all dead", 60),
    ("granted from the queue in its own acquire", 50),
    ("granted its place without waiting on", 1),
    ("granted after a hold ran out", 100),
    ("granted after a lock-delay ran out", 40),
    ("readers: granted beside others", 60),
    ("readers: granted together", 20),
    ("readers: granted beside a ghost", 10),
    ("readers: behind a writer", 40),
    ("permits: granted beside others", 50),
    ("permits: granted together", 10),
    ("permits: granted beside a ghost", 8),
    ("permits: too many are taken", 40),
    ("permits: too many are taken by ghosts", 6),
    ("permits: too many are wanted before", 30),
    ("permits: what is left, to a waiter", 2),
    ("permits: what is left, at once", 5),
    ("permits: all, though fewer would do", 5),
    ("permits: another limit, of holders", 20),
    ("permits: another limit, of ghosts", 2),
    ("permits: another limit, of waiters", 10),
    ("told of a grant once more", 90),
    ("told of a place once more", 30),
    ("told of a hand-off", 40),
    ("refused as busy, and waits on", 6),
    ("refused as busy", 100),
    ("refused as late", 90),
    ("renewed", 90),
    ("renewed elsewhere", 20),
    ("lost: expired", 20),
    ("lost: deleted", 50),
    ("lost: taken", 90),
    ("lost: a ghost", 20),
    ("released, and closed", 20),
    ("released, and a ghost left", 60),
    ("released by a waiter", 60),
    ("released by a waiter, and those behind let in", 2),
    ("downgraded", 30),
    ("downgraded, and readers let in", 6),
    ("downgraded, though shared", 30),
    ("not downgraded, of a semaphore", 30),
    ("reduced", 4),
    ("reduced, and waiters let in", 1),
    ("reduced, though it has no more", 4),
    ("not reduced, of no semaphore", 10),
    ("counted", 50),
    ("lost a place", 80),
    ("taken by force", 60),
    ("taken by force from several", 20),
    ("taken by force from ghosts alone", 4),
    ("taken by force from a lock-delay", 4),
    ("one of several taken by force", 20),
    ("the only one taken by force", 30),
    ("asked to release", 30),
    ("several asked to release", 10),
    ("nobody asked to release", 30),
    ("a wait ended by force", 50),
    ("a wait ended by force, and those behind let in", 1),
    ("asked again, though ended by force", 1),
    ("not resumed: ended by force", 1),
    ("resumed here", 50),
    ("resumed elsewhere", 80),
    ("resumed once more", 6),
    ("place resumed", 40),
    ("place resumed once more", 2),
    ("place resumed, and granted", 2),
    ("not resumed: resumed", 40),
    ("not resumed: expired", 15),
    ("not resumed: deleted", 50),
    ("not resumed: taken", 80),
    ("lost: resumed", 20),
    ("asked again, though resumed", 20),
    ("asked again in the lock-delay", 1),
    ("token record ran out", 40),
];

#[test]
fn the_histories_reach_every_corner() {
    let mut runner = TestRunner::deterministic();
    let mut met = BTreeMap::<&str, usize>::new();
    for _ in 0..300 {
        let steps = steps(160).new_tree(&mut runner).unwrap().current();
        let mut here = corners(&steps);
        here.sort_unstable();
        here.dedup();
        for corner in here {
            *met.entry(corner).or_default() += 1;
        }
    }
    for (corner, least) in CORNERS {
        let times = met.remove(corner).unwrap_or(0);
        assert!(
            times >= *least,
            "only {times} of 300 histories met “{corner}”; {least} are expected"
        );
    }
    assert!(met.is_empty(), "not in the list: {met:?}");
}

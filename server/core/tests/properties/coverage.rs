//! The random histories reach what they are meant to try: a property that holds because nothing happens is worth nothing.

use std::collections::BTreeMap;

use leasehold_core::command::{End, Loss, Reply};
use proptest::{
    strategy::{Strategy, ValueTree},
    test_runner::TestRunner,
};

use crate::{
    history::{Deed, Event, Owner, World},
    ledger::Ledger,
    steps::{NAMES, steps},
};

/// What is worth meeting, by the number of histories in 300 that must meet it.
const CORNERS: &[(&str, usize)] = &[
    ("granted at once", 250),
    ("granted to a waiter here", 100),
    ("granted to a waiter elsewhere", 100),
    ("granted past a waiter that is dead", 50),
    ("granted past the queue, all dead", 10),
    ("granted after a hold ran out", 100),
    ("granted after a lock-delay ran out", 20),
    ("told of a grant once more", 50),
    ("told of a place once more", 20),
    ("refused as busy", 50),
    ("refused as late", 50),
    ("renewed", 100),
    ("lost: expired", 5),
    ("lost: deleted", 50),
    ("lost: taken", 50),
    ("released, and closed", 20),
    ("released by a waiter", 50),
    ("lost a place", 20),
    ("taken by force", 50),
    ("token record ran out", 20),
];

#[test]
fn the_histories_reach_every_corner() {
    let mut runner = TestRunner::deterministic();
    let mut met = BTreeMap::<&str, usize>::new();
    for _ in 0..300 {
        let steps = steps(120).new_tree(&mut runner).unwrap().current();
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

fn corners(steps: &[crate::steps::Step]) -> Vec<&'static str> {
    let mut world = World::new();
    let mut ledgers = Ledger::for_all_names();
    let mut waiting: [Vec<Owner>; NAMES] = Default::default();
    let mut had_token = [false; NAMES];
    let mut met = Vec::new();
    for step in steps {
        let Some(event) = world.step(step) else {
            continue;
        };
        let waited = std::mem::replace(&mut waiting[event.name], event.waiters());
        let grant = ledgers[event.name].enter(&event, &world.asked);
        met.extend(by_reply(&event, grant.is_some(), &waited));
        if let Some(grant) = grant {
            let place = waited.iter().position(|owner| *owner == grant.hold.owner);
            let by = world.asked[grant.hold.owner.0].by;
            match place {
                Some(0) if by == event.by => met.push("granted to a waiter here"),
                Some(0) => met.push("granted to a waiter elsewhere"),
                Some(_) => met.push("granted past a waiter that is dead"),
                None if event.waiters().is_empty() => met.push("granted at once"),
                None => met.push("granted past the queue, all dead"),
            }
            if let Some(before) = grant.before {
                if before.until < grant.hold.from && before.until == grant.open_from {
                    met.push("granted after a hold ran out");
                } else if before.until < grant.open_from {
                    met.push("granted after a lock-delay ran out");
                }
            }
        }
        let left = |owner: &Owner| {
            let released = matches!(event.deed, Deed::Release(o, _) if o == *owner);
            let granted = grant.is_some_and(|grant| grant.hold.owner == *owner);
            !released && !granted && !event.waiters().contains(owner)
        };
        if waited.iter().any(left) {
            met.push("lost a place");
        }
        let has_token = event.after.token.is_some();
        if had_token[event.name] && !has_token {
            met.push("token record ran out");
        }
        had_token[event.name] = has_token;
    }
    met
}

fn by_reply(event: &Event, is_new: bool, waited: &[Owner]) -> Option<&'static str> {
    Some(match (event.deed, &event.reply) {
        (Deed::Acquire(_), Reply::Granted { .. }) if !is_new => "told of a grant once more",
        (Deed::Acquire(owner), Reply::Queued { .. }) if waited.contains(&owner) => {
            "told of a place once more"
        }
        (_, Reply::Busy { .. }) => "refused as busy",
        (_, Reply::Late) => "refused as late",
        (_, Reply::Renewed) => "renewed",
        (_, Reply::Lost(Loss::Expired)) => "lost: expired",
        (_, Reply::Lost(Loss::Deleted)) => "lost: deleted",
        (_, Reply::Lost(Loss::Taken)) => "lost: taken",
        (
            Deed::Release(_, End::Unclean),
            Reply::Released {
                closed_for: Some(_),
                ..
            },
        ) => "released, and closed",
        (Deed::Release(..), Reply::Released { waited: true, .. }) => "released by a waiter",
        (Deed::Force, Reply::Forced { released: true, .. }) => "taken by force",
        _ => return None,
    })
}

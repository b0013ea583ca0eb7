//! Properties that hold the detector against the model: it finds all deadlocks, and no others.

use std::collections::{BTreeSet, HashMap};

use leasehold_core::deadlock::{BlockedWait, Deadlock, Pass, find, stuck};
use proptest::prelude::*;

use crate::deadlocks::{
    accused::accused,
    config,
    generate::town,
    model::{doomed, party},
    town::{Town, Who},
};

pub(crate) fn whose(wait: &BlockedWait) -> Who {
    Who::of(Some(wait.session), wait.actor)
}

pub(crate) fn victims(found: &[Deadlock]) -> Vec<Who> {
    found.iter().map(|found| whose(&found.victim)).collect()
}

/// Returns the actors that hold something and can't go on.
pub(crate) fn doomed_actors(town: &Town) -> BTreeSet<Who> {
    let mut doomed = waiting_in_vain(town);
    doomed.retain(|who| town.is_blocked(*who));
    doomed
}

/// Returns the actors that can't go on.
pub(crate) fn waiting_in_vain(town: &Town) -> BTreeSet<Who> {
    let doomed = doomed(town).into_iter().map(|(who, _)| who);
    doomed.filter(|who| who.is_actor()).collect()
}

/// Returns a pass with the same contents in another order.
fn shuffled(pass: &Pass) -> impl Strategy<Value = Pass> + use<> {
    let names: Vec<_> = pass.names.clone().into_iter().collect();
    let names: Vec<_> = names
        .into_iter()
        .map(|(name, edges)| {
            let holders = Just(edges.holders.clone()).prop_shuffle();
            holders.prop_map(move |holders| {
                let mut edges = edges.clone();
                edges.holders = holders;
                (name.clone(), edges)
            })
        })
        .collect();
    (Just(pass.blocked.clone()).prop_shuffle(), names).prop_map(|(blocked, names)| Pass {
        blocked,
        names: names.into_iter().collect::<HashMap<_, _>>(),
        ..Pass::default()
    })
}

proptest! {
    #![proptest_config(config())]

    /// An actor is stuck if and only if it is granted nothing in whatever way the world goes on.
    #[test]
    fn stuck_is_whoever_cannot_go_on(town in town()) {
        let pass = town.pass();
        let stuck: BTreeSet<Who> = stuck(&pass, &pass).iter().map(whose).collect();
        prop_assert_eq!(stuck, doomed_actors(&town));
    }

    /// Each wait that is accused is stuck when those accused before it have ended, and once all have, nobody is.
    #[test]
    fn the_accused_are_stuck_and_their_end_helps_all(town in town()) {
        let pass = town.pass();
        let mut after = town;
        let mut left = doomed_actors(&after).len();
        for victim in victims(&find(&pass, &pass)) {
            prop_assert!(doomed_actors(&after).contains(&victim), "{victim:?} could go on");
            after.end(|edge| edge.who == victim);
            prop_assert!(left > 0);
            left -= 1;
        }
        prop_assert_eq!(doomed_actors(&after), BTreeSet::new());
    }

    /// If only one wait ends at a time, no actor is stuck after as many rounds as there are actors.
    #[test]
    fn one_end_at_a_time_helps_all_too(town in town()) {
        let mut town = town;
        for _ in 0..=doomed_actors(&town).len() {
            let pass = town.pass();
            let Some(first) = find(&pass, &pass).into_iter().next() else {
                break;
            };
            town.end(|edge| edge.who == whose(&first.victim));
            // Who is granted something goes on: it does not wait to be stuck once more.
            while let Some(granted) = town.hand_on().first() {
                town.end(|edge| party(edge) == party(granted));
            }
        }
        prop_assert_eq!(doomed_actors(&town), BTreeSet::new());
    }

    /// The victim of each knot is the youngest wait whose end helps.
    #[test]
    fn the_youngest_that_helps_is_accused(town in town()) {
        let pass = town.pass();
        let found: Vec<_> = find(&pass, &pass).into_iter().map(|found| found.victim).collect();
        prop_assert_eq!(found, accused(&town));
    }

    /// The order in which a pass tells things decides nothing.
    #[test]
    fn the_order_of_what_is_told_does_not_matter(
        (pass, other) in town().prop_flat_map(|town| {
            let pass = town.pass();
            (shuffled(&pass), Just(pass))
        }),
    ) {
        prop_assert_eq!(find(&pass, &pass), find(&other, &other));
        prop_assert_eq!(stuck(&pass, &pass), stuck(&other, &other));
    }
}

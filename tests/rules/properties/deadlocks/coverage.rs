//! Coverage of the generators: random worlds and histories contain every kind of deadlock that matters.

use leasehold_core::deadlock::{Because, find};
use proptest::{
    strategy::{Strategy, ValueTree},
    test_runner::TestRunner,
};

use crate::deadlocks::{
    agreement::doomed_actors,
    generate::town,
    history::{play, script, stuck_actors},
};

const TRIED: usize = 2000;

fn tried<T>(strategy: impl Strategy<Value = T>) -> Vec<T> {
    let mut runner = TestRunner::deterministic();
    (0..TRIED)
        .map(|_| strategy.new_tree(&mut runner).unwrap().current())
        .collect()
}

#[track_caller]
fn at_least(least: usize, what: &str, found: usize) {
    assert!(found >= least, "{what}: only {found} of {TRIED}");
}

#[test]
fn random_worlds_have_every_kind_of_deadlock() {
    let [
        mut any,
        mut several,
        mut ahead,
        mut nobody,
        mut long,
        mut bystanders,
    ] = [0; 6];
    for town in tried(town()) {
        let pass = town.pass();
        let found = find(&pass, &pass);
        let steps = || found.iter().flat_map(|found| &found.cycle);
        any += usize::from(!found.is_empty());
        several += usize::from(found.len() > 1);
        ahead += usize::from(steps().any(|step| step.because == Because::IsAhead));
        nobody += usize::from(steps().any(|step| !step.holds));
        long += usize::from(found.iter().any(|found| found.cycle.len() > 2));
        bystanders += usize::from(doomed_actors(&town).len() > steps().count());
    }
    at_least(500, "deadlocks", any);
    at_least(40, "more than one", several);
    at_least(100, "with one in the queue", ahead);
    at_least(40, "with one that holds nothing", nobody);
    at_least(100, "with three and more", long);
    at_least(40, "with one that only waits for them", bystanders);
}

#[test]
fn random_histories_have_deadlocks_that_last_and_some_that_end() {
    let [mut found, mut ended] = [0; 2];
    for script in tried(script()) {
        let played = play(&script);
        found += usize::from(!stuck_actors(&played.before, &played.now).is_empty());
        ended += usize::from(!played.truly[0].is_subset(&played.at_the_end));
    }
    at_least(100, "deadlocks", found);
    at_least(40, "deadlocks that ended meanwhile", ended);
}

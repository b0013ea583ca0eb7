//! Timings of the detector on large worlds, printed by
//! `cargo test --release -p leasehold-core --test deadlocks speed -- --nocapture --test-threads 1`.

#![expect(clippy::print_stdout, reason = "it is there to be read")]

use std::time::Instant;

use leasehold_core::deadlock::find;

use crate::deadlocks::town::{S, Town, X, actor, nobody};

const ACTORS: u32 = 1000;
/// Actors of a crowd in which every second one is a victim.
const CROWD: u32 = 300;

/// Returns a town in which each actor holds a name of its own, and waits for another's.
fn each_for(wanted: impl Fn(u32) -> u32) -> Town {
    let mut town = Town::default();
    for number in 0..ACTORS {
        town.hold(number as usize, actor(number + 1), X);
    }
    for number in 0..ACTORS {
        town.wait(wanted(number) as usize, actor(number + 1), X);
    }
    town
}

fn time(what: &str, town: &Town, expected: usize) {
    let blocked = town.blocked().len();
    let (before, now) = (town.pass(), town.pass());
    let start = Instant::now();
    let found = find(&before, &now);
    println!(
        "{what}: {blocked} blocked waits, {} deadlocks found in {:?}",
        found.len(),
        start.elapsed()
    );
    assert_eq!(found.len(), expected);
}

#[test]
fn a_thousand_actors_on_a_thousand_names() {
    time("one ring", &each_for(|number| (number + 1) % ACTORS), 1);
    time("pairs", &each_for(|number| number ^ 1), 500);
    time(
        "a wood with circles",
        &each_for(|number| (number * number + 1) % ACTORS),
        1,
    );
}

/// Each pair is stuck by itself, and the first of it waits for one of the next pair too: no two of them are found in the same
/// round.
#[test]
fn pairs_that_wait_for_the_next_pair() {
    let mut town = Town::default();
    for number in 0..ACTORS {
        town.hold(number as usize, actor(number + 1), S);
        if number % 2 == 1 && number + 1 < ACTORS {
            town.hold(number as usize, actor(number + 2), S);
        }
    }
    for number in 0..ACTORS {
        town.wait((number ^ 1) as usize, actor(number + 1), X);
    }
    time("pairs in a row", &town, 500);
}

/// Everybody reads one of two names and wants to write the other: those of one name have to give up.
#[test]
fn readers_who_all_want_to_write() {
    let mut town = Town::default();
    for number in 0..CROWD {
        town.hold((number % 2) as usize, actor(number + 1), S);
        town.wait(((number % 2) ^ 1) as usize, actor(number + 1), X);
    }
    time("two crowds", &town, 150);
}

/// A ring of readers, each behind ten writers who hold nothing.
#[test]
fn a_long_queue_of_those_who_hold_nothing() {
    let mut town = Town::default();
    for number in 0..ACTORS {
        town.hold(number as usize, actor(number + 1), S);
        for stranger in 0..10 {
            town.wait(number as usize, nobody(ACTORS + 1 + stranger), X);
        }
    }
    for number in 0..ACTORS {
        town.wait(((number + 1) % ACTORS) as usize, actor(number + 1), S);
    }
    time("ten strangers each", &town, 1);
}

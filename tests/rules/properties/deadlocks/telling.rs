//! Tests of the message that describes a deadlock to people.

use std::collections::HashSet;

use leasehold_core::{
    deadlock::{Because, Deadlock, Step, find},
    name::{ClientName, LockName},
};
use proptest::prelude::*;

use crate::deadlocks::{
    config,
    generate::town,
    town::{A, B, C, S, Town, UNARY, Who, X, actor, name},
};

fn only(town: &Town) -> Deadlock {
    let pass = town.pass();
    let mut found = find(&pass, &pass);
    assert_eq!(found.len(), 1);
    found.remove(0)
}

fn session(number: u32) -> String {
    format!("session {number:032x} (client \"client {number}\")")
}

/// Returns this many actors, each of which waits for the next.
fn ring(length: u32) -> Town {
    let mut town = Town::default();
    for number in 0..length {
        town.hold(number as usize, actor(number + 1), X);
    }
    for number in 0..length {
        town.wait(((number + 1) % length) as usize, actor(number + 1), X);
    }
    town
}

#[test]
fn two_actors() {
    let [one, two] = [1, 2].map(session);
    let expected = format!(
        "{two} actor 2 waits for \"a\", held by {one} actor 1, which waits for \"b\", held by the first"
    );
    assert_eq!(only(&ring(2)).to_string(), expected);
}

#[test]
fn a_queue_in_between() {
    let mut town = Town::default();
    town.hold(A, actor(1), S);
    town.hold(B, actor(2), X);
    town.wait(A, UNARY, X);
    town.wait(B, actor(1), X);
    town.wait(A, actor(2), S);
    let [one, two] = [1, 2].map(session);
    let expected = format!(
        "{two} actor 2 waits for \"a\", queued behind a waiter of a unary call (client \"client 0\"), \
         which waits for \"a\", held by {one} actor 1, which waits for \"b\", held by the first"
    );
    assert_eq!(only(&town).to_string(), expected);
}

#[test]
fn one_alone() {
    let expected = format!("{} actor 1 waits for \"a\", held by itself", session(1));
    assert_eq!(only(&ring(1)).to_string(), expected);
}

#[test]
fn the_shortest_way_round() {
    // Three waits for the reader one, which waits for it, and for the reader two, which does so by way of one.
    let mut town = Town::default();
    town.hold(A, actor(1), S);
    town.hold(A, actor(2), S);
    town.hold(B, actor(3), X);
    town.hold(C, actor(1), X);
    town.wait(B, actor(1), X);
    town.wait(C, actor(2), X);
    town.wait(A, actor(3), X);
    let cycle = only(&town).cycle;
    let who: Vec<_> = cycle.iter().map(|step| step.actor.get()).collect();
    assert_eq!(who, [3, 1]);
}

#[test]
fn eight_are_spelt_out() {
    let told = only(&ring(8)).to_string();
    assert_eq!(told.matches("waits for").count(), 8);
    assert!(told.ends_with("held by the first"), "{told}");
    let deadlock = only(&ring(20));
    assert_eq!(deadlock.cycle.len(), 20);
    let told = deadlock.to_string();
    assert_eq!(told.matches("waits for").count(), 8);
    assert!(
        told.ends_with("held by another; 12 more lead back to the first"),
        "{told}"
    );
}

#[test]
fn long_names_lose_their_middle() {
    let mut deadlock = only(&ring(1));
    deadlock.cycle[0].name =
        LockName::parse(&format!("{}{}", "ä".repeat(200), "z".repeat(100))).unwrap();
    deadlock.cycle[0].client_name = ClientName::parse(&"c\"".repeat(100)).unwrap();
    let told = deadlock.to_string();
    assert!(
        told.contains(&format!("\"{}…{}\"", "ä".repeat(32), "z".repeat(32))),
        "{told}"
    );
    assert!(told.contains("(client \"c\\\"c\\\""), "{told}");
    deadlock.cycle[0].client_name = ClientName::default();
    assert!(!deadlock.to_string().contains("client"), "{told}");
    assert!(told.len() < 600, "{told}");
}

proptest! {
    #![proptest_config(config())]

    /// Each step waits for what it says, because of the next one, who is in its way as it says; nobody comes twice, and the
    /// way leads from the victim round to it.
    #[test]
    fn descriptions_are_true(town in town()) {
        let pass = town.pass();
        // Those who are accused further on are so once those before them have ended.
        if let Some(Deadlock { victim, cycle }) = find(&pass, &pass).into_iter().next() {
            let first = &cycle[0];
            prop_assert_eq!(&first.name, &victim.name);
            prop_assert_eq!((first.session, first.actor), (Some(victim.session), victim.actor));
            for (place, step) in cycle.iter().enumerate() {
                let next = &cycle[(place + 1) % cycle.len()];
                prop_assert!(is_so(&town, step, next), "{step:?} {next:?}");
            }
            let actors = cycle.iter().map(|step| Who::of(step.session, step.actor));
            let actors: Vec<_> = actors.filter(|who| who.is_actor()).collect();
            let different: HashSet<_> = actors.iter().collect();
            prop_assert_eq!(different.len(), actors.len());
        }
    }
}

fn is_so(town: &Town, step: &Step, next: &Step) -> bool {
    let who = Who::of(step.session, step.actor);
    let next = Who::of(next.session, next.actor);
    let line = (0..)
        .zip(&town.lines)
        .find(|(number, _)| name(*number) == step.name);
    let Some((_, line)) = line else {
        return false;
    };
    let is_in_the_way = |place: usize| match step.because {
        Because::Holds => {
            line.holds.iter().any(|hold| hold.who == next) && !line.fits(line.queue[place].mode)
        }
        Because::IsAhead => line.queue[..place].iter().any(|edge| edge.who == next),
    };
    let mut places = (0..line.queue.len()).filter(|place| line.queue[*place].who == who);
    places.any(is_in_the_way) && step.holds == town.is_blocked(who)
}

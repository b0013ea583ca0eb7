//! Tests of the two passes: only what both of them saw and know counts.

use std::collections::BTreeSet;

use leasehold_core::deadlock::{Pass, find, stuck};

use crate::deadlocks::{
    agreement::whose,
    town::{A, B, C, S, Town, Who, X, actor, name, nobody},
};

const ONE: Who = actor(1);
const TWO: Who = actor(2);
const THREE: Who = actor(3);

/// Returns a town in which one and two block each other over a and b, and their tickets.
fn crosswise() -> (Town, [u32; 2]) {
    let mut town = Town::default();
    town.hold(A, ONE, X);
    town.hold(B, TWO, X);
    let tickets = [town.wait(B, ONE, X), town.wait(A, TWO, X)];
    (town, tickets)
}

/// Returns a reader behind a writer that holds nothing, behind another reader.
fn behind_a_writer() -> (Town, u32) {
    let mut town = Town::default();
    town.hold(A, ONE, S);
    town.hold(B, TWO, X);
    let writer = town.wait(A, nobody(9), X);
    town.wait(A, TWO, S);
    town.wait(B, ONE, X);
    (town, writer)
}

fn stuck_in(before: &Pass, now: &Pass) -> BTreeSet<Who> {
    assert_eq!(stuck(before, now).is_empty(), find(before, now).is_empty());
    stuck(before, now).iter().map(whose).collect()
}

/// Asserts that no actor is stuck if either of the two passes lacks something.
#[track_caller]
fn nobody_is_stuck(before: &Pass, now: &Pass) {
    assert_eq!(stuck_in(before, before).len() + stuck_in(now, now).len(), 2);
    assert_eq!(stuck_in(before, now), BTreeSet::new());
    assert_eq!(stuck_in(now, before), BTreeSet::new());
}

#[track_caller]
fn nobody_is_stuck_in_either_order(known: &Pass, less: &Pass) {
    assert_eq!(stuck_in(known, known).len(), 2);
    assert_eq!(stuck_in(known, less), BTreeSet::new());
    assert_eq!(stuck_in(less, known), BTreeSet::new());
    assert_eq!(stuck_in(less, less), BTreeSet::new());
}

#[test]
fn all_of_it_is_in_both() {
    let (town, _) = crosswise();
    assert_eq!(
        stuck_in(&town.pass(), &town.pass()),
        BTreeSet::from([ONE, TWO])
    );
}

#[test]
fn a_cancel_between() {
    let (mut town, [_, second]) = crosswise();
    let before = town.pass();
    town.end(|edge| edge.id == second);
    nobody_is_stuck(&before, &town.pass());
    // It asks again: that is another wait.
    town.wait(A, TWO, X);
    let now = town.pass();
    assert_eq!(stuck_in(&before, &now), BTreeSet::new());
    assert_eq!(stuck_in(&now, &now), BTreeSet::from([ONE, TWO]));
}

#[test]
fn a_hand_off_between() {
    let (mut town, _) = crosswise();
    let before = town.pass();
    // An operator took a from one: two has it, and may be about to release b.
    town.end(|edge| edge.who == ONE && edge.mode == X && edge.id == 1);
    assert_eq!(town.hand_on().len(), 1);
    nobody_is_stuck(&before, &town.pass());
}

#[test]
fn a_hand_off_of_which_the_publisher_has_not_heard() {
    let (mut town, _) = crosswise();
    let before = town.pass();
    town.end(|edge| edge.id == 1);
    town.hand_on();
    let mut now = town.pass();
    now.blocked.clone_from(&before.blocked);
    assert_eq!(stuck_in(&before, &now), BTreeSet::new());
    assert_eq!(stuck_in(&now, &now), BTreeSet::new());
}

#[test]
fn a_resume_between() {
    let (mut town, _) = crosswise();
    let before = town.pass();
    let (hold, ticket) = (town.tick(), town.tick());
    town.line(A).holds[0].id = hold;
    town.line(B).queue[0].id = ticket;
    let now = town.pass();
    assert_eq!(stuck_in(&before, &now), BTreeSet::new());
    assert_eq!(stuck_in(&now, &now), BTreeSet::from([ONE, TWO]));
}

#[test]
fn a_ticket_that_joined_again() {
    let (mut town, _) = crosswise();
    let before = town.pass();
    // It was handed b meanwhile, nobody confirmed that, and it is back in the queue.
    town.line(B).queue[0].since = town.tick();
    assert_eq!(stuck_in(&before, &town.pass()), BTreeSet::new());
}

#[test]
fn a_hold_that_is_another_now() {
    let (mut town, _) = crosswise();
    let before = town.pass();
    town.line(A).holds[0].id = town.tick();
    assert_eq!(stuck_in(&before, &town.pass()), BTreeSet::new());
}

#[test]
fn a_writer_that_is_gone_or_has_only_come() {
    let (town, writer) = behind_a_writer();
    let with = town.pass();
    assert_eq!(stuck_in(&with, &with), BTreeSet::from([ONE, TWO]));
    let mut town = town;
    town.end(|edge| edge.id == writer);
    nobody_is_stuck_in_either_order(&with, &town.pass());
}

#[test]
fn a_downgrade_between() {
    let mut town = Town::default();
    town.hold(A, ONE, X);
    town.hold(B, TWO, X);
    town.wait(A, TWO, S);
    town.wait(B, ONE, X);
    let before = town.pass();
    town.line(A).holds[0].mode = S;
    // Two is about to be let in.
    assert_eq!(stuck_in(&before, &town.pass()), BTreeSet::new());
}

#[test]
fn unknown_waits() {
    let (town, _) = crosswise();
    let known = town.pass();
    for number in [A, B] {
        let mut unread = known.clone();
        unread.names.remove(&name(number));
        nobody_is_stuck_in_either_order(&known, &unread);

        let mut incomplete = known.clone();
        incomplete.names.get_mut(&name(number)).unwrap().complete = false;
        nobody_is_stuck_in_either_order(&known, &incomplete);

        let mut unlisted = known.clone();
        unlisted
            .names
            .get_mut(&name(number))
            .unwrap()
            .waiters
            .clear();
        nobody_is_stuck_in_either_order(&known, &unlisted);

        let mut unpublished = known.clone();
        unpublished.blocked.retain(|wait| wait.name != name(number));
        nobody_is_stuck_in_either_order(&known, &unpublished);
    }
}

#[test]
fn an_actor_with_a_wait_of_which_too_little_is_known() {
    let (mut town, _) = crosswise();
    let before = town.pass();
    // One has begun to wait for c as well. It may get that.
    town.hold(C, THREE, X);
    town.wait(C, ONE, X);
    let now = town.pass();
    assert_eq!(stuck_in(&before, &now), BTreeSet::new());
    assert_eq!(stuck_in(&now, &before), BTreeSet::new());

    let mut unread = now.clone();
    unread.names.remove(&name(C));
    assert_eq!(stuck_in(&unread, &unread), BTreeSet::new());
    // Nor does it help that nobody published that wait.
    unread.blocked.retain(|wait| wait.name != name(C));
    let mut incomplete = now.clone();
    incomplete.names.get_mut(&name(C)).unwrap().complete = false;
    incomplete.blocked.clone_from(&unread.blocked);
    assert_eq!(stuck_in(&incomplete, &incomplete), BTreeSet::new());
}

#[test]
fn actor_0_is_never_accused_whatever_is_published() {
    let mut town = Town::default();
    town.hold(A, ONE, X);
    town.hold(B, nobody(2), X);
    town.wait(B, ONE, X);
    town.wait(A, nobody(2), X);
    let mut pass = town.pass();
    let mut forged = pass.blocked[0].clone();
    let edge = &pass.names[&name(A)].waiters[0];
    (forged.session, forged.actor) = (edge.session.unwrap(), edge.actor);
    (forged.ticket, forged.name) = (edge.owner, name(A));
    pass.blocked.push(forged);
    assert_eq!(stuck_in(&pass, &pass), BTreeSet::new());
}

/// An actor that holds something is ahead of another in a queue. Its coordinator left it out of what it publishes.
#[test]
fn an_actor_that_was_left_out_may_go_on_by_a_wait_that_nobody_has_seen() {
    let mut town = Town::default();
    town.hold(A, ONE, S);
    town.hold(B, TWO, X);
    town.hold(C, THREE, X);
    town.wait(A, THREE, X);
    town.wait(A, TWO, S);
    town.wait(B, ONE, X);
    let mut known = town.pass();
    known.blocked.retain(|wait| whose(wait) != THREE);
    // It waits for nothing else, so that it is in the way of two like anybody else.
    assert_eq!(stuck_in(&known, &known), BTreeSet::from([ONE, TWO]));
    let mut of_three = known.clone();
    of_three.omissions.sessions.extend(THREE.session());
    let mut of_anybody = known.clone();
    of_anybody.omissions.anybody = true;
    for less in [of_three, of_anybody] {
        nobody_is_stuck_in_either_order(&known, &less);
    }
    // Whoever is published is published with all of its waits.
    let mut of_others = town.pass();
    of_others.omissions.sessions.extend(TWO.session());
    assert_eq!(stuck_in(&of_others, &of_others).len(), 3);
}

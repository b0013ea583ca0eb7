//! Promises to the client while the store is slow: each counts from when its command was sent, not from the reply.
//!
//! The store carries a command out at once and its reply takes a second. The session hears a heartbeat after it sent the command,
//! so that a promise which counted from the reply would outlast the hold in the store.

use super::*;

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn a_grant_counts_from_when_its_acquire_was_sent() {
    let mut scene = Scene::open();
    scene.ask(2, Request::Acquire(acquire("a")));
    let (id, stamped) = scene.execute_next();
    scene.pass(SECOND);
    scene.ask(3, beat(1));
    assert_eq!(acks(&mut scene), [(3, 1, full())]);
    scene.reply(id, stamped);
    assert_eq!(scene.granted_for(2).1, full() - SECOND);
}

#[test]
fn a_late_reply_takes_nothing_off_what_stands() {
    let mut scene = Scene::open();
    scene.ask(2, Request::Acquire(acquire("a")));
    let (id, stamped) = scene.execute_next();
    scene.pass(SECOND);
    scene.reply(id, stamped);
    // It is good from the last heartbeat, the `open`, which came before the acquire.
    assert_eq!(scene.granted_for(2).1, full());
    scene.pass(TTL / 3);
    scene.ask(3, beat(1));
    let (id, stamped) = scene.execute_next();
    scene.pass(SECOND);
    scene.reply(id, stamped);
    assert_eq!(acks(&mut scene), [(3, 1, full())]);
}

#[test]
fn a_renewal_counts_from_when_it_was_sent() {
    let (mut scene, _) = Scene::holding("a");
    scene.pass(TTL / 3);
    scene.ask(3, beat(1));
    let (id, stamped) = scene.execute_next();
    scene.pass(SECOND);
    scene.ask(4, beat(2));
    scene.pass(SECOND);
    scene.reply(id, stamped);
    let promised = [(3, 1, full()), (4, 2, full() - SECOND)];
    assert_eq!(acks(&mut scene), promised);
}

#[test]
fn a_resumed_hold_counts_from_when_the_resume_was_sent() {
    let mut scene = resuming_a();
    let (id, stamped) = scene.execute_next();
    scene.pass(SECOND);
    scene.reply(id, stamped);
    assert_eq!(opened(&mut scene).valid_for, Some(full()));
    // Its renewal fails, so that only the resume counts.
    scene.pass(TTL / 3);
    scene.ask(2, beat(1));
    scene.fail(unavailable());
    assert_eq!(acks(&mut scene), [(2, 1, full() - SECOND - TTL / 3)]);
}

#[test]
fn a_hand_off_counts_from_when_the_command_that_found_it_was_sent() {
    let (mut scene, ticket) = Scene::waiting_for("a", acquire("a"));
    let sent_at = scene.now;
    scene.pass(SECOND);
    scene.ask(3, beat(1));
    assert_eq!(acks(&mut scene), [(3, 1, full())]);
    scene.event(ticket, granted_then(sent_at));
    assert_eq!(scene.granted_for(2).1, full() - SECOND);
}

#[test]
fn what_was_taken_of_several_names_counts_from_when_its_renewal_was_sent() {
    let mut scene = Scene::open();
    scene.other_takes("b");
    let asked = AcquireRequest {
        actor: Actor::NOBODY,
        ..several(&["a", "b"])
    };
    let ticket = scene.queue(2, asked);
    scene.pass(TTL / 3);
    assert_eq!(scene.ops(), ["renew"]);
    let (id, stamped) = scene.execute_next();
    scene.pass(SECOND);
    scene.ask(3, beat(1));
    assert_eq!(acks(&mut scene), [(3, 1, full())]);
    scene.reply(id, stamped);
    let now = scene.now;
    scene.event(ticket, granted_then(now));
    assert_eq!(scene.granted_for(2).1, full() - SECOND);
}

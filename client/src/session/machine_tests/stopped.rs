//! Tests of a coordinator that stops on purpose, and of the holds and waits that it had.

use super::{
    life::{draining, released},
    moves::opened,
    *,
};
use crate::lease::LockState;

fn stop(session: &mut Session, now: u64) -> Vec<Seen> {
    session.stream_ends(now, StreamEnd::Stopped);
    session.seen()
}

#[test]
fn guards_stay_held_until_they_are_resumed_whatever_the_grace() {
    // A grace is about streams that break: a shorter one takes nothing away.
    for grace in [0, 1_000] {
        let mut session = Session::holding(grace);
        session.message(1_000, 0, draining());
        session.tick(1_000);
        session.ack(1_010, 1, 9_900);
        assert_eq!(stop(&mut session, 6_000), []);
        assert_eq!(session.state(9_000), LockState::Held);
        assert!(session.machine.is_orphaned(at(9_000)));
        assert!(session.machine.wants_connection());
        assert_eq!(session.connect_failed(9_000, true), []);
        let next = session.connect(9_100).unwrap().remove(0).2;
        assert_eq!(session.message(9_200, 1, opened(&[&next])), [Opened]);
        assert_eq!(session.held(18_999, 0), Ok(()));
        assert!(!session.machine.is_orphaned(at(9_200)));
    }
}

#[test]
fn the_word_of_the_coordinator_counts_although_draining_was_never_heard() {
    let mut session = Session::holding(0);
    assert_eq!(stop(&mut session, 1_000), []);
    assert_eq!(session.state(1_000), LockState::Held);
}

#[test]
fn a_guard_that_is_not_resumed_is_lost_at_its_own_deadline() {
    for grace in [0, 10_000] {
        let mut session = Session::holding(grace);
        session.message(1_000, 0, draining());
        stop(&mut session, 6_000);
        assert_eq!(session.held(9_899, 0), Ok(()));
        session.tick(9_900);
        assert_eq!(session.held(9_900, 0), Err(LostReason::Expired));
        // It is not asked for any more, but given back should it still be there.
        assert_eq!(session.connect(10_000), Some(Vec::new()));
        let seen = session.message(10_100, 1, opened(&[]));
        assert_eq!(seen, [Opened, Release(2, 1)]);
    }
}

#[test]
fn holds_that_the_next_coordinator_refuses_are_lost_for_its_reason() {
    let breaks: fn(&mut Session) = |session| session.stream_ended(1_000);
    let stops = |session: &mut Session| drop(stop(session, 1_000));
    for (grace, ends) in [(4_000, breaks), (0, stops)] {
        let mut session = Session::holding(grace);
        ends(&mut session);
        let next = session.connect(1_100).unwrap().remove(0).2;
        session.message(1_200, 1, opened_without(next, v1::LostReason::Taken));
        assert_eq!(session.held(1_200, 0), Err(LostReason::Taken));
    }
}

#[test]
fn a_connection_that_breaks_while_the_coordinator_drains_ends_the_guards() {
    // The coordinator may hear of that, and release everything at once.
    let mut session = Session::holding(0);
    session.message(1_000, 0, draining());
    session.stream_ended(1_100);
    assert_eq!(session.held(1_100, 0), Err(LostReason::SessionEnded));
    assert!(!session.machine.is_orphaned(at(1_100)));
}

#[test]
fn waits_go_on_in_their_places_and_tries_fail() {
    let mut session = Session::open_at(0);
    session.acquire(0, 1, None);
    session.acquire(0, 2, Some(20_000));
    session.acquire(0, 3, Some(0));
    session.message(10, 2, queued(&[9]));
    session.message(1_000, 0, draining());
    // Until it stops nothing is given up, though nobody else can be reached.
    assert_eq!(session.connect_failed(8_900, true), []);
    assert_eq!(
        stop(&mut session, 9_000),
        [Failed(3, "unavailable")],
        "it may have been granted"
    );
    assert!(session.machine.is_orphaned(at(18_999)));
    assert_eq!(session.connect_failed(11_000, true), []);
    let resumes = session.connect(12_000).unwrap();
    assert_eq!(resumes.len(), 1);
    let (ticket, _, next) = &resumes[0];
    assert_eq!(ticket, &[9]);
    // What has no ticket is asked for anew, for what is left of its wait.
    let seen = session.message(12_100, 1, opened_in_place(next));
    assert_eq!(seen, [Opened, asked(3, 2, Some(7_900))]);
}

#[test]
fn a_release_that_was_not_answered_is_asked_of_the_next_coordinator() {
    let mut session = Session::holding(0);
    session.message(1_000, 0, draining());
    session.tick(1_000);
    let seen = session.release(1_010, 0, Some(80));
    let [Release(_, 1)] = seen[..] else {
        panic!("{seen:?}");
    };
    assert_eq!(stop(&mut session, 1_020), []);
    assert_eq!(session.connect(4_000), Some(Vec::new()));
    let seen = session.message(4_100, 1, opened(&[]));
    assert_eq!(seen, [Opened, Release(2, 1)]);
    // The first one may have been carried out.
    assert_eq!(session.message(4_200, 2, released(false)), [Done(80)]);
}

#[test]
fn heartbeats_come_closer_together_while_the_coordinator_drains() {
    let mut session = Session::holding(0);
    assert_eq!(session.alarm(), Some(INTERVAL));
    session.message(1_000, 0, draining());
    assert_eq!(session.tick(1_000), [Heartbeat(1)]);
    assert_eq!(session.tick(2_999), []);
    assert_eq!(session.tick(3_000), [Heartbeat(2)]);
}

#[test]
fn a_hold_that_another_stream_resumed_unasked_is_lost() {
    let mut session = Session::holding(0);
    session.message(100, 0, lost(1, 1, v1::LostReason::Resumed));
    assert_eq!(session.held(100, 0), Err(LostReason::Resumed));
}

#[test]
fn messages_of_the_former_stream_about_a_moved_hold_are_ignored() {
    let mut session = Session::holding(0);
    let former = session.stream;
    session.message(10, 0, draining());
    let next = session.connect(20).unwrap().remove(0).2;
    session.message_on(30, former, 0, lost(1, 1, v1::LostReason::Resumed));
    assert_eq!(session.state(30), LockState::Held);
    session.message(40, 1, opened(&[&next]));
    session.message_on(50, former, 0, lost(1, 1, v1::LostReason::Resumed));
    assert_eq!(session.state(50), LockState::Held);
}

#[test]
fn a_hold_that_was_resumed_though_the_attempt_seemed_declined_is_lost() {
    // Whatever the reasons of failed attempts are taken to mean, the former coordinator knows better.
    let mut session = Session::holding(0);
    let former = session.stream;
    session.message(10, 0, draining());
    session.connect(20).unwrap();
    session.message_on(30, former, 0, lost(1, 1, v1::LostReason::Resumed));
    session.machine.attempt_failed(at(40), Fate::Declined);
    assert_eq!(session.held(40, 0), Err(LostReason::Resumed));
}

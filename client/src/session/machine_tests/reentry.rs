//! Holds that an actor has more than once: several guards under one owner id.

use super::{life::released, *};

const ACTOR: u64 = 5;

/// Returns a session that holds `lock1` twice under owner id 1, by the guards 0 and 1. The next request is 4.
fn held_twice() -> Session {
    let mut session = Session::open_at(0);
    session.ask(0, 1, reentrant(&[1], ACTOR));
    assert_eq!(session.grant_all(0, 2, &[(1, 1, 1)], 0), [Acquired(1)]);
    session.ask(0, 2, reentrant(&[1], ACTOR));
    assert_eq!(session.grant_all(0, 3, &[(1, 1, 2)], 0), [Acquired(2)]);
    session
}

fn release(id: u64) -> Seen {
    Release(id, 1)
}

fn counted_down(hold_count: u32) -> Response {
    Response::Released(v1::SessionReleased {
        released: true,
        hold_count,
    })
}

#[test]
fn each_guard_is_released_for_itself() {
    let mut session = held_twice();
    assert_eq!(session.release(1, 0, Some(80)), [release(4)]);
    assert_eq!(session.held(1, 0), Err(LostReason::Released));
    assert_eq!(session.held(1, 1), Ok(()));
    assert_eq!(session.message(2, 4, counted_down(1)), [Done(80)]);
    assert_eq!(session.held(2, 1), Ok(()));
    assert!(!session.machine.holds.is_empty());

    assert_eq!(session.release(3, 1, Some(81)), [release(5)]);
    assert_eq!(session.message(4, 5, counted_down(0)), [Done(81)]);
    assert!(session.machine.holds.is_empty());
}

#[test]
fn heartbeats_keep_every_guard() {
    let mut session = held_twice();
    session.tick(INTERVAL);
    session.ack(3_100, 1, 9_900);
    for guard in 0..2 {
        assert_eq!(session.lease(guard).alive(at(3_100)), Ok(at(12_900)));
    }
}

#[test]
fn a_loss_ends_every_guard_and_nothing_is_given_back() {
    let mut session = held_twice();
    let lost = lost(1, 1, v1::LostReason::Forced);
    assert_eq!(session.message(1, 0, lost), []);
    for guard in 0..2 {
        assert_eq!(session.held(1, guard), Err(LostReason::Forced));
        let seen = session.release(2, guard, Some(80));
        assert_eq!(seen, [HoldFailed(80, "lost")]);
    }
}

#[test]
fn an_answer_that_there_is_no_such_hold_ends_every_guard() {
    let no_value = Response::ValueSet(v1::SessionValueSet { value_set: false });
    let mut session = held_twice();
    session.change(1, 0, Change::Value(Vec::new()), 70);
    assert_eq!(session.message(2, 4, no_value), [HoldFailed(70, "lost")]);
    assert_eq!(session.held(2, 0), Err(LostReason::Unknown));
    assert_eq!(session.held(2, 1), Err(LostReason::Unknown));

    let mut session = held_twice();
    session.release(1, 0, Some(80));
    let seen = session.message(2, 4, released(false));
    assert_eq!(seen, [HoldFailed(80, "lost")]);
    assert_eq!(session.held(2, 1), Err(LostReason::Unknown));
    assert_eq!(session.release(3, 1, None), []);
}

#[test]
fn an_expired_hold_is_given_back_as_often_as_it_was_granted() {
    let mut session = held_twice();
    session.tick(INTERVAL);
    assert_eq!(session.ack(9_900, 1, 9_900), [release(5), release(6)]);
    for guard in 0..2 {
        assert_eq!(session.held(9_900, guard), Err(LostReason::Expired));
        assert_eq!(session.release(9_901, guard, None), []);
    }
}

#[test]
fn an_expired_hold_is_given_back_when_the_longest_lock_delay_has_passed() {
    let mut session = Session::open_at(0);
    session.ask(0, 1, reentrant(&[1], ACTOR));
    session.grant_all(0, 2, &[(1, 1, 1)], 0);
    let delayed = AcquireSpec {
        lock_delay: ms(50),
        ..reentrant(&[1], ACTOR)
    };
    session.ask(0, 2, delayed);
    session.grant_all(0, 3, &[(1, 1, 2)], 0);
    session.tick(INTERVAL);
    // One count goes, the hold stays.
    assert_eq!(session.ack(9_900, 1, 0), [release(5)]);
    assert_eq!(session.ack(9_949, 1, 0), []);
    assert_eq!(session.ack(9_950, 1, 0), [release(6)]);
}

#[test]
fn a_grant_that_crosses_a_cancellation_is_given_back_once() {
    let mut session = Session::open_at(0);
    session.ask(0, 1, reentrant(&[1], ACTOR));
    session.grant_all(0, 2, &[(1, 1, 1)], 0);
    session.ask(1, 2, reentrant(&[1], ACTOR));
    assert_eq!(session.cancel(2, 2), [Cancel(3)]);
    assert_eq!(session.grant_all(3, 3, &[(1, 1, 2)], 0), [release(5)]);
    assert_eq!(session.message(4, 5, counted_down(1)), []);
    assert_eq!(session.held(4, 0), Ok(()));
    assert_eq!(session.release(5, 0, Some(80)), [release(6)]);
}

#[test]
fn a_grant_that_comes_after_the_first_guard_has_gone_holds_on_alone() {
    let mut session = Session::open_at(0);
    session.ask(0, 1, reentrant(&[1], ACTOR));
    session.grant_all(0, 2, &[(1, 1, 1)], 0);
    session.ask(1, 2, reentrant(&[1], ACTOR));
    assert_eq!(session.release(1, 0, Some(80)), [release(4)]);
    session.grant_all(2, 3, &[(1, 1, 2)], 0);
    session.message(2, 4, counted_down(1));
    assert_eq!(session.held(2, 0), Err(LostReason::Released));
    assert_eq!(session.held(2, 1), Ok(()));
}

#[test]
fn the_last_release_is_repeated_until_it_is_served() {
    let mut session = held_twice();
    session.release(0, 0, None);
    session.release(0, 1, None);
    session.message(10, 4, counted_down(1));
    assert_eq!(session.failure(10, 5, tonic::Code::Unavailable), []);
    assert_eq!(session.tick(110), [release(6)]);
    assert_eq!(session.message(120, 6, counted_down(0)), []);
    assert_eq!(session.tick(2_900), []);
}

#[test]
fn an_actor_asks_anew_only_when_what_it_abandoned_has_been_answered() {
    let mut session = Session::open_at(0);
    let alone = |lock| AcquireSpec {
        actor: ACTOR,
        ..exclusive(&[lock])
    };
    session.ask(0, 1, alone(1));
    assert_eq!(session.cancel(1, 1), [Cancel(2)]);
    // The coordinator would take it for waiting still, or, where the grant crossed, for the holder.
    assert_eq!(session.ask(2, 2, alone(1)), []);
    let shared = in_mode(Mode::Shared, alone(2));
    assert_eq!(session.ask(2, 3, shared), []);
    assert_eq!(session.cancel(3, 3), []);
    // Others are not held up, and nobody is many.
    assert_eq!(session.acquire(3, 4, None), [asked(4, 4, None)]);
    assert_eq!(session.cancel(3, 4), [Cancel(4)]);
    assert_eq!(session.acquire(3, 5, None), [asked(6, 5, None)]);
    let seen = session.grant(4, 2, 1, 1, 0);
    assert_eq!(seen, [Release(7, 1), asked(8, 1, None)]);

    assert_eq!(session.cancel(5, 2), [Cancel(8)]);
    assert_eq!(session.ask(5, 6, alone(1)), []);
    session.machine.cancel(at(5), 6);
    assert_eq!(session.ask(5, 7, alone(1)), []);
    // That it is in the queue is no answer.
    let queued = Response::Queued(v1::SessionQueued::default());
    assert_eq!(session.message(6, 8, queued), []);
    let cancelled = not_granted(v1::AcquireOutcome::Cancelled);
    assert_eq!(session.message(7, 8, cancelled), [asked(10, 1, None)]);
    assert_eq!(session.grant(8, 10, 1, 2, 0), [Acquired(7)]);
}

#[test]
fn acquires_held_back_are_sent_on_the_next_stream_at_the_latest() {
    let mut session = Session::open_at(0);
    session.ask(0, 1, reentrant(&[1], ACTOR));
    session.cancel(1, 1);
    assert_eq!(session.ask(2, 2, reentrant(&[1], ACTOR)), []);
    session.stream_ended(3);
    assert_eq!(session.reopen(4), [Opened, asked(2, 1, None)]);
}

#[test]
fn acquires_held_back_for_too_long_end_with_their_wait() {
    let mut session = Session::open_at(0);
    session.ask(0, 1, reentrant(&[1], ACTOR));
    session.cancel(1, 1);
    let spec = AcquireSpec {
        wait: Some(ms(500)),
        ..reentrant(&[1], ACTOR)
    };
    assert_eq!(session.ask(2, 2, spec), []);
    assert_eq!(session.tick(501), []);
    assert_eq!(session.tick(502), [Failed(2, "unavailable")]);
    let cancelled = not_granted(v1::AcquireOutcome::Cancelled);
    assert_eq!(session.message(503, 2, cancelled), []);
}

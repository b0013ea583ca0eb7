//! Moves that the session makes only if it can: to newer credentials, or because its coordinator asks for it.

use super::{
    life::draining,
    moves::{heartbeat, opened},
    *,
};
use crate::lease::LockState;

/// Returns the wish of a coordinator that goes on serving.
fn asked_to_move() -> Response {
    Response::Draining(v1::SessionDraining {
        keeps_serving: true,
        ..Default::default()
    })
}

impl Session {
    /// Has every attempt of a round fail. Returns whether the session goes on with its stream.
    fn round_fails(&mut self, now: u64) -> bool {
        self.machine.connect_failed(at(now), &unreachable(true))
    }
}

#[test]
fn a_session_that_is_asked_to_move_moves_with_what_it_has_and_awaits() {
    let mut session = Session::holding(0);
    let former = session.stream;
    session.acquire(5, 2, None);
    session.message(6, 3, queued(&[9]));
    session.acquire(7, 3, Some(0));
    assert_eq!(session.message(10, 0, asked_to_move()), []);
    assert!(session.machine.wants_connection());
    // What is on its way settles first, and what crosses the wish is not put out by a drain.
    assert_eq!(session.connect(20), None);
    assert_eq!(session.acquire(22, 4, None), []);
    let cancelled = not_granted(v1::AcquireOutcome::Cancelled);
    session.say(25, former, 4, cancelled);
    assert!(matches!(
        session.machine.next_output(),
        Some(Output::Acquired(3, Err(_)))
    ));
    let resumes = session.asked().unwrap();
    let next: Vec<_> = resumes.iter().map(|(_, _, next)| next).collect();
    let place = v1::ResumedLock {
        name: "lock2".into(),
        what: Some(v1::resumed_lock::What::Position(1)),
        ..resumed_hold(next[1], None)
    };
    let both = opened_with(vec![resumed_hold(next[0], None), place]);
    let seen = session.message(30, 1, both);
    assert_eq!(seen, [Close, Opened, asked(3, 4, None)]);
    assert_eq!(session.state(30), LockState::Held);
    assert!(!session.machine.wants_connection());
}

#[test]
fn newer_credentials_are_moved_to_at_the_time_planned() {
    let mut session = Session::holding(0);
    session.machine.plan_move(at(10), at(2_000));
    session.machine.plan_move(at(1_010), at(9_000));
    assert_eq!(session.alarm(), Some(2_000));
    session.tick(1_999);
    assert!(!session.machine.wants_connection());
    session.tick(2_000);
    assert!(session.machine.wants_connection());
    let next = session.connect(2_010).unwrap().remove(0).2;
    assert_eq!(session.message(2_020, 1, opened(&[&next])), [Close, Opened]);
    assert!(!session.machine.wants_connection());
}

#[test]
fn acquires_are_put_off_only_while_there_is_a_stream_to_move_to() {
    let mut session = Session::holding(0);
    let former = session.stream;
    session.message(10, 0, asked_to_move());
    assert_eq!(session.acquire(20, 2, None), [asked(3, 2, None)]);
    session.message(25, 3, queued(&[9]));
    session.connect(30).unwrap();
    assert_eq!(session.acquire(40, 3, None), []);
    assert_eq!(session.release(40, 0, Some(80)), []);
    let refusal = v1::SessionFailure {
        code: tonic::Code::ResourceExhausted.into(),
        reason: "TOO_MANY_SESSIONS".into(),
        ..Default::default()
    };
    session.message_on(45, former, 0, heartbeat(0));
    let seen = session.message(50, 1, Response::Error(refusal));
    assert_eq!(seen, [Release(4, 1), asked(5, 3, None), HangUp]);
    assert!(session.round_fails(60));
    assert!(!session.machine.wants_connection());
}

#[test]
fn a_round_that_fails_is_followed_by_another_one_after_a_pause() {
    let mut session = Session::holding(0);
    session.message(10, 0, asked_to_move());
    for began in [100, 10_100] {
        assert!(session.machine.wants_connection());
        assert!(session.round_fails(began));
        for now in (began..began + 10_000).step_by(1_000) {
            session.tick(now);
            session.ack(now, (now - 100) / INTERVAL, 9_900);
            session.message(now, 0, asked_to_move());
            assert!(!session.machine.wants_connection());
        }
        session.tick(began + 9_999);
        assert!(!session.machine.wants_connection());
        session.tick(began + 10_000);
    }
    assert!(session.machine.wants_connection());
}

#[test]
fn a_real_drain_and_silence_are_left_although_no_coordinator_is_there() {
    for is_drain in [false, true] {
        let mut session = Session::holding(0);
        session.message(10, 0, asked_to_move());
        assert!(session.round_fails(20));
        if is_drain {
            assert_eq!(session.message(30, 0, draining()), [Draining]);
        } else {
            session.tick(5_000);
        }
        assert!(session.machine.wants_connection());
        assert!(!session.round_fails(5_010));
        assert!(session.machine.wants_connection());
        assert_eq!(session.acquire(5_020, 2, None), []);
    }
}

#[test]
fn a_drain_that_crosses_a_move_is_heard() {
    for (word, state) in [
        (draining(), Ok(())),
        (asked_to_move(), Err(LostReason::SessionEnded)),
    ] {
        let mut session = Session::holding(0);
        let former = session.stream;
        session.message(10, 0, asked_to_move());
        session.connect(20).unwrap();
        session.message_on(30, former, 0, word);
        session.machine.stream_ended_by(at(40), former, None);
        assert_eq!(session.held(40, 0), state);
    }
}

#[test]
fn a_coordinator_that_asks_has_not_said_that_it_stops() {
    let mut session = Session::open_at(0);
    // It has nothing, and is not closed for that.
    assert_eq!(session.message(10, 0, asked_to_move()), []);
    assert_eq!(session.alarm(), Some(INTERVAL));
    session.acquire(20, 1, None);
    session.grant(30, 2, 1, 1, 0);
    let end = session
        .machine
        .stream_ended_by(at(40), session.stream, None);
    assert_eq!(end, StreamEnd::Left);
    assert_eq!(session.held(40, 0), Err(LostReason::SessionEnded));
}

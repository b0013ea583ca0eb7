//! Rests: a session that has nothing sends fewer heartbeats, and none of its deadlines is at stake.

use super::*;

const REST: u64 = 30_000;

/// Answers a heartbeat of a session that has nothing, as far as the coordinator knows.
fn let_rest(session: &mut Session, now: u64, sequence: u64) {
    let ack = v1::SessionHeartbeatAck {
        acked_heartbeat: sequence,
        valid_for: wire_ms(9_900),
        next_within: wire_ms(REST),
    };
    session.message(now, 0, Response::Heartbeat(ack));
}

/// Returns a session that rests since its first heartbeat.
fn resting() -> Session {
    let mut session = Session::open_at(0);
    session.tick(INTERVAL);
    let_rest(&mut session, INTERVAL + 10, 1);
    session
}

#[test]
fn an_idle_session_sends_its_next_heartbeat_when_the_rest_is_over() {
    let mut session = resting();
    assert_eq!(session.alarm(), Some(INTERVAL + REST));
    assert_eq!(session.tick(INTERVAL + REST - 1), []);
    assert_eq!(session.tick(INTERVAL + REST), [Heartbeat(2)]);
    // Unanswered, as any other.
    session.tick(INTERVAL + REST + TTL - 1);
    assert_eq!(session.tick(INTERVAL + REST + TTL), [HangUp]);
}

#[test]
fn a_heartbeat_goes_before_the_acquire_that_ends_a_rest() {
    let mut session = resting();
    let seen = session.acquire(20_000, 1, None);
    assert!(
        matches!(seen[..], [Heartbeat(2), Acquire { .. }]),
        "{seen:?}"
    );
    assert_eq!(session.tick(20_000 + INTERVAL), [Heartbeat(3)]);
    let Acquire { id, .. } = seen[1] else {
        unreachable!()
    };
    session.grant(20_000 + INTERVAL, id, 1, 1, 2);
    session.ack(20_000 + INTERVAL, 3, 9_900);
    assert_eq!(session.alarm(), Some(20_000 + 2 * INTERVAL));
}

#[test]
fn an_acquire_soon_after_a_heartbeat_needs_no_other() {
    let mut session = resting();
    let seen = session.acquire(INTERVAL + 100, 1, None);
    assert!(matches!(seen[..], [Acquire { .. }]), "{seen:?}");
    assert_eq!(session.tick(2 * INTERVAL), [Heartbeat(2)]);
}

#[test]
fn a_session_that_has_asked_for_something_meanwhile_does_not_rest() {
    let mut session = Session::open_at(0);
    session.tick(INTERVAL);
    session.acquire(INTERVAL + 5, 1, None);
    let_rest(&mut session, INTERVAL + 10, 1);
    assert_eq!(session.tick(2 * INTERVAL), [Heartbeat(2)]);
}

#[test]
fn silence_while_resting_is_none() {
    let mut session = resting();
    assert_eq!(session.tick(INTERVAL + TTL), []);
    session.acquire(20_000, 1, None);
    assert_eq!(session.tick(20_000 + TTL / 2 - 1).len(), 1);
    // The heartbeat before the acquire is not answered.
    session.tick(20_000 + TTL - 1);
    assert!(session.tick(20_000 + TTL).contains(&HangUp));
}

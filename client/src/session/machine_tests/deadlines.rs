//! Tests of deadlines: the end of a hold, and the answers that extend it.

use super::*;

#[test]
fn deadlines_count_from_when_the_acknowledged_heartbeat_was_sent() {
    let mut session = Session::open_at(0);
    assert_eq!(session.acquire(100, 1, None), [asked(2, 1, None)]);
    assert_eq!(session.grant(200, 2, 1, 1, 0), [Acquired(1)]);
    assert_eq!(session.lease(0).alive(at(200)), Ok(at(9_900)));

    assert_eq!(session.tick(INTERVAL), [Heartbeat(1)]);
    session.ack(3_100, 1, 9_900);
    assert_eq!(session.lease(0).alive(at(3_100)), Ok(at(12_900)));
}

#[test]
fn deadlines_are_not_moved_by_answers_to_heartbeats_that_were_never_sent() {
    let mut session = Session::holding(0);
    session.ack(1_000, 5, 60_000);
    session.ack(1_000, u64::MAX, 60_000);
    assert_eq!(session.lease(0).alive(at(1_000)), Ok(at(9_900)));
}

#[test]
fn deadlines_end_a_hold_although_an_answer_comes_a_moment_later() {
    let mut session = Session::holding(0);
    session.tick(INTERVAL);
    // As after a pause: the answer has been lying there, and nobody looked at the clock meanwhile. The coordinator
    // goes on renewing what nobody holds, so it is given back.
    assert_eq!(session.ack(9_900, 1, 9_900), [Release(4, 1)]);
    assert_eq!(session.lease(0).alive(at(9_900)), Err(LostReason::Expired));
}

#[test]
fn deadlines_of_a_hold_with_a_lock_delay_give_it_back_when_that_has_passed() {
    let mut session = Session::open_at(0);
    session.acquire_with_delay(0, 1, None, 2_000);
    session.grant(0, 2, 1, 1, 0);
    session.tick(INTERVAL);
    session.ack(9_000, 9, 0);
    assert!(!session.tick(9_900).contains(&Release(4, 1)));
    assert_eq!(session.lease(0).alive(at(9_900)), Err(LostReason::Expired));
    let stream = session.machine.stream.as_mut().unwrap();
    stream.opened.as_mut().unwrap().silent_from = at(9_900);
    let seen = session.tick(11_900);
    let is_release = |seen: &Seen| matches!(seen, Release(_, 1));
    assert!(seen.iter().any(is_release), "{seen:?}");
}

/// Grants `lock1` with a bound.
fn grant_bounded(session: &mut Session, now: u64, ends_in: u64) {
    session.acquire(now, 1, None);
    let bounded = v1::BoundedLock {
        owner_id: vec![1],
        ends_in: wire_ms(ends_in),
    };
    let granted = v1::SessionGranted {
        locks: vec![granted_lock((1, 1, 1))],
        bounded: vec![bounded],
        valid_for: wire_ms(9_900),
        acked_heartbeat: 0,
    };
    let seen = session.message(now, 2, Response::Granted(granted));
    assert_eq!(seen, [Acquired(1)]);
}

#[test]
fn deadlines_never_pass_a_bound_which_counts_from_the_acknowledged_heartbeat() {
    let mut session = Session::open_at(0);
    grant_bounded(&mut session, 200, 11_000);
    assert_eq!(session.lease(0).alive(at(200)), Ok(at(9_900)));
    session.tick(INTERVAL);
    session.ack(3_100, 1, 9_900);
    assert_eq!(session.lease(0).alive(at(3_100)), Ok(at(11_000)));
    assert_eq!(session.lease(0).ends_in(at(4_000)), Some(ms(7_000)));
    for beat in 2..4 {
        session.tick(INTERVAL * beat);
        session.ack(INTERVAL * beat + 1, beat, 9_900);
    }
    assert_eq!(session.tick(9_900), []);
    assert_eq!(session.alarm(), Some(11_000));
    // It is given back at its end, and the session goes on.
    let seen = session.tick(11_000);
    let is_release = |seen: &Seen| matches!(seen, Release(_, 1));
    assert!(seen.iter().any(is_release), "{seen:?}");
    assert_eq!(session.held(11_000, 0), Err(LostReason::MaxHold));
}

#[test]
fn deadlines_of_a_bound_stay_or_come_closer_when_another_stream_resumes_the_hold() {
    for (told, ends_at) in [(None, 11_000), (Some(20_000), 11_000), (Some(6_000), 7_000)] {
        let mut session = Session::open_at(0);
        grant_bounded(&mut session, 0, 11_000);
        let resumes = session.connect(1_000).unwrap();
        let (_, _, next) = &resumes[0];
        let opened = opened_with(vec![resumed_hold(next, told)]);
        // All counts from when the `open` was sent.
        session.message(1_500, 1, opened);
        let ends_in = session.lease(0).ends_in(at(1_500));
        assert_eq!(ends_in, Some(ms(ends_at - 1_500)));
        let deadline = ends_at.min(10_900);
        assert_eq!(session.lease(0).alive(at(1_500)), Ok(at(deadline)));
    }
}

#[test]
fn deadlines_ring_the_alarm() {
    let mut session = Session::open_at(0);
    assert_eq!(session.alarm(), Some(INTERVAL));
    session.acquire(0, 1, None);
    session.grant(0, 2, 1, 1, 0);
    session.tick(INTERVAL);
    session.tick(2 * INTERVAL);
    session.tick(3 * INTERVAL);
    assert_eq!(session.alarm(), Some(9_900));
}

#[test]
fn heartbeats_go_out_at_their_interval_and_not_faster() {
    let mut session = Session::open_at(0);
    assert_eq!(session.tick(INTERVAL - 1), []);
    assert_eq!(session.tick(INTERVAL), [Heartbeat(1)]);
    assert_eq!(session.tick(INTERVAL + 1), []);
    assert_eq!(session.tick(2 * INTERVAL), [Heartbeat(2)]);
}

#[test]
fn heartbeats_unanswered_for_a_ttl_give_the_stream_up() {
    let mut session = Session::open_at(0);
    session.tick(INTERVAL);
    session.ack(3_100, 1, 9_900);
    assert_eq!(session.tick(3_100 + TTL - 1), [Heartbeat(2)]);
    assert_eq!(session.tick(3_100 + TTL), [HangUp]);
    assert!(!session.machine.is_open());
}

#[test]
fn an_open_that_is_not_answered_gives_the_stream_up() {
    let mut session = Session::new();
    session.stream = session.machine.connected(at(0), "http://test".into());
    assert_eq!(session.seen(), [Open]);
    assert_eq!(session.alarm(), Some(5_000));
    assert_eq!(session.tick(5_000), [HangUp]);
}

//! Releases, the ends of streams, reconnects, drains and closing.

use super::*;

pub(super) fn released(released: bool) -> Response {
    Response::Released(v1::SessionReleased {
        released,
        hold_count: 0,
    })
}

pub(super) fn draining() -> Response {
    Response::Draining(v1::SessionDraining {
        deadline: wire_ms(8_000),
        ..Default::default()
    })
}

#[test]
fn a_release_is_confirmed_or_found_lost() {
    let mut session = Session::holding(0);
    assert_eq!(session.release(1, 0, Some(80)), [Release(3, 1)]);
    assert_eq!(session.message(2, 3, released(true)), [Done(80)]);

    session.acquire(3, 2, None);
    session.grant(3, 4, 2, 2, 0);
    assert_eq!(session.release(4, 1, Some(81)), [Release(5, 2)]);
    let seen = session.message(5, 5, released(false));
    assert_eq!(seen, [HoldFailed(81, "lost")]);
}

#[test]
fn a_release_that_cannot_be_served_is_repeated_until_it_is() {
    let mut session = Session::holding(0);
    session.release(0, 0, Some(80));
    let seen = session.failure(10, 3, tonic::Code::Unavailable);
    assert_eq!(seen, [HoldFailed(80, "refused")]);
    assert_eq!(session.alarm(), Some(110));
    assert_eq!(session.tick(109), []);
    assert_eq!(session.tick(110), [Release(4, 1)]);
    session.failure(120, 4, tonic::Code::Unavailable);
    assert_eq!(session.tick(320), [Release(5, 1)]);
    assert_eq!(session.message(330, 5, released(true)), []);
    assert_eq!(session.tick(2_900), []);
}

#[test]
fn requests_without_an_answer_in_time_are_unconfirmed_and_go_on() {
    let mut session = Session::holding(0);
    session.acquire(0, 2, None);
    session.grant(0, 3, 2, 2, 0);
    session.change(1_000, 1, Change::Downgrade, 90);
    session.release(2_000, 0, Some(80));
    session.ack(2_000, 0, 60_000);
    let mut seen = Vec::new();
    for now in [10_999, 11_000, 11_999, 12_000] {
        session.ack(now, 0, 60_000);
        let replies = session.tick(now).into_iter();
        seen.extend(replies.filter(|seen| matches!(seen, HoldFailed(..))));
        let expected = match now {
            10_999 => 0,
            11_000 | 11_999 => 1,
            _ => 2,
        };
        assert_eq!(seen.len(), expected, "{seen:?} at {now}");
    }
    assert_eq!(
        seen,
        [HoldFailed(90, "unconfirmed"), HoldFailed(80, "unconfirmed")]
    );
    // The answers come after all, to nobody.
    let downgraded = Response::Downgraded(v1::SessionDowngraded { downgraded: true });
    assert_eq!(session.message(12_100, 4, downgraded), []);
    assert_eq!(session.message(12_100, 5, released(true)), []);
    assert!(!session.machine.is_unsettled());
}

#[test]
fn the_end_of_the_stream_loses_every_lock_and_repeats_every_wait() {
    let mut session = Session::holding(0);
    session.acquire(100, 2, None);
    session.acquire(100, 3, Some(5_000));
    session.acquire(100, 4, Some(0));
    session.acquire(100, 5, None);
    session.machine.cancel(at(100), 5);
    session.change(100, 0, Change::Value(Vec::new()), 90);

    session.stream_ended(200);
    assert_eq!(session.held(200, 0), Err(LostReason::SessionEnded));
    let mut seen = session.seen();
    seen.sort_by_key(|seen| format!("{seen:?}"));
    assert_eq!(
        seen,
        [Failed(4, "unavailable"), HoldFailed(90, "unconfirmed")]
    );
    // Numbers begin anew, and the wait is what is left of it.
    let seen = session.reopen(1_100);
    assert_eq!(seen, [Opened, asked(2, 2, None), asked(3, 3, Some(4_000))]);
    // The guard of the old stream goes; nothing is asked about it on the new one.
    let seen = session.release(1_200, 0, Some(80));
    assert_eq!(seen, [HoldFailed(80, "lost")]);
}

#[test]
fn answers_to_what_an_old_stream_was_asked_mean_nothing_on_a_new_one() {
    let mut session = Session::open_at(0);
    session.tick(INTERVAL);
    session.stream_ended(3_100);
    session.reopen(4_000);
    session.acquire(4_000, 1, None);
    session.grant(4_000, 2, 1, 1, 0);
    // Heartbeat 1 was sent on the old stream only.
    session.ack(4_100, 1, 60_000);
    assert_eq!(session.lease(0).alive(at(4_100)), Ok(at(13_900)));
}

#[test]
fn without_a_connection_waits_end_by_our_own_clock() {
    let mut session = Session::new();
    assert_eq!(session.acquire(0, 1, Some(500)), []);
    assert_eq!(session.alarm(), Some(500));
    assert_eq!(session.connect_failed(100, true), []);
    assert_eq!(session.tick(499), []);
    assert_eq!(session.tick(500), [Failed(1, "unavailable")]);
}

#[test]
fn a_failed_attempt_to_connect_fails_tries_and_a_hopeless_one_everybody() {
    let mut session = Session::new();
    session.acquire(0, 1, Some(0));
    session.acquire(0, 2, None);
    assert_eq!(session.alarm(), None);
    let seen = session.connect_failed(100, true);
    assert_eq!(seen, [Failed(1, "unavailable")]);
    let seen = session.connect_failed(200, false);
    assert_eq!(seen, [Failed(2, "unavailable")]);
}

#[test]
fn an_acquire_that_is_not_answered_ends_a_while_after_its_wait() {
    let mut session = Session::open_at(0);
    session.acquire(0, 1, Some(500));
    session.acquire(0, 2, Some(0));
    session.tick(500);
    assert_eq!(session.seen(), []);
    assert_eq!(session.tick(2_000), [Cancel(3), Failed(2, "unavailable")]);
    assert_eq!(session.alarm(), Some(2_500));
    assert_eq!(session.tick(2_500), [Cancel(2), Failed(1, "unavailable")]);
    // The grant crossed: it is given back.
    assert_eq!(session.grant(2_600, 2, 1, 1, 0), [Release(6, 1)]);
}

#[test]
fn a_drain_is_left_when_nothing_is_held_and_waits_move_on() {
    let mut session = Session::holding(0);
    session.acquire(0, 2, None);
    assert_eq!(session.message(1, 0, draining()), [Draining]);
    // New ones are kept for the next coordinator; a try does not wait where there is none.
    assert_eq!(session.acquire(2, 3, None), []);
    assert_eq!(session.acquire(2, 4, Some(0)), []);
    assert!(session.machine.wants_connection());
    assert_eq!(session.connect_failed(2, true), [Failed(4, "unavailable")]);
    // The coordinator puts its waiters out.
    let cancelled = not_granted(v1::AcquireOutcome::Cancelled);
    assert_eq!(session.message(3, 3, cancelled), []);
    assert_eq!(session.lease(0).alive(at(3)), Ok(at(9_900)));

    assert_eq!(session.release(4, 0, Some(80)), [Release(4, 1)]);
    assert_eq!(session.message(5, 4, released(true)), [Done(80), Close]);
    let closed = Response::Closed(v1::SessionClosed {});
    assert_eq!(session.message(6, 5, closed), [HangUp]);
    let seen = session.reopen(100);
    assert_eq!(seen, [Opened, asked(2, 2, None), asked(3, 3, None)]);
}

#[test]
fn a_close_that_is_not_answered_cuts_the_stream() {
    let mut session = Session::open_at(0);
    assert_eq!(session.message(1, 0, draining()), [Draining, Close]);
    assert_eq!(session.alarm(), Some(2_001));
    assert_eq!(session.tick(2_001), [HangUp]);
}

#[test]
fn closing_tells_guards_first_then_the_coordinator() {
    let mut session = Session::holding(0);
    session.acquire(0, 2, None);
    session.machine.close(at(1));
    assert_eq!(session.held(1, 0), Err(LostReason::SessionClosed));
    assert_eq!(session.seen(), [Failed(2, "closed"), Close]);
    assert_eq!(session.acquire(2, 3, None), [Failed(3, "closed")]);
    assert_eq!(session.release(2, 0, None), []);
    let closed = Response::Closed(v1::SessionClosed {});
    assert_eq!(session.message(3, 4, closed), [Ended, HangUp]);
}

#[test]
fn closing_without_a_connection_ends_at_once() {
    let mut session = Session::new();
    session.machine.close(at(1));
    assert_eq!(session.seen(), [Ended]);
}

#[test]
fn closing_on_the_way_closes_both_streams() {
    let mut session = Session::holding(0);
    session.message(1, 0, draining());
    session.stream = session.machine.connected(at(2), "http://test".into());
    assert_eq!(session.seen(), [Open]);
    session.machine.close(at(3));
    assert_eq!(session.seen(), [Close, Leave, Close]);

    // Nothing is asked of this one.
    let mut session = Session::new();
    session.machine.connected(at(0), "http://test".into());
    session.machine.close(at(1));
    assert_eq!(session.seen(), [Open, HangUp, Ended]);
}

#[test]
fn only_what_is_said_before_anything_is_done_declines_a_resume() {
    use tonic::Code;

    let fate = |code: Code, reason: &str| {
        Fate::of(&ConnectError::Refused {
            endpoint: "http://test".into(),
            source: Failure::from_session(v1::SessionFailure {
                code: code as i32,
                reason: reason.into(),
                ..Default::default()
            }),
        })
    };
    for reason in [
        "INVALID_FIELD",
        "TOO_MANY_LOCKS",
        "DRAINING",
        "OPEN_TIMEOUT",
    ] {
        assert_eq!(fate(Code::Unavailable, reason), Fate::Declined, "{reason}");
    }
    for reason in ["STORE_INDETERMINATE", "NOT_REPLICATED", "LIMIT_MISMATCH"] {
        assert_eq!(
            fate(Code::FailedPrecondition, reason),
            Fate::Kept,
            "{reason}"
        );
    }
    assert_eq!(fate(Code::PermissionDenied, ""), Fate::Declined);
    assert_eq!(fate(Code::Unavailable, ""), Fate::Dropped);
}

#[test]
fn a_refused_open_is_reported_with_its_reason() {
    let mut session = Session::new();
    session.stream = session.machine.connected(at(0), "http://test".into());
    session.seen();
    let failure = v1::SessionFailure {
        code: tonic::Code::InvalidArgument as i32,
        reason: "INVALID_FIELD".into(),
        message: "open.ttl is out of bounds".into(),
        ..Default::default()
    };
    session.say(1, session.stream, 1, Response::Error(failure));
    let Some(Output::HangUp(_, Some(error))) = session.machine.next_output() else {
        panic!("expected the stream to be given up");
    };
    assert!(!error.is_retryable());
    let ConnectError::Refused { source, .. } = error else {
        panic!("expected a refusal, got {error:?}");
    };
    assert_eq!(source.reason(), "INVALID_FIELD");
}

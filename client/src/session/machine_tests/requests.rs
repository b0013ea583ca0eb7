//! Tests of requests and their answers.

use super::*;

#[test]
fn grants_that_cross_a_cancellation_are_given_back() {
    let mut session = Session::open_at(0);
    session.acquire(0, 1, None);
    assert_eq!(session.cancel(1, 1), [Cancel(2)]);
    assert_eq!(session.grant(2, 2, 1, 1, 0), [Release(4, 1)]);
}

#[test]
fn what_a_stream_broke_on_is_not_asked_again() {
    for (reason, is_about_it) in [("MESSAGE_TOO_LARGE", true), ("STORE_UNAVAILABLE", false)] {
        let mut session = Session::open_at(0);
        session.acquire(0, 1, None);
        session.acquire(0, 2, None);
        // The coordinator has heard the first one.
        session.message(1, 2, Response::Queued(v1::SessionQueued::default()));
        let failure = Failure::from_session(v1::SessionFailure {
            code: tonic::Code::ResourceExhausted as i32,
            reason: reason.into(),
            ..Default::default()
        });
        let stream = session.stream;
        session
            .machine
            .stream_ended_by(at(2), stream, Some(&failure));
        let seen = session.seen();
        let refused = seen.contains(&Failed(2, "refused"));
        assert_eq!(refused, is_about_it, "{seen:?}");
        assert!(!seen.contains(&Failed(1, "refused")), "{seen:?}");
    }
}

#[test]
fn grants_that_nobody_asked_for_are_given_back() {
    let mut session = Session::open_at(0);
    assert_eq!(session.grant(2, 99, 1, 1, 0), [Release(2, 1)]);
}

#[test]
fn grants_of_another_lock_are_given_back_and_reported() {
    let mut session = Session::open_at(0);
    session.acquire(0, 1, None);
    let seen = session.grant(2, 2, 5, 1, 0);
    assert_eq!(seen, [Release(3, 1), Failed(1, "refused")]);
}

#[test]
fn grants_that_come_too_late_to_be_used_are_given_back_and_asked_for_again() {
    let mut session = Session::open_at(0);
    session.acquire(0, 1, Some(60_000));
    session.acquire(0, 2, Some(0));
    let seen = session.grant(9_900, 2, 1, 1, 0);
    assert_eq!(seen, [Release(4, 1), asked(5, 1, Some(50_100))]);
    let seen = session.grant(9_900, 3, 2, 2, 0);
    assert_eq!(seen, [Release(6, 2), Failed(2, "unavailable")]);
}

#[test]
fn grants_are_answered_once() {
    let mut session = Session::holding(0);
    assert_eq!(session.cancel(2, 1), []);
}

#[test]
fn answers_tell_busy_from_timed_out_by_what_was_asked() {
    let mut session = Session::open_at(0);
    assert_eq!(session.acquire(0, 1, Some(0)), [asked(2, 1, Some(0))]);
    assert_eq!(session.acquire(0, 2, Some(50)), [asked(3, 2, Some(50))]);
    let busy = not_granted(v1::AcquireOutcome::Busy);
    assert_eq!(session.message(1, 2, busy.clone()), [Failed(1, "busy")]);
    assert_eq!(session.message(1, 3, busy), [Failed(2, "timed out")]);
}

#[test]
fn answers_that_one_request_failed_concern_that_one_alone() {
    let mut session = Session::open_at(0);
    session.acquire(0, 1, None);
    session.acquire(0, 2, None);
    session.grant(1, 3, 2, 1, 0);
    let seen = session.failure(2, 2, tonic::Code::InvalidArgument);
    assert_eq!(seen, [Failed(1, "refused")]);
    assert_eq!(session.lease(0).alive(at(2)), Ok(at(9_900)));
}

#[test]
fn answers_that_a_lock_is_lost_end_it_with_their_reason() {
    let mut session = Session::holding(0);
    let lost = lost(1, 1, v1::LostReason::Forced);
    assert_eq!(session.message(2, 0, lost), []);
    assert_eq!(session.lease(0).alive(at(2)), Err(LostReason::Forced));
    // Its guard goes later; there is nothing to release.
    assert_eq!(session.release(3, 0, None), []);
}

#[test]
fn answers_to_a_value_set_that_find_no_hold_end_it() {
    let mut session = Session::holding(0);
    let value = || Change::Value(b"x".to_vec());
    assert_eq!(session.change(2, 0, value(), 70), [SetValue(3)]);
    assert_eq!(session.change(2, 0, value(), 71), [SetValue(4)]);
    let answer = |value_set| Response::ValueSet(v1::SessionValueSet { value_set });
    assert_eq!(session.message(3, 3, answer(true)), [Done(70)]);
    let seen = session.message(3, 4, answer(false));
    assert_eq!(seen, [HoldFailed(71, "lost")]);
    assert_eq!(session.lease(0).alive(at(3)), Err(LostReason::Unknown));
}

#[test]
fn a_wait_goes_on_while_the_store_is_down() {
    let away = tonic::Code::Unavailable;
    let mut session = Session::open_at(0);
    session.acquire(0, 1, None);
    assert_eq!(session.failure(10, 2, away), []);
    assert_eq!(session.alarm(), Some(110));
    assert_eq!(session.tick(109), []);
    assert_eq!(session.tick(110), [asked(3, 1, None)]);
    // Pauses grow, and begin anew when it has a place.
    session.failure(120, 3, away);
    assert_eq!(session.alarm(), Some(320));
    assert_eq!(session.tick(320), [asked(4, 1, None)]);
    session.message(330, 4, queued(&[9]));
    session.failure(340, 4, away);
    assert_eq!(session.alarm(), Some(440));
    // Another stream is asked at once.
    session.stream_ended(350);
    assert_eq!(session.reopen(360), [Opened, asked(2, 1, None)]);
    assert_eq!(session.grant(370, 2, 1, 1, 0), [Acquired(1)]);

    // These fail at once, and a wait with its end; a cancelled one is not asked for again.
    let mut session = Session::open_at(0);
    session.acquire(0, 1, Some(0));
    assert_eq!(session.failure(10, 2, away), [Failed(1, "refused")]);
    let spec = AcquireSpec {
        without_retries: true,
        ..exclusive(&[2])
    };
    session.ask(20, 2, spec);
    assert_eq!(session.failure(30, 3, away), [Failed(2, "refused")]);
    session.acquire(40, 3, Some(60));
    session.failure(50, 4, away);
    assert_eq!(session.tick(100), [Failed(3, "refused")]);
    session.acquire(110, 4, None);
    session.failure(120, 5, away);
    session.cancel(130, 4);
    assert_eq!(session.tick(300), []);
    session.acquire(310, 5, None);
    let limit = tonic::Code::ResourceExhausted;
    assert_eq!(session.failure(320, 6, limit), [Failed(5, "limit reached")]);
}

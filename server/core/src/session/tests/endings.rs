//! Ends of a session by a close, a coordinator that stops, or an operator, and the end of its locks and acquires.

use super::*;

#[test]
fn a_close_gives_everything_back_before_it_is_answered() {
    let (mut scene, held) = Scene::holding("a");
    scene.wait_for(3, "b");
    scene.ask(4, Request::Acquire(acquire("c")));
    scene.ask(5, Request::Close(Closer::Client));
    assert_eq!(scene.session.phase(), Phase::Closing);
    while !scene.sent.is_empty() {
        assert!(scene.ended_stream.is_none());
        scene.answer();
    }
    // Also what was granted only now: its client does not hear of it.
    assert_eq!(scene.cleanups.len(), 1);
    assert_eq!(scene.cleanups[0].name, name("c"));
    assert_eq!(scene.said_in_short(), [(3, "cancelled"), (5, "closed")]);
    assert_eq!(scene.ended_stream, Some(None));
    assert_eq!(scene.session.phase(), Phase::Ended);
    assert!(!scene.registered.contains_key(&held));
    assert_eq!((scene.holders("a"), scene.waiters("b")), (0, 0));
}

#[test]
fn a_close_does_not_wait_for_ever() {
    let (mut scene, held) = Scene::holding("a");
    scene.ask(3, Request::Close(Closer::Client));
    scene.pass(STORE_TIMEOUT * 2 - Duration::from_millis(1));
    assert_eq!(scene.said(), []);
    scene.pass(Duration::from_millis(1));
    assert_eq!(scene.said(), [(3, Response::Closed)]);
    assert_eq!(scene.released(), [(held, End::Clean)]);
}

#[test]
fn what_was_revoked_outlasts_a_close_unless_the_client_itself_closes() {
    for (closer, end) in [
        (Closer::Client, End::Clean),
        (Closer::Adapter, End::Unclean),
    ] {
        let (mut scene, _) = Scene::holding("a");
        scene.revise(|_, _| false);
        scene.said();
        scene.ask(3, Request::Close(closer));
        assert_eq!(scene.said(), [(3, Response::Closed)]);
        assert_eq!(scene.cleanups.is_empty(), closer == Closer::Adapter);
        scene.pass(TTL);
        assert_eq!(scene.cleanups[0].end, end);
        assert_eq!(scene.session.phase(), Phase::Ended);
    }
}

#[test]
fn a_coordinator_that_stops_leaves_holds_and_places_to_be_resumed() {
    let (mut scene, _) = Scene::holding("a");
    scene.wait_for(3, "b");
    scene.ask(4, Request::Acquire(acquire("c")));
    scene.handle(Input::Stopping);
    assert_eq!(scene.ended_stream, Some(Some(Refused::Stopped)));
    assert_eq!(scene.session.phase(), Phase::Ended);
    // The client has no ticket for the one on its way.
    assert_eq!(scene.cleanups.len(), 1);
    assert_eq!(scene.cleanups[0].name, name("c"));
    assert_eq!((scene.holders("a"), scene.waiters("b")), (1, 1));
}

#[test]
fn a_place_whose_ticket_is_not_told_is_given_up_when_the_coordinator_stops() {
    let mut scene = Scene::configured(|config| config.tells_tickets = false);
    let ticket = scene.wait_for(3, "b");
    scene.handle(Input::Stopping);
    assert_eq!(scene.cleanups[0].owner, ticket);
}

#[test]
fn a_session_without_a_stream_stops_as_well() {
    for end in [StreamEnd::ByPeer, StreamEnd::Cut] {
        let (mut scene, _) = Scene::holding("a");
        scene.end_stream(end);
        scene.handle(Input::Stopping);
        assert_eq!(scene.session.phase(), Phase::Ended);
        assert!(scene.cleanups.is_empty(), "{end:?}");
    }
}

#[test]
fn a_session_is_told_how_long_it_may_still_be_served() {
    let mut scene = Scene::open();
    let draining = Draining {
        deadline: Duration::from_secs(5),
        keeps_serving: false,
    };
    scene.handle(Input::Draining(draining));
    assert_eq!(scene.said(), [(0, Response::Draining(draining))]);
    assert_eq!(scene.session.phase(), Phase::Open);
}

#[test]
fn a_driver_that_is_dropped_leaves_nothing() {
    let (mut scene, _) = Scene::holding("a");
    scene.wait_for(3, "b");
    scene.ask(4, Request::Close(Closer::Client));
    scene.terminate();
    assert_eq!(scene.session.phase(), Phase::Ended);
    assert_eq!(scene.cleanups.len(), 2);
    // Once.
    scene.terminate();
    assert_eq!(scene.cleanups.len(), 2);
}

#[test]
fn what_waits_for_admission_ends_at_once_when_the_session_closes_or_may_not_have_it() {
    let mut scene = Scene::open();
    scene.room = 0;
    scene.ask(2, Request::Acquire(acquire("a")));
    scene.ask(3, Request::Acquire(acquire("b")));
    scene.revise(|of, _| *of != name("a"));
    let denied = Refused::PermissionDenied(name("a"));
    assert_eq!(scene.said(), [(2, Response::Refused(denied))]);
    scene.ask(4, Request::Close(Closer::Client));
    assert_eq!(scene.said_in_short(), [(3, "cancelled"), (4, "closed")]);
    assert!(scene.sent.is_empty() && scene.registered.is_empty());
    assert_eq!(scene.session.phase(), Phase::Ended);
}

#[test]
fn a_session_that_closes_goes_on_closing_when_it_is_to_end_otherwise() {
    for end in [Input::Stopping, Input::EndedByOperator] {
        let (mut scene, _) = Scene::holding("a");
        scene.ask(3, Request::Close(Closer::Client));
        scene.handle(end.clone());
        assert_eq!(scene.session.phase(), Phase::Closing);
        assert_eq!(scene.ended_stream, None);
        scene.answer();
        assert_eq!(scene.said(), [(3, Response::Closed)]);
        assert_eq!(scene.session.phase(), Phase::Ended);
        assert_eq!(scene.ended_stream, Some(None));
        scene.handle(end);
        assert!(scene.cleanups.is_empty());
    }
}

#[test]
fn a_release_that_is_under_way_goes_on_as_one_when_the_session_ends() {
    let (mut scene, owner) = Scene::holding("a");
    scene.release(3, "a", owner);
    scene.terminate();
    // The client gave it back: there is no lock-delay.
    assert_eq!(scene.cleanups.len(), 1);
    assert_eq!(scene.released(), [(owner, End::Clean)]);
}

#[test]
fn an_operator_ends_a_session_with_all_that_it_has_and_its_client_is_told() {
    let (mut scene, held) = Scene::holding("a");
    scene.wait_for(3, "b");
    scene.ask(4, Request::Acquire(acquire("c")));
    scene.handle(Input::EndedByOperator);
    let said = scene.said();
    let [
        (0, Response::Lost(lost)),
        (3, Response::Refused(Refused::ForcedOut(waited))),
        (4, Response::Refused(Refused::ForcedOut(asked))),
    ] = &said[..]
    else {
        panic!("{said:?}");
    };
    assert_eq!(lost.len(), 1);
    assert_eq!(lost[0].owner, held);
    assert_eq!(lost[0].why, LostWhy::Store(Loss::Forced));
    assert_eq!((waited, asked), (&name("b"), &name("c")));
    assert_eq!(scene.ended_stream, Some(Some(Refused::EndedByOperator)));
    assert_eq!(scene.session.phase(), Phase::Closing);
    // What waits, and what is on its way, ends in the background.
    assert_eq!(scene.cleanups.len(), 2);
    // A second time, it changes nothing.
    scene.handle(Input::EndedByOperator);
    scene.handle(Input::Stopping);
    assert_eq!(scene.session.phase(), Phase::Closing);
    scene.answer_all();
    assert_eq!(scene.session.phase(), Phase::Ended);
    assert_eq!(scene.said(), []);
    scene.clean_up();
    assert_eq!((scene.holders("a"), scene.waiters("b")), (0, 0));
    assert_eq!(scene.holders("c"), 0);
}

#[test]
fn an_operator_ends_a_session_without_a_stream() {
    for end in [StreamEnd::ByPeer, StreamEnd::Cut] {
        let (mut scene, _) = Scene::holding("a");
        scene.end_stream(end);
        scene.said();
        scene.handle(Input::EndedByOperator);
        assert_eq!(scene.session.phase(), Phase::Closing, "{end:?}");
        scene.answer_all();
        assert_eq!(scene.session.phase(), Phase::Ended, "{end:?}");
        assert_eq!((scene.said(), scene.holders("a")), (vec![], 0), "{end:?}");
    }
}

#[test]
fn what_an_operator_ends_and_the_store_does_not_answer_ends_in_the_background() {
    for by_time in [true, false] {
        let (mut scene, held) = Scene::holding("a");
        scene.handle(Input::EndedByOperator);
        if by_time {
            scene.pass(STORE_TIMEOUT * 2);
        } else {
            scene.fail(indeterminate());
        }
        assert_eq!(scene.session.phase(), Phase::Ended);
        assert_eq!(scene.cleanups.len(), 1);
        assert_eq!(scene.cleanups[0].owner, held);
    }
}

//! Ends of a session, and what becomes of its locks and acquires.

use std::time::Duration;

use super::scene::*;
use crate::{
    command::{End, Loss, Op, Reply},
    session::{
        AcquireRequest, Closer, Input, Interest, LostWhy, NotGranted, Note, Phase, Refused,
        RegistryEvent, Request, RequestId, Response, StreamEnd, Wait,
    },
};

/// A session that may not be resumed, or (`grace`) may.
fn scene(grace: Duration) -> Scene {
    let mut config = config();
    config.grace = grace;
    let mut scene = Scene::resume(config, Vec::new());
    scene.said();
    scene
}

/// Checks that an acquire was cancelled, and then the session closed, and nothing else was said.
#[track_caller]
fn cancelled_and_closed(scene: &mut Scene, acquire: RequestId, close: RequestId) {
    let said = scene.said();
    assert!(
        matches!(
            &said[..],
            [(asked, Response::NotGranted { why: NotGranted::Cancelled, .. }), (closed, Response::Closed)]
                if (*asked, *closed) == (acquire, close)
        ),
        "{said:?}"
    );
}

#[test]
fn a_peer_that_is_gone_has_everything_released_at_once() {
    let mut scene = scene(Duration::ZERO);
    let held = scene.hold(2, acquire("a"))[0];
    scene.other_takes("b");
    let ticket = scene.queue(3, acquire("b"));
    scene.ask(4, Request::Acquire(acquire("c")));
    scene.end_stream(StreamEnd::ByPeer);
    assert_eq!(scene.session.phase(), Phase::Ended);
    let ended = |owner| {
        let pending = scene.cleanups.iter().find(|it| it.owner == owner).unwrap();
        (pending.end, pending.may_arrive_until.is_some())
    };
    assert_eq!(ended(held), (End::Unclean, false));
    assert_eq!(ended(ticket), (End::Clean, false));
    assert_eq!(scene.cleanups.len(), 3);
    assert!(
        scene
            .cleanups
            .iter()
            .any(|it| it.may_arrive_until.is_some())
    );
}

#[test]
fn a_broken_stream_leaves_the_holds_until_the_client_can_not_believe_in_them() {
    let mut scene = scene(GRACE);
    let held = scene.hold(2, acquire("a"))[0];
    scene.other_takes("b");
    let ticket = scene.queue(3, acquire("b"));
    scene.end_stream(StreamEnd::Cut);
    assert!(scene.is_detached);
    // Its wait ends at once.
    assert_eq!(scene.cleanups[0].owner, ticket);
    scene.pass(TTL - Duration::from_millis(1));
    assert_eq!(
        (scene.session.phase(), scene.cleanups.len()),
        (Phase::Lingering, 1)
    );
    scene.pass(Duration::from_millis(1));
    assert_eq!(scene.session.phase(), Phase::Ended);
    assert_eq!(scene.cleanups[1].owner, held);
}

#[test]
fn a_broken_stream_of_a_session_that_holds_nothing_is_its_end() {
    let mut scene = scene(GRACE);
    scene.end_stream(StreamEnd::Cut);
    assert_eq!(scene.session.phase(), Phase::Ended);
}

#[test]
fn a_session_with_a_grace_is_kept_and_its_keys_end_with_the_grace() {
    let mut scene = scene(GRACE);
    let held = scene.hold(2, acquire("a"))[0];
    scene.end_stream(StreamEnd::ByPeer);
    assert_eq!(scene.session.phase(), Phase::Detached);
    scene.pass(Duration::ZERO);
    let Op::Renew { ttl, owner, .. } = scene.sent[0].op else {
        panic!("not shortened");
    };
    assert_eq!((ttl, owner), (GRACE, held));
    // One that fails is tried again, for what is left.
    scene.fail(indeterminate());
    scene.pass(Duration::from_millis(100));
    let Op::Renew { ttl, .. } = scene.sent[0].op else {
        panic!("not shortened");
    };
    assert_eq!(ttl, GRACE - Duration::from_millis(100));
    scene.answer();
    scene.pass(GRACE - Duration::from_millis(101));
    assert!(scene.cleanups.is_empty());
    scene.pass(Duration::from_millis(1));
    assert_eq!(scene.session.phase(), Phase::Ended);
    assert_eq!(scene.cleanups[0].end, End::Unclean);
}

#[test]
fn a_session_without_a_stream_finds_out_by_a_shortening_what_was_taken() {
    let mut scene = Scene::open();
    let owners = [
        scene.hold(2, acquire("a"))[0],
        scene.hold(3, acquire("b"))[0],
    ];
    scene.end_stream(StreamEnd::ByPeer);
    scene.pass(Duration::ZERO);
    scene.answer_all();
    scene.event(owners[0], RegistryEvent::Lost(Loss::Forced));
    scene.force(owners[1], "b");
    scene.pass(Duration::ZERO);
    scene.answer_all();
    assert_eq!((scene.holders("a"), scene.session.holds()), (1, 1));
    assert_eq!(scene.session.phase(), Phase::Detached);
}

#[test]
fn a_renewal_that_is_under_way_is_followed_by_the_shortening() {
    let mut scene = scene(GRACE);
    scene.hold(2, acquire("a"));
    scene.pass(TTL / 3);
    scene.ask(3, Request::Heartbeat { sequence: 1 });
    scene.end_stream(StreamEnd::ByPeer);
    scene.pass(Duration::ZERO);
    assert_eq!(scene.sent.len(), 1);
    scene.answer();
    scene.pass(Duration::ZERO);
    let Op::Renew { ttl, .. } = scene.sent[0].op else {
        panic!("not shortened");
    };
    assert_eq!(ttl, GRACE);
}

#[test]
fn a_waiter_of_a_kept_session_waits_on_and_its_grant_is_kept() {
    let mut scene = scene(GRACE);
    scene.other_takes("a");
    let ticket = scene.queue(2, acquire("a"));
    scene.end_stream(StreamEnd::ByPeer);
    scene.pass(Duration::from_secs(1));
    assert_eq!(scene.session.phase(), Phase::Detached);
    scene.other_releases("a");
    assert_eq!(scene.registered.get(&ticket), Some(&Interest::Held));
    scene.pass(Duration::ZERO);
    assert_eq!(scene.ops(), ["renew"]);
    scene.answer();
    // It was resumed elsewhere: nothing is left here.
    scene.event(ticket, RegistryEvent::Lost(Loss::Resumed));
    assert_eq!(scene.session.phase(), Phase::Ended);
    assert!(scene.cleanups.is_empty());
}

#[test]
fn an_acquire_whose_client_has_no_ticket_is_not_kept() {
    let mut scene = scene(GRACE);
    scene.hold(2, acquire("held"));
    scene.room = 1;
    scene.ask(3, Request::Acquire(acquire("sent")));
    scene.ask(4, Request::Acquire(acquire("in line")));
    scene.end_stream(StreamEnd::ByPeer);
    assert_eq!(scene.session.acquires(), 0);
    assert_eq!(scene.cleanups.len(), 1);
    assert_eq!(scene.cleanups[0].name, name("sent"));
}

#[test]
fn a_kept_session_that_loses_its_permission_lets_go_at_once() {
    let mut scene = scene(GRACE);
    scene.hold(2, acquire("a"));
    scene.end_stream(StreamEnd::ByPeer);
    scene.revise(|_, _| false);
    assert_eq!(scene.cleanups[0].end, End::Unclean);
    assert_eq!(scene.session.phase(), Phase::Ended);
}

#[test]
fn a_grace_ends_with_what_was_promised() {
    let mut scene = scene(TTL);
    scene.hold(2, acquire("a"));
    scene.pass(TTL - Duration::from_secs(1));
    scene.end_stream(StreamEnd::ByPeer);
    scene.pass(Duration::from_millis(999));
    assert_eq!(scene.session.phase(), Phase::Detached);
    scene.pass(Duration::from_millis(1));
    assert_eq!(scene.session.phase(), Phase::Ended);
}

#[test]
fn a_close_gives_everything_back_before_it_is_answered() {
    let mut scene = scene(GRACE);
    let held = scene.hold(2, acquire("a"))[0];
    scene.other_takes("b");
    scene.queue(3, acquire("b"));
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
    cancelled_and_closed(&mut scene, 3, 5);
    assert_eq!(scene.ended_stream, Some(None));
    assert_eq!(scene.session.phase(), Phase::Ended);
    assert!(!scene.registered.contains_key(&held));
    assert_eq!((scene.holders("a"), scene.waiters("b")), (0, 0));
}

#[test]
fn a_close_does_not_wait_for_ever() {
    let mut scene = scene(GRACE);
    let held = scene.hold(2, acquire("a"))[0];
    scene.ask(3, Request::Close(Closer::Client));
    scene.pass(STORE_TIMEOUT * 2 - Duration::from_millis(1));
    assert_eq!(scene.said(), []);
    scene.pass(Duration::from_millis(1));
    assert_eq!(scene.said(), [(3, Response::Closed)]);
    assert_eq!(
        (scene.cleanups[0].owner, scene.cleanups[0].end),
        (held, End::Clean)
    );
}

#[test]
fn what_was_revoked_outlasts_a_close_unless_the_client_itself_closes() {
    for (closer, end) in [
        (Closer::Client, End::Clean),
        (Closer::Adapter, End::Unclean),
    ] {
        let mut scene = scene(GRACE);
        scene.hold(2, acquire("a"));
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
    let mut scene = scene(GRACE);
    scene.hold(2, acquire("a"));
    scene.other_takes("b");
    scene.queue(3, acquire("b"));
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
    let mut config = config();
    config.tells_tickets = false;
    let mut scene = Scene::resume(config, Vec::new());
    scene.other_takes("b");
    let ticket = scene.queue(3, acquire("b"));
    scene.handle(Input::Stopping);
    assert_eq!(scene.cleanups[0].owner, ticket);
}

#[test]
fn a_session_without_a_stream_stops_as_well() {
    for end in [StreamEnd::ByPeer, StreamEnd::Cut] {
        let mut scene = scene(GRACE);
        scene.hold(2, acquire("a"));
        scene.end_stream(end);
        scene.handle(Input::Stopping);
        assert_eq!(scene.session.phase(), Phase::Ended);
        assert!(scene.cleanups.is_empty(), "{end:?}");
    }
}

#[test]
fn a_session_is_told_how_long_it_may_still_be_served() {
    let mut scene = scene(GRACE);
    let deadline = Duration::from_secs(5);
    scene.handle(Input::Draining(deadline));
    assert_eq!(scene.said(), [(0, Response::Draining(deadline))]);
    assert_eq!(scene.session.phase(), Phase::Open);
}

#[test]
fn a_driver_that_is_dropped_leaves_nothing() {
    let mut scene = scene(GRACE);
    scene.hold(2, acquire("a"));
    scene.other_takes("b");
    scene.queue(3, acquire("b"));
    scene.ask(4, Request::Close(Closer::Client));
    scene.terminate();
    assert_eq!(scene.session.phase(), Phase::Ended);
    assert_eq!(scene.cleanups.len(), 2);
    // Once.
    scene.terminate();
    assert_eq!(scene.cleanups.len(), 2);
}

#[test]
fn a_session_whose_promises_have_passed_is_not_kept() {
    let mut scene = scene(GRACE);
    scene.hold(2, acquire("a"));
    // Its silence is not confirmed yet.
    scene.now = scene.now.after(TTL);
    scene.end_stream(StreamEnd::ByPeer);
    assert_eq!(
        (scene.session.phase(), scene.is_detached),
        (Phase::Ended, false)
    );
    assert_eq!(scene.cleanups[0].end, End::Unclean);
}

#[test]
fn what_was_revoked_ends_when_its_client_is_gone_although_its_place_is_kept() {
    let mut scene = scene(GRACE);
    let revoked = scene.hold(2, acquire("a"))[0];
    scene.other_takes("b");
    scene.queue(3, acquire("b"));
    scene.revise(|of, _| *of == name("b"));
    scene.end_stream(StreamEnd::ByPeer);
    assert_eq!(
        (scene.session.phase(), scene.session.acquires()),
        (Phase::Detached, 1)
    );
    assert_eq!(scene.cleanups.len(), 1);
    assert_eq!(
        (scene.cleanups[0].owner, scene.cleanups[0].end),
        (revoked, End::Unclean)
    );
}

#[test]
fn a_wait_that_is_over_when_the_client_goes_is_kept_until_it_has_ended() {
    for is_left in [false, true] {
        let mut scene = scene(GRACE);
        scene.other_takes("a");
        let asked = AcquireRequest {
            wait: Wait::For(Duration::from_secs(1)),
            ..acquire("a")
        };
        scene.queue(2, asked);
        scene.pass(Duration::from_secs(1));
        if is_left {
            scene.answer();
        }
        scene.end_stream(StreamEnd::ByPeer);
        assert_eq!(
            (scene.session.phase(), scene.session.acquires()),
            (Phase::Detached, 1)
        );
        scene.answer_all();
        assert_eq!(scene.session.phase(), Phase::Ended);
        assert_eq!((scene.cleanups.len(), scene.waiters("a")), (0, 0));
    }
}

#[test]
fn a_hold_that_is_gone_when_the_grace_begins_is_let_go_of() {
    let mut scene = scene(GRACE);
    scene.hold(2, acquire("a"));
    scene.hold(3, acquire("b"));
    scene.end_stream(StreamEnd::ByPeer);
    scene.pass(Duration::ZERO);
    let lose = |scene: &mut Scene| {
        let (id, mut gone) = scene.execute_next();
        gone.executed.reply = Reply::Lost(Loss::Deleted);
        scene.reply(id, gone);
    };
    lose(&mut scene);
    assert_eq!(scene.session.holds(), 2, "not before all are answered");
    scene.fail(indeterminate());
    assert!(scene.notes.contains(&Note::NotShortened(1)));
    assert_eq!(scene.session.holds(), 1);
    // What failed is tried again.
    scene.pass(Duration::from_millis(100));
    assert_eq!(
        (scene.ops(), scene.sent[0].name.clone()),
        (vec!["renew"], name("b"))
    );
    lose(&mut scene);
    assert_eq!(
        (scene.session.phase(), scene.cleanups.len()),
        (Phase::Ended, 0)
    );
    assert!(scene.registered.is_empty());
}

#[test]
fn what_waits_for_admission_ends_at_once_when_the_session_closes_or_may_not_have_it() {
    let mut scene = scene(GRACE);
    scene.room = 0;
    scene.ask(2, Request::Acquire(acquire("a")));
    scene.ask(3, Request::Acquire(acquire("b")));
    scene.revise(|of, _| *of != name("a"));
    let denied = Refused::PermissionDenied(name("a"));
    assert_eq!(scene.said(), [(2, Response::Refused(denied))]);
    scene.ask(4, Request::Close(Closer::Client));
    cancelled_and_closed(&mut scene, 3, 4);
    assert!(scene.sent.is_empty() && scene.registered.is_empty());
    assert_eq!(scene.session.phase(), Phase::Ended);
}

#[test]
fn a_session_that_closes_goes_on_closing_when_the_coordinator_stops() {
    let mut scene = scene(GRACE);
    scene.hold(2, acquire("a"));
    scene.ask(3, Request::Close(Closer::Client));
    scene.handle(Input::Stopping);
    assert_eq!(
        (scene.session.phase(), &scene.ended_stream),
        (Phase::Closing, &None)
    );
    scene.answer();
    assert_eq!(scene.said(), [(3, Response::Closed)]);
    assert_eq!(
        (scene.session.phase(), &scene.ended_stream),
        (Phase::Ended, &Some(None))
    );
    scene.handle(Input::Stopping);
    assert!(scene.cleanups.is_empty());
}

#[test]
fn a_release_that_is_under_way_goes_on_as_one_when_the_session_ends() {
    let mut scene = scene(GRACE);
    let owner = scene.hold(2, acquire("a"))[0];
    let name = name("a");
    scene.ask(3, Request::Release { name, owner });
    scene.terminate();
    // The client gave it back: there is no lock-delay.
    assert_eq!(scene.cleanups.len(), 1);
    assert_eq!(
        (scene.cleanups[0].owner, scene.cleanups[0].end),
        (owner, End::Clean)
    );
}

#[test]
fn an_operator_ends_a_session_with_all_that_it_has_and_its_client_is_told() {
    let mut scene = scene(GRACE);
    let held = scene.hold(2, acquire("a"))[0];
    scene.other_takes("b");
    scene.queue(3, acquire("b"));
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
    assert_eq!(
        (lost[0].owner, lost[0].why),
        (held, LostWhy::Store(Loss::Forced))
    );
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
        let mut scene = scene(GRACE);
        scene.hold(2, acquire("a"));
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
        let mut scene = scene(GRACE);
        let held = scene.hold(2, acquire("a"))[0];
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

#[test]
fn a_session_that_closes_is_not_ended_once_more() {
    let mut scene = scene(GRACE);
    scene.hold(2, acquire("a"));
    scene.ask(4, Request::Close(Closer::Client));
    scene.handle(Input::EndedByOperator);
    scene.answer_all();
    assert_eq!(scene.said(), [(4, Response::Closed)]);
    assert_eq!(scene.ended_stream, Some(None));
}

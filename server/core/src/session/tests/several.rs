//! Several names together: all of them or none.

use super::*;

pub(super) fn several(names: &[&str]) -> AcquireRequest {
    let locks = names.iter().map(|text| spec(text, Mode::Exclusive));
    AcquireRequest {
        locks: LockSpecs::from_vec(locks.collect()).unwrap(),
        actor: Actor::new(7),
        ..acquire("unused")
    }
}

/// Asks for two locks, the second of which somebody else holds, and is about to give back the first.
fn giving_back_a() -> Scene {
    let mut scene = Scene::open();
    scene.other_takes("b");
    let asked = AcquireRequest {
        wait: Wait::No,
        ..several(&["a", "b"])
    };
    scene.ask(2, Request::Acquire(asked));
    scene.answer();
    scene.answer();
    scene
}

#[test]
fn what_was_taken_is_given_back_before_the_client_hears_that_it_has_not_all() {
    let mut scene = giving_back_a();
    assert!(scene.said.is_empty());
    assert_eq!(scene.asked(), [("release", "a")]);
    scene.answer();
    assert_eq!(not_granted(&mut scene, 2), NotGranted::Busy);
    assert_eq!(scene.holders("a"), 0);
}

#[test]
fn a_place_is_told_once_and_a_cancel_gives_everything_back() {
    let (mut scene, ticket) = Scene::waiting_for("b", several(&["a", "b"]));
    // Holding one while it waits for another, it may be part of a deadlock.
    assert!(scene.watched.contains(&ticket));
    scene.ask(3, Request::Cancel(2));
    scene.answer_all();
    assert_eq!(not_granted(&mut scene, 2), NotGranted::Cancelled);
    assert_eq!((scene.holders("a"), scene.waiters("b")), (0, 0));
    assert!(scene.registered.is_empty());
}

#[test]
fn what_was_taken_is_renewed_while_the_rest_is_waited_for() {
    let (mut scene, _) = Scene::waiting_for("b", several(&["a", "b"]));
    scene.pass(TTL / 3);
    assert_eq!(scene.asked(), [("renew", "a")]);
    // One that fails is tried again soon.
    scene.fail(indeterminate());
    scene.pass(Duration::from_millis(99));
    assert!(scene.sent.is_empty());
    scene.pass(Duration::from_millis(1));
    assert_eq!(scene.ops(), ["renew"]);
    scene.answer();
    scene.pass(TTL / 3 - Duration::from_millis(1));
    assert!(scene.sent.is_empty());
}

#[test]
fn an_acquire_that_lost_what_it_took_begins_again() {
    let (mut scene, first) = Scene::waiting_for("c", several(&["a", "b", "c"]));
    scene.pass(TTL / 3);
    scene.answer_with(Reply::Lost(Loss::Deleted));
    // The renewal of the other is under way; the place is given up, and both are released.
    assert_eq!(scene.ops(), ["renew", "release", "release"]);
    assert_eq!(scene.cleanups[0].owner, first);
    scene.clean_up();
    scene.answer();
    scene.answer();
    assert_eq!(scene.ops(), ["release"], "only then");
    scene.answer();
    assert_eq!(scene.asked(), [("acquire", "a")]);
    // With owner ids of its own, and the place is no news.
    let Op::Acquire(again) = &scene.sent[0].op else {
        panic!("not an acquire");
    };
    assert_ne!(again.owner, first);
    scene.other_releases("c");
    scene.answer_all();
    assert_eq!(scene.granted(2).len(), 3);
}

#[test]
fn what_was_taken_is_lost_when_it_can_not_be_renewed_in_time() {
    let (mut scene, _) = Scene::waiting_for("b", several(&["a", "b"]));
    let mut began = 0;
    for _ in 0..100 {
        scene.pass(Duration::from_millis(100));
        if scene.ops() == ["renew"] {
            scene.fail(unavailable());
        }
        // The client lives all the while.
        began += 1;
        scene.ask(100 + began, Request::Heartbeat { sequence: began });
        if scene.ops() == ["release"] {
            break;
        }
    }
    assert_eq!(scene.asked(), [("release", "a")]);
}

#[test]
fn the_time_of_several_is_one() {
    let mut scene = Scene::open();
    scene.other_takes("a");
    scene.other_takes_as(3, "b");
    let asked = AcquireRequest {
        wait: Wait::For(Duration::from_secs(2)),
        ..several(&["a", "b"])
    };
    scene.queue(2, asked);
    scene.pass(Duration::from_secs(1));
    scene.other_releases("a");
    scene.answer_all();
    assert!(scene.said().is_empty(), "the place is told once");
    scene.pass(Duration::from_secs(1));
    scene.answer_all();
    assert_eq!(not_granted(&mut scene, 2), NotGranted::TimedOut);
}

#[test]
fn names_that_the_actor_holds_are_held_once_more() {
    let mut scene = Scene::open();
    let held = scene.hold(2, several(&["b"]));
    let asked = AcquireRequest {
        reentrant: true,
        ..several(&["a", "b"])
    };
    scene.ask(3, Request::Acquire(asked.clone()));
    assert_eq!(scene.ops(), ["set count", "acquire"]);
    scene.answer_all();
    let locks = scene.locks_granted(3);
    let last = locks.iter().last().unwrap();
    assert_eq!((last.owner, last.count), (held[0], 2));
    // If the hold is lost meanwhile, nothing is granted.
    let asked = AcquireRequest {
        reentrant: true,
        ..several(&["b", "c"])
    };
    scene.ask(4, Request::Acquire(asked));
    scene.force(held[0], "b");
    assert_eq!(scene.ops(), ["set count", "acquire", "renew", "renew"]);
    scene.answer();
    // The renewals are answered before the acquire.
    scene.sent.rotate_left(1);
    scene.answer();
    scene.answer();
    scene.said();
    scene.answer_all();
    assert_eq!(scene.said(), [(4, Response::Refused(Refused::LockLost))]);
    assert_eq!(scene.cleanups.last().unwrap().name, name("c"));
}

#[test]
fn a_stream_that_ends_in_the_middle_leaves_nothing() {
    for end in [StreamEnd::ByPeer, StreamEnd::Cut] {
        let (mut scene, _) = Scene::waiting_for("b", several(&["a", "b"]));
        scene.end_stream(end);
        assert_eq!(scene.session.acquires(), 0);
        // The place and the name that was taken.
        assert_eq!(scene.cleanups.len(), 2, "{end:?}");
        assert!(scene.cleanups.iter().all(|it| it.end == End::Clean));
    }
}

#[test]
fn a_loss_that_is_found_while_the_acquire_is_given_up_begins_nothing_again() {
    let (mut scene, _) = Scene::waiting_for("b", several(&["a", "b"]));
    scene.pass(TTL / 3);
    scene.ask(3, Request::Cancel(2));
    scene.answer_with(Reply::Lost(Loss::Deleted));
    assert_eq!(scene.asked(), [("release", "b")]);
    scene.answer();
    assert_eq!(scene.asked(), [("release", "a")]);
    scene.answer();
    assert_eq!(not_granted(&mut scene, 2), NotGranted::Cancelled);
    assert!(scene.sent.is_empty() && scene.cleanups.is_empty());
}

#[test]
fn names_that_may_not_be_held_any_more_are_given_back_before_that_is_told() {
    let denied = |text| Refused::PermissionDenied(name(text));
    let mut scene = Scene::open();
    scene.ask(2, Request::Acquire(several(&["a", "b"])));
    scene.revise(|of, _| *of != name("b"));
    scene.answer();
    // The one that was on its way is given back, and the other one is not asked for.
    assert_eq!(scene.asked(), [("release", "a")]);
    assert!(scene.said.is_empty());
    scene.answer();
    assert_eq!(refused(&mut scene, 2), denied("b"));
    assert_eq!((scene.holders("a"), scene.session.acquires()), (0, 0));
    // What begins again is not asked for either.
    scene.other_takes("b");
    scene.queue(3, several(&["a", "b"]));
    scene.pass(TTL / 3);
    scene.answer_with(Reply::Lost(Loss::Deleted));
    scene.revise(|of, _| *of != name("a"));
    scene.clean_up();
    scene.answer();
    assert_eq!(refused(&mut scene, 3), denied("a"));
    assert!(scene.sent.is_empty() && scene.registered.is_empty());
}

#[test]
fn what_was_taken_is_given_back_before_another_limit_is_told() {
    let mut scene = Scene::open();
    let of = |names: &[&str], limit| {
        let permits = Mode::Semaphore(Permits::new(1, limit).unwrap());
        let asked = AcquireRequest {
            actor: Actor::NOBODY,
            ..several(names)
        };
        in_mode(permits, asked)
    };
    scene.hold(2, of(&["b"], 3));
    scene.ask(3, Request::Acquire(of(&["a", "b"], 4)));
    scene.answer();
    scene.answer();
    assert_eq!(scene.asked(), [("release", "a")]);
    assert!(scene.said.is_empty());
    scene.answer();
    let limit = Limit {
        number: 3,
        revision: 0,
    };
    let name = name("b");
    let other_limit = Refused::OtherLimit { name, limit };
    assert_eq!(refused(&mut scene, 3), other_limit);
    assert_eq!((scene.registered.len(), scene.session.holds()), (1, 1));
}

#[test]
fn a_name_that_is_being_given_back_goes_on_in_the_background_when_the_stream_breaks() {
    let mut scene = giving_back_a();
    assert_eq!(scene.ops(), ["release"]);
    scene.end_stream(StreamEnd::Cut);
    assert_eq!(scene.cleanups.len(), 1);
    assert_eq!(scene.cleanups[0].end, End::Clean);
    assert_eq!(scene.cleanups[0].name, name("a"));
}

#[test]
fn several_that_are_being_given_up_are_not_kept() {
    let (mut scene, _) = Scene::holding("held");
    scene.other_takes("b");
    scene.queue(3, several(&["a", "b"]));
    scene.ask(4, Request::Cancel(3));
    scene.end_stream(StreamEnd::ByPeer);
    assert_eq!(scene.session.phase(), Phase::Detached);
    assert_eq!(scene.session.acquires(), 0);
    let released = scene.cleanups.iter().map(|it| (it.name.as_str(), it.end));
    assert!(released.eq([("b", End::Clean), ("a", End::Clean)]));
    // The place was left before, and its answer is late.
    scene.answer();
    assert_eq!((scene.said(), scene.cleanups.len()), (Vec::new(), 2));
}

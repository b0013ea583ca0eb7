//! Changes of holds that the client asks for: values, downgrades, releases, counts.

use super::*;

pub(super) fn set_value(text: &str, owner: OwnerId) -> Request {
    let (name, value) = (name(text), Value::default());
    Request::SetValue { name, owner, value }
}

pub(super) fn downgrade(text: &str, owner: OwnerId) -> Request {
    let name = name(text);
    Request::Downgrade { name, owner }
}

pub(super) fn reduce(text: &str, owner: OwnerId, permits: u32) -> Request {
    let name = name(text);
    Request::Reduce {
        name,
        owner,
        permits,
    }
}

/// An actor's acquire of permits, as often as it likes.
fn permits(number: u32) -> AcquireRequest {
    let permits = Permits::new(number, 5).unwrap();
    in_mode(Mode::Semaphore(permits), again(&["a"]))
}

/// Answer to a release of a hold that is still held so many times.
fn released(hold_count: u32) -> Response {
    Response::Released {
        released: true,
        hold_count,
    }
}

/// The same actor's acquire of what it may hold already.
fn again(names: &[&str]) -> AcquireRequest {
    AcquireRequest {
        reentrant: true,
        ..several(names)
    }
}

#[test]
fn a_change_is_answered_by_what_the_store_found() {
    let (mut scene, held) = Scene::holding("a");
    let unknown = OwnerId::from_bytes(OTHER);
    for (owner, found) in [(held, true), (unknown, false)] {
        scene.ask(3, set_value("a", owner));
        assert_eq!(scene.ops(), vec!["set value"]);
        assert_eq!(scene.sent[0].request, Some(3));
        scene.answer();
        assert_eq!(scene.said(), [(3, Response::ValueSet(found))]);
        scene.ask(4, downgrade("a", owner));
        assert_eq!(scene.ops(), vec!["downgrade"]);
        assert_eq!(scene.sent[0].request, Some(4));
        scene.answer();
        assert_eq!(scene.said(), [(4, Response::Downgraded(found))]);
    }
    for change in [set_value("a", held), downgrade("a", held)] {
        scene.ask(5, change);
        scene.fail(indeterminate());
        assert_eq!(refused(&mut scene, 5), Refused::Store(indeterminate()));
    }
    assert_eq!(scene.session.holds(), 1);
}

#[test]
fn a_downgraded_hold_counts_as_shared_from_the_request_on() {
    let mut scene = Scene::open();
    let owner = scene.hold(2, several(&["a"]))[0];
    scene.ask(3, downgrade("a", owner));
    scene.ask(4, Request::Acquire(again(&["a"])));
    let (actor, name) = (Actor::new(7), name("a"));
    assert_eq!(refused(&mut scene, 4), Refused::Upgrade { actor, name });
    // The permission for a shared hold is enough.
    scene.revise(|_, mode| mode == Mode::Shared);
    assert_eq!((scene.session.holds(), scene.said()), (1, Vec::new()));
    // Also if it is not known whether the store has carried it out.
    scene.fail(indeterminate());
    scene.revise(|_, mode| mode == Mode::Shared);
    assert_eq!(scene.session.holds(), 1);
}

#[test]
fn permits_of_a_semaphore_are_not_downgraded() {
    let mut scene = Scene::open();
    let permits = Mode::Semaphore(Permits::new(2, 3).unwrap());
    let asked = in_mode(permits, acquire("a"));
    let owner = scene.hold(2, asked)[0];
    scene.ask(3, downgrade("a", owner));
    assert_eq!(refused(&mut scene, 3), Refused::NotExclusive(name("a")));
    assert!(scene.sent.is_empty());
}

#[test]
fn permits_that_are_given_back_count_as_such_from_the_request_on() {
    let mut scene = Scene::open();
    let owner = scene.hold(2, permits(4))[0];
    scene.ask(3, reduce("a", owner, 2));
    let op = Op::Reduce { owner, permits: 2 };
    assert_eq!((&scene.sent[0].op, scene.sent[0].request), (&op, Some(3)));
    scene.ask(4, Request::Acquire(permits(3)));
    let (actor, name) = (Actor::new(7), name("a"));
    assert_eq!(refused(&mut scene, 4), Refused::Upgrade { actor, name });
    scene.ask(5, Request::Acquire(permits(2)));
    assert_eq!(scene.granted(5), [owner]);
    scene.answer_all();
    assert_eq!(scene.said(), [(3, Response::Reduced(true))]);
    // Never more again, and asked for again all the same, as after a resume.
    scene.ask(6, reduce("a", owner, 3));
    scene.answer();
    assert_eq!(scene.said(), [(6, Response::Reduced(true))]);
    assert_eq!(scene.permits_taken("a"), 2);
    // Also if it is not known whether the store has carried it out.
    scene.ask(7, reduce("a", owner, 1));
    scene.fail(indeterminate());
    assert_eq!(refused(&mut scene, 7), Refused::Store(indeterminate()));
    scene.ask(8, Request::Acquire(permits(2)));
    assert!(matches!(refused(&mut scene, 8), Refused::Upgrade { .. }));
}

#[test]
fn only_permits_of_the_session_are_given_back() {
    let mut scene = Scene::open();
    let owner = scene.hold(2, several(&["a"]))[0];
    scene.ask(3, reduce("a", owner, 1));
    assert_eq!(refused(&mut scene, 3), Refused::NotASemaphore(name("a")));
    scene.ask(4, reduce("b", owner, 1));
    assert_eq!(refused(&mut scene, 4), Refused::NotItsName);
    scene.ask(5, reduce("a", OwnerId::from_bytes(OTHER), 1));
    assert_eq!(scene.said(), [(5, Response::Reduced(false))]);
    assert!(scene.sent.is_empty());
}

/// A session with a hold of "a" and as many changes of its value in flight as there may be.
fn without_room(asked: AcquireRequest) -> (Scene, OwnerId) {
    let mut scene = Scene::open();
    let owner = scene.hold(2, asked)[0];
    for request in 0..MAX_IN_FLIGHT as u64 {
        scene.ask(10 + request, set_value("a", owner));
    }
    assert_eq!(scene.sent.len(), MAX_IN_FLIGHT);
    (scene, owner)
}

#[test]
fn a_release_that_finds_no_room_is_not_lost() {
    let (mut scene, owner) = without_room(acquire("a"));
    scene.release(3, "a", owner);
    let too_many = Refused::TooManyRequests(Effect::ReleasedInBackground);
    assert_eq!(refused(&mut scene, 3), too_many);
    assert_eq!(scene.released(), [(owner, End::Clean)]);
}

#[test]
fn permits_find_no_room_to_be_given_back() {
    let (mut scene, owner) = without_room(permits(4));
    scene.ask(3, reduce("a", owner, 1));
    let too_many = Refused::TooManyRequests(Effect::NotReduced);
    assert_eq!(refused(&mut scene, 3), too_many);
    scene.ask(4, Request::Acquire(permits(4)));
    assert_eq!(scene.granted(4), [owner]);
}

#[test]
fn a_hold_is_changed_and_released_under_its_own_name_only() {
    let (mut scene, owner) = Scene::holding("a");
    scene.release(3, "b", owner);
    assert_eq!(refused(&mut scene, 3), Refused::NotItsName);
    for asked in [set_value("b", owner), downgrade("b", owner)] {
        scene.ask(3, asked);
        assert_eq!(refused(&mut scene, 3), Refused::NotItsName);
    }
    assert!(scene.sent.is_empty());
    let owns = |owner, text| scene.session.owns(&owner, &name(text));
    assert_eq!(owns(owner, "a"), Ok(true));
    assert_eq!(owns(owner, "b"), Err(Refused::NotItsName));
    assert_eq!(owns(OwnerId::from_bytes(OTHER), "a"), Ok(false));
    // A revoked hold is its client's to give back, under its name.
    scene.revise(|_, _| false);
    let owns = |text| scene.session.owns(&owner, &name(text));
    assert_eq!((owns("a"), owns("b")), (Ok(true), Ok(false)));
}

#[test]
fn a_change_that_finds_no_room_does_nothing_and_room_comes_with_answers() {
    let (mut scene, owner) = without_room(several(&["a"]));
    let too_many = Refused::TooManyRequests;
    scene.ask(3, set_value("a", owner));
    assert_eq!(refused(&mut scene, 3), too_many(Effect::ValueNotChanged));
    scene.ask(3, downgrade("a", owner));
    assert_eq!(refused(&mut scene, 3), too_many(Effect::NotDowngraded));
    let unknown = OwnerId::from_bytes(OTHER);
    scene.release(4, "a", unknown);
    assert_eq!(refused(&mut scene, 4), too_many(Effect::NotReleased));
    // It is held once more all the same, as an exclusive hold; the store is told with the next renewal.
    scene.ask(5, Request::Acquire(again(&["a"])));
    assert_eq!(scene.granted(5), [owner]);
    assert_eq!(scene.sent.len(), MAX_IN_FLIGHT);
    scene.answer_all();
    scene.said();
    scene.pass(TTL / 3);
    scene.ask(6, beat(1));
    scene.answer();
    assert_eq!(scene.ops(), ["set count"]);
    let op = Op::SetCount { owner, count: 2 };
    assert_eq!(scene.sent[0].op, op);
    let (acked_heartbeat, valid_for) = (1, full());
    let heartbeat = Response::Heartbeat {
        acked_heartbeat,
        valid_for,
        rest: None,
    };
    assert_eq!(scene.said(), [(6, heartbeat)]);
}

#[test]
fn a_revoked_hold_is_given_back_as_often_as_it_was_held() {
    let mut scene = Scene::open();
    let owner = scene.hold(2, several(&["a"]))[0];
    scene.hold(3, again(&["a"]));
    scene.revise(|_, _| false);
    scene.said();
    scene.release(4, "a", owner);
    assert_eq!(scene.said(), [(4, released(1))]);
    assert!(scene.sent.is_empty());
    scene.release(5, "a", owner);
    scene.answer();
    assert_eq!(scene.said(), [(5, released(0))]);
    assert_eq!(scene.holders("a"), 0);
    assert!(scene.registered.is_empty());
}

#[test]
fn a_hold_that_only_an_acquire_counts_on_ends_with_it() {
    let mut scene = Scene::open();
    let held = scene.hold(2, several(&["a"]))[0];
    scene.other_takes("b");
    let asked = AcquireRequest {
        wait: Wait::No,
        ..again(&["a", "b"])
    };
    scene.ask(3, Request::Acquire(asked));
    scene.release(4, "a", held);
    assert_eq!(scene.said(), [(4, released(1))]);
    assert_eq!((scene.session.holds(), scene.cleanups.len()), (1, 0));
    scene.notes.clear();
    scene.answer_all();
    assert_eq!(not_granted(&mut scene, 3), NotGranted::Busy);
    assert_eq!(scene.released(), [(held, End::Clean)]);
    assert_eq!(scene.registered.get(&held), Some(&Interest::Settling));
    assert_eq!(scene.session.holds(), 0);
    assert_eq!(scene.notes, [Note::NothingToRenew]);
}

#[test]
fn a_change_that_finds_its_hold_gone_has_the_session_find_out_why() {
    let mut scene = Scene::open();
    let owner = scene.hold(2, several(&["a"]))[0];
    scene.lose_all();
    scene.ask(3, set_value("a", owner));
    scene.answer();
    assert_eq!(scene.said(), [(3, Response::ValueSet(false))]);
    assert_eq!(scene.ops(), ["renew"]);
    scene.answer();
    let (name, why) = (name("a"), LostWhy::Store(Loss::Deleted));
    let lost = vec![LostLock { name, owner, why }];
    assert_eq!(scene.said(), [(0, Response::Lost(lost))]);
    assert_eq!(scene.session.holds(), 0);
}

/// Has the client release a hold, and returns what the store is told of its end.
fn end_of(mut scene: Scene, owner: OwnerId) -> End {
    scene.sent.clear();
    scene.release(9, "a", owner);
    match scene.sent.pop_front().unwrap().op {
        Op::Release { end, .. } => end,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_release_is_plain_only_if_the_store_surely_has_neither_a_value_nor_a_long_client_name() {
    let named = |length: usize| {
        let client_name = ClientName::parse(&"n".repeat(length)).unwrap();
        let named = Config {
            client_name,
            ..config()
        };
        let mut scene = Scene::resume(named, Vec::new());
        let owner = scene.hold(2, acquire("a"))[0];
        end_of(scene, owner)
    };
    assert_eq!(named(KEPT_CLIENT_NAME), End::Plain);
    assert_eq!(named(KEPT_CLIENT_NAME + 1), End::Clean);

    let mut scene = Scene::open();
    let valued = AcquireRequest {
        value: Value::parse(b"v").unwrap(),
        ..acquire("a")
    };
    let owner = scene.hold(2, valued)[0];
    assert_eq!(end_of(scene, owner), End::Clean);

    // Its value is about to be set, whatever to.
    let (mut scene, owner) = Scene::holding("a");
    scene.ask(3, set_value("a", owner));
    assert_eq!(end_of(scene, owner), End::Clean);

    // One is set for an owner id that the session does not hold yet, as far as it knows.
    let (mut scene, ticket) = Scene::waiting_for("a", acquire("a"));
    scene.ask(3, set_value("a", ticket));
    scene.answer();
    scene.other_releases("a");
    assert_eq!(scene.granted(2), [ticket]);
    assert_eq!(end_of(scene, ticket), End::Clean);

    // The stream that it was taken over from may have set one.
    let mut scene = resuming_a();
    scene.answer();
    let owner = OwnerId::from_bytes([107; 16]);
    // It is held twice.
    scene.release(3, "a", owner);
    assert_eq!(end_of(scene, owner), End::Clean);
}

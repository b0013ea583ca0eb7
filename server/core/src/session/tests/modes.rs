//! Several names with a mode each.

use super::*;

fn permits(number: u32, limit: u32) -> Mode {
    Mode::Semaphore(Permits::new(number, limit).unwrap())
}

/// An acquire of actor 7 of these names, each in its mode.
fn each(locks: &[(&str, Mode)]) -> AcquireRequest {
    let locks = locks.iter().map(|(text, mode)| spec(text, *mode));
    AcquireRequest {
        locks: LockSpecs::from_vec(locks.collect()).unwrap(),
        ..several(&["unused"])
    }
}

fn again(locks: &[(&str, Mode)]) -> AcquireRequest {
    AcquireRequest {
        reentrant: true,
        ..each(locks)
    }
}

/// Carries out the next command, which must be an acquire, and returns its name and its mode.
fn taken(scene: &mut Scene) -> (String, Mode) {
    let sent = &scene.sent[0];
    let Op::Acquire(acquire) = &sent.op else {
        panic!("{:?}", sent.op);
    };
    let taken = (sent.name.as_str().to_owned(), acquire.mode);
    scene.answer();
    taken
}

#[test]
fn each_name_is_taken_in_its_own_mode_in_the_order_of_the_names() {
    let mut scene = Scene::open();
    let (shared, exclusive) = (Mode::Shared, Mode::Exclusive);
    let asked = each(&[("c", shared), ("a", permits(2, 3)), ("b", exclusive)]);
    scene.ask(2, Request::Acquire(asked));
    let took = [(); 3].map(|()| taken(&mut scene));
    let expected = [("a", permits(2, 3)), ("b", exclusive), ("c", shared)];
    assert_eq!(took, expected.map(|(text, mode)| (text.to_owned(), mode)));
    let locks = scene.locks_granted(2);
    let granted: Vec<_> = locks.iter().map(|lock| lock.name.clone()).collect();
    assert_eq!(granted, ["c", "a", "b"].map(name));
}

#[test]
fn an_acquire_that_begins_again_asks_for_each_name_in_its_own_mode() {
    let mut scene = Scene::open();
    scene.other_takes("c");
    let (shared, exclusive) = (Mode::Shared, Mode::Exclusive);
    let asked = [("c", exclusive), ("b", permits(1, 2)), ("a", shared)];
    scene.queue(2, each(&asked));
    scene.pass(TTL / 3);
    scene.answer_with(Reply::Lost(Loss::Deleted));
    scene.clean_up();
    // The renewal of the other name, and the release of both.
    while scene.ops()[0] != "acquire" {
        scene.answer();
    }
    scene.other_releases("c");
    let took = [(); 3].map(|()| taken(&mut scene));
    let expected = [("a", shared), ("b", permits(1, 2)), ("c", exclusive)];
    assert_eq!(took, expected.map(|(text, mode)| (text.to_owned(), mode)));
    assert_eq!(scene.granted(2).len(), 3);
}

#[test]
fn a_place_is_for_the_mode_of_its_name() {
    let (mut scene, ticket) =
        Scene::waiting_for("b", each(&[("a", Mode::Exclusive), ("b", Mode::Shared)]));
    // What joins the queue again if that is lost.
    assert_eq!(scene.tracked.get(&ticket), Some(&Mode::Shared));
    scene.other_releases("b");
    scene.answer_all();
    scene.granted(2);
    // Beside other readers, and alone.
    let reader = in_mode(Mode::Shared, acquire("b"));
    scene.ask(3, Request::Acquire(reader));
    scene.answer_all();
    scene.granted(3);
    let writer = AcquireRequest {
        wait: Wait::No,
        ..in_mode(Mode::Shared, acquire("a"))
    };
    scene.ask(4, Request::Acquire(writer));
    scene.answer_all();
    assert_eq!(not_granted(&mut scene, 4), NotGranted::Busy);
}

#[test]
fn an_actor_may_hold_each_name_once_more_in_a_mode_that_its_hold_covers() {
    let mut scene = Scene::open();
    let (shared, exclusive) = (Mode::Shared, Mode::Exclusive);
    let held = scene.hold(2, each(&[("a", exclusive), ("b", shared)]));
    let asked = again(&[("b", shared), ("a", shared), ("c", exclusive)]);
    scene.ask(3, Request::Acquire(asked));
    scene.answer_all();
    let locks = scene.locks_granted(3);
    let counts: Vec<_> = locks.iter().map(|lock| (lock.owner, lock.count)).collect();
    assert_eq!(counts[..2], [(held[1], 2), (held[0], 2)]);
    scene.hold(5, again(&[("a", exclusive), ("b", shared)]));
    // One that it shares is no way to an exclusive one, also among others that it may have.
    let asked = again(&[("a", shared), ("b", exclusive)]);
    scene.ask(4, Request::Acquire(asked));
    let upgrade = Refused::Upgrade {
        actor: Actor::new(7),
        name: name("b"),
    };
    assert_eq!(refused(&mut scene, 4), upgrade);
    assert!(scene.sent.is_empty());
}

#[test]
fn a_permission_is_for_the_mode_of_its_name() {
    let mut scene = Scene::open();
    scene.other_takes("a");
    scene.hold(2, each(&[("c", Mode::Exclusive), ("d", Mode::Shared)]));
    let asked = each(&[("a", Mode::Exclusive), ("b", Mode::Shared)]);
    scene.queue(3, asked);
    // As a permission for an election, which has exclusive holds only.
    scene.revise(|_, mode| mode == Mode::Exclusive);
    scene.answer_all();
    let said = scene.said();
    let denied = Refused::PermissionDenied(name("b"));
    assert!(said.contains(&(3, Response::Refused(denied))), "{said:?}");
    let lost: Option<Vec<_>> = said.iter().find_map(|(_, response)| match response {
        Response::Lost(locks) => Some(locks.iter().map(|lock| lock.name.clone()).collect()),
        _ => None,
    });
    assert_eq!(lost, Some(vec![name("d")]));
    assert_eq!(scene.session.holds(), 1);
}

/// Returns the numbers of permits of the locks that a request was granted.
fn permits_of(scene: &mut Scene, request: RequestId) -> Vec<u32> {
    let locks = scene.locks_granted(request);
    locks.iter().map(|lock| lock.permits).collect()
}

fn left(least: u32, most: u32, limit: u32) -> Mode {
    Mode::Semaphore(Permits::new(most, limit).unwrap().or_at_least(least))
}

#[test]
fn the_number_of_permits_is_that_of_the_grant_at_once_from_the_queue_and_once_more() {
    let mut scene = Scene::open();
    scene.ask(2, Request::Acquire(in_mode(permits(3, 5), acquire("a"))));
    scene.answer();
    assert_eq!(permits_of(&mut scene, 2), [3]);
    let actor = AcquireRequest {
        actor: Actor::new(7),
        reentrant: true,
        ..acquire("a")
    };
    scene.ask(3, Request::Acquire(in_mode(left(1, 5, 5), actor.clone())));
    scene.answer();
    let locks = scene.locks_granted(3);
    assert_eq!(locks.first().permits, 2);
    let owner = locks.first().owner;
    // Once more, with what it holds: it needs no more than that.
    scene.ask(4, Request::Acquire(in_mode(left(2, 5, 5), actor.clone())));
    assert_eq!(permits_of(&mut scene, 4), [2]);
    scene.ask(5, Request::Acquire(in_mode(left(3, 5, 5), actor)));
    assert!(matches!(refused(&mut scene, 5), Refused::Upgrade { .. }));
    // A waiter gets what another's end leaves it.
    let waits = scene.queue(6, in_mode(left(1, 4, 5), acquire("a")));
    for _ in 0..2 {
        scene.release(7, "a", owner);
    }
    scene.answer_all();
    let granted = scene
        .said()
        .into_iter()
        .find_map(|(request, said)| match said {
            Response::Granted { locks, .. } if request == 6 => Some(locks),
            _ => None,
        });
    let granted = granted.unwrap();
    assert_eq!((granted.first().owner, granted.first().permits), (waits, 2));
    assert_eq!(scene.permits_taken("a"), 5);
}

#[test]
fn each_of_several_says_its_own_number_of_permits() {
    let mut scene = Scene::open();
    scene.ask(2, Request::Acquire(in_mode(permits(2, 5), acquire("b"))));
    scene.answer();
    assert_eq!(permits_of(&mut scene, 2), [2]);
    let locks = vec![
        spec("c", permits(1, 1)),
        spec("b", left(1, 5, 5)),
        spec("a", Mode::Shared),
    ];
    let several = AcquireRequest {
        locks: LockSpecs::from_vec(locks).unwrap(),
        ..acquire("a")
    };
    scene.ask(3, Request::Acquire(several));
    scene.answer_all();
    assert_eq!(permits_of(&mut scene, 3), [1, 3, 0]);
}

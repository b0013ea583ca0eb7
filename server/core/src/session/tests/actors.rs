//! Acquires of an actor that already has something: reentrancy, upgrades and deadlocks.

use super::*;

fn of(actor: u64, reentrant: bool) -> AcquireRequest {
    AcquireRequest {
        actor: Actor::new(actor),
        reentrant,
        ..acquire("a")
    }
}

#[test]
fn an_actor_holds_a_lock_once_more_only_if_it_says_so() {
    let mut scene = Scene::open();
    let owners = scene.hold(2, of(7, false));
    scene.ask(3, Request::Acquire(of(7, false)));
    let self_deadlock = |holds| Refused::SelfDeadlock {
        actor: Actor::new(7),
        name: name("a"),
        holds,
    };
    assert_eq!(refused(&mut scene, 3), self_deadlock(true));
    // Without a command: the session alone decides, and tells the store for others to see.
    scene.ask(4, Request::Acquire(of(7, true)));
    assert_eq!(scene.granted(4), owners);
    assert_eq!(scene.ops(), ["set count"]);
    scene.answer();
    scene.release(5, "a", owners[0]);
    let [(5, Response::Released { hold_count: 1, .. })] = scene.said()[..] else {
        panic!("not counted down");
    };
    scene.answer();
    scene.release(6, "a", owners[0]);
    assert_eq!(scene.ops(), ["release"]);
    scene.answer();
    let released = Response::Released {
        released: true,
        hold_count: 0,
    };
    assert_eq!(scene.said(), [(6, released)]);
    assert_eq!(scene.holders("a"), 0);
    // Waiting counts as well.
    scene.other_takes("a");
    scene.queue(8, of(7, false));
    scene.ask(9, Request::Acquire(of(7, true)));
    assert_eq!(refused(&mut scene, 9), self_deadlock(false));
}

#[test]
fn a_count_that_changes_while_the_store_is_told_is_told_again() {
    let mut scene = Scene::open();
    scene.hold(2, of(7, false));
    for request in 3..=5 {
        scene.ask(request, Request::Acquire(of(7, true)));
    }
    let count = |scene: &Scene| match &scene.sent.front().unwrap().op {
        Op::SetCount { count, .. } => *count,
        other => panic!("{other:?}"),
    };
    assert_eq!((scene.sent.len(), count(&scene)), (1, 2));
    scene.answer();
    assert_eq!((scene.sent.len(), count(&scene)), (1, 4));
    // What is not known is told with the next renewal.
    scene.fail(indeterminate());
    assert!(scene.sent.is_empty());
    scene.pass(TTL / 3);
    scene.ask(6, Request::Heartbeat { sequence: 1 });
    scene.answer();
    assert_eq!((scene.sent.len(), count(&scene)), (1, 4));
}

#[test]
fn a_shared_hold_is_no_way_to_an_exclusive_one() {
    let mut scene = Scene::open();
    scene.hold(2, in_mode(Mode::Shared, of(7, false)));
    scene.ask(3, Request::Acquire(of(7, true)));
    let upgrade = Refused::Upgrade {
        actor: Actor::new(7),
        name: name("a"),
    };
    assert_eq!(refused(&mut scene, 3), upgrade);
}

#[test]
fn a_wait_of_an_actor_that_holds_something_may_be_ended_as_a_deadlock() {
    let mut scene = Scene::open();
    let held = AcquireRequest {
        actor: Actor::new(7),
        ..acquire("b")
    };
    scene.hold(2, held);
    scene.other_takes("a");
    let ticket = scene.queue(3, of(7, false));
    assert!(scene.watched.contains(&ticket));
    let other = scene.queue(4, of(8, false));
    assert!(!scene.watched.contains(&other), "it holds nothing");
    let wait = crate::deadlock::BlockedWait {
        session: crate::id::SessionId::from_bytes([1; 16]),
        actor: Actor::new(7),
        ticket,
        name: name("a"),
    };
    let deadlock = Box::new(crate::deadlock::Deadlock {
        victim: wait,
        cycle: Vec::new(),
    });
    scene.event(ticket, RegistryEvent::Deadlocked(deadlock.clone()));
    assert_eq!(scene.ops(), ["release"]);
    scene.answer();
    assert_eq!(refused(&mut scene, 3), Refused::Deadlock(deadlock));
    assert_eq!(scene.untracked, [WaitEnd::Deadlocked]);
}

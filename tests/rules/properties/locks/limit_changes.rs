//! Changes of a limit by acquires of another revision: raised, lowered, remembered and forgotten.

use std::time::Duration;

use leasehold_core::{
    command::{One, Op, Reply, Resume},
    id::SessionId,
    mode::Limit,
    name::ClientName,
};

use crate::locks::revisions::{FOREVER, MEMORY, World, owner, permits};

const FORMER: Limit = Limit {
    number: 5,
    revision: 0,
};
const RAISED: Limit = Limit {
    number: 8,
    revision: 1,
};
const LOWERED: Limit = Limit {
    number: 3,
    revision: 2,
};

#[test]
fn raising_a_limit_lets_waiters_in_at_once() {
    let mut world = World::new();
    for _ in 0..8 {
        world.acquire(permits(1, FORMER), true);
    }
    let (_, executed) = world.acquire(permits(8, RAISED), false);
    assert_eq!(executed.handed.len(), 3);
    assert!(matches!(executed.reply, Reply::Busy { .. }));
    assert_eq!(world.view().limit, Some(RAISED));
}

#[test]
fn lowering_a_limit_takes_nothing_away_and_lets_nobody_in_before_the_permits_fit() {
    let mut world = World::new();
    for _ in 0..5 {
        world.acquire(permits(1, FORMER), true);
    }
    let (_, executed) = world.acquire(permits(1, LOWERED), true);
    assert!(matches!(executed.reply, Reply::Queued { .. }));
    let view = world.view();
    assert_eq!((view.limit, view.permits_taken), (Some(LOWERED), 5));
    for number in 1..=2 {
        assert!(world.release(number).handed.is_empty());
    }
    assert_eq!(world.release(3).handed.len(), 1);
    assert_eq!(world.view().permits_taken, 3);
}

#[test]
fn a_limit_with_a_revision_is_remembered_when_everybody_has_let_go() {
    let mut world = World::new();
    world.acquire(permits(1, LOWERED), true);
    world.release(1);
    assert_eq!(world.view().limit, None);
    world.acquire(permits(1, FORMER), true);
    assert_eq!(world.view().limit, Some(LOWERED));
    world.release(2);
    world.now = world.now.after(MEMORY);
    world.acquire(permits(1, FORMER), true);
    assert_eq!(world.view().limit, Some(FORMER));
}

#[test]
fn a_limit_is_remembered_from_the_last_renewal_of_permits_on() {
    let mut world = World::new();
    let (held, _) = world.acquire(permits(1, LOWERED), true);
    for _ in 0..3 {
        world.now = world.now.after(MEMORY - Duration::from_secs(1));
        world.send(&Op::Renew {
            token: None,
            owner: held,
            ttl: FOREVER,
        });
    }
    world.now = world.now.after(MEMORY - Duration::from_secs(1));
    world.release(1);
    world.acquire(permits(1, FORMER), true);
    assert_eq!(world.view().limit, Some(LOWERED));
}

#[test]
fn a_resume_of_the_only_hold_keeps_the_limit_in_force() {
    let mut world = World::new();
    let (held, _) = world.acquire(permits(1, FORMER), true);
    world.acquire(permits(8, RAISED), false);
    let resume = Resume {
        from: vec![held],
        next: owner(100),
        session: Some(SessionId::from_bytes([7; 16])),
        client_name: ClientName::default(),
        ttl: FOREVER,
        count: 1,
        max_hold: None,
    };
    let resumed = world.send(&Op::Resume(resume)).reply;
    assert!(matches!(resumed, Reply::Resumed { .. }), "{resumed:?}");
    assert_eq!(world.view().limit, Some(RAISED));
}

#[test]
fn a_force_release_forgets_the_revision() {
    let huge = Limit {
        number: 1,
        revision: u32::MAX,
    };
    let mut world = World::new();
    world.acquire(permits(1, huge), true);
    world.acquire(permits(1, huge), true);
    let before = world.view();
    assert_eq!((before.limit, before.waiter_count), (Some(huge), 1));
    world.send(&Op::ForceRelease);
    world.acquire(permits(1, RAISED), true);
    assert_eq!(world.view().limit, Some(RAISED));
}

#[test]
fn a_force_release_of_one_hold_or_waiter_keeps_the_revision() {
    let mut world = World::new();
    world.acquire(permits(3, LOWERED), true);
    world.acquire(permits(1, LOWERED), true);
    let view = world.view();
    let waiter = One::Waiter(view.waiters[0].number);
    let holder = One::Holder(view.token.unwrap());
    for one in [waiter, holder] {
        let executed = world.send(&Op::ForceReleaseOne(one));
        assert!(matches!(
            executed.reply,
            Reply::Forced { released: true, .. }
        ));
    }
    assert_eq!(world.view().holder_count, 0);
    world.acquire(permits(1, FORMER), true);
    assert_eq!(world.view().limit, Some(LOWERED));
}

//! Changes of a limit by acquires of another revision: raised, lowered, remembered and forgotten.

use std::time::Duration;

use leasehold_core::{
    command::{One, Op, Reply, Resume},
    id::{OwnerId, SessionId},
    mode::{Limit, Mode},
    name::ClientName,
};

use crate::locks::revisions::{FOREVER, MEMORY, World, owner, permits, permits_between};

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
fn a_waiter_for_more_than_a_lowered_limit_blocks_nobody() {
    let mut world = World::new();
    world.acquire(permits(5, FORMER), true);
    let (big, _) = world.acquire(permits(5, FORMER), true);
    let (small, _) = world.acquire(permits(1, FORMER), true);
    world.acquire(permits(3, LOWERED), false);
    let executed = world.release(1);
    let handed: Vec<OwnerId> = executed.handed.iter().map(|handed| handed.owner).collect();
    assert_eq!(handed, [small]);
    let view = world.view();
    assert_eq!((view.waiter_count, view.permits_taken), (0, 1));
    // That is how its coordinator finds out.
    assert!(!world.is_attached(big));
}

#[test]
fn a_waiter_that_leaves_is_missed_also_if_its_coordinator_takes_another_for_the_oldest() {
    let mut world = World::new();
    world.acquire(permits(5, FORMER), true);
    world.acquire(permits(5, FORMER), true);
    let (small, _) = world.acquire(permits(1, FORMER), true);
    world.acquire(Mode::Exclusive, true);
    world.acquire(permits(3, LOWERED), false);
    world.release(1);
    assert_eq!(world.view().waiter_count, 1);
    for is_attached in [false, true] {
        assert_eq!(world.is_attached(small), is_attached);
    }
}

#[test]
fn what_is_left_is_counted_by_the_limit_in_force() {
    let mut world = World::new();
    world.acquire(permits(3, FORMER), true);
    // It may have all of the greater limit, and gets what is left of it.
    let (_, executed) = world.acquire(permits_between(2, 8, RAISED), true);
    assert!(matches!(
        executed.reply,
        Reply::Granted {
            permits: Some(5),
            ..
        }
    ));
    // A waiter stays in a lowered limit that has enough for it, although it would take more.
    let (left, executed) = world.acquire(permits_between(2, 5, FORMER), true);
    assert!(matches!(executed.reply, Reply::Queued { .. }));
    world.acquire(permits(1, LOWERED), false);
    assert!(world.release(2).handed.is_empty());
    let executed = world.release(1);
    let handed: Vec<_> = executed
        .handed
        .iter()
        .map(|h| (h.owner, h.permits.map(std::num::NonZeroU32::get)))
        .collect();
    assert_eq!(handed, [(left, Some(3))]);
    // One that needs more than it is refused, whatever it would take.
    let (_, executed) = world.acquire(permits_between(4, 5, FORMER), true);
    assert_eq!(executed.reply, Reply::OtherLimit { limit: LOWERED });
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

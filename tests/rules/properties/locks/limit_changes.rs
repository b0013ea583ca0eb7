//! Memory of a limit of another revision: over renewals, resumes, and the end of one hold or wait by force.

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

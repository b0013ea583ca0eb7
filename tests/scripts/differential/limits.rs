//! Limits of semaphores that change while they are in use, and permits that are given back in part.

use std::{num::NonZeroU32, time::Duration};

use leasehold_core::{
    command::{DEAD_AFTER, Executed, Loss, Op, Reply},
    id::OwnerId,
    mode::{Limit, Mode, Permits},
};

use crate::{
    common::{acquire, owner, release, renew, resume},
    differential::{pair::Pair, server::Server},
};

/// Changes the states of holders and of the queue to those of coordinators that know no revisions.
const WITHOUT_REVISIONS: &str = r"
    local changed = 0
    for _, key in ipairs(redis.call('KEYS', '*')) do
        local state = redis.call('TYPE', key).ok == 'hash' and redis.call('HGET', key, '')
        if state then
            state = cmsgpack.unpack(state)
            state[#state] = nil
            redis.call('HSET', key, '', cmsgpack.pack(state))
            changed = changed + 1
        end
    end
    return changed
";

fn permits(number: u32, limit: u32, revision: u32) -> Mode {
    let permits = Permits::new(number, limit).unwrap();
    Mode::Semaphore(permits.of_revision(revision))
}

/// Returns as many permits as are left, of a limit without a revision or with one.
fn what_is_left(least: u32, most: u32, limit: u32, revision: u32) -> Mode {
    let permits = Permits::new(most, limit).unwrap();
    Mode::Semaphore(permits.of_revision(revision).or_at_least(least))
}

fn handed(executed: &Executed) -> Vec<OwnerId> {
    executed.handed.iter().map(|handed| handed.owner).collect()
}

/// Returns who was handed something, and the number of permits where it was left to the store.
fn shares(executed: &Executed) -> Vec<(OwnerId, Option<u32>)> {
    let handed = executed.handed.iter();
    let share = handed.map(|handed| (handed.owner, handed.permits.map(NonZeroU32::get)));
    share.collect()
}

/// Returns the number of permits of a grant that was left to the store.
fn left_to_store(reply: &Reply) -> Option<u32> {
    match reply {
        Reply::Granted { permits, .. } => *permits,
        other => panic!("{other:?} is no grant"),
    }
}

async fn limit(pair: &mut Pair) -> Option<Limit> {
    pair.view(10).await.limit
}

#[tokio::test(flavor = "multi_thread")]
async fn waiters_for_more_than_a_lowered_limit_leave_and_those_behind_get_in() {
    let server = Server::start().await;
    let mut pair = Pair::new(&server, "lowered").await;
    for (number, by, wanted) in [
        (0, "here", 4),
        (1, "there", 4),
        (2, "here", 3),
        (3, "there", 1),
    ] {
        pair.run(by, acquire(number, permits(wanted, 4, 0))).await;
    }
    let lowering = pair.run("here", acquire(4, permits(2, 2, 7))).await;
    assert!(matches!(lowering, Reply::Queued { .. }), "{lowering:?}");
    let released = pair.execute("here", release(0)).await;
    assert_eq!(handed(&released), [owner(3)]);
    // Each coordinator finds its own gone, asks again, and is refused.
    for (number, by, wanted) in [(1, "there", 4), (2, "here", 3)] {
        let oldest = Some(owner(number));
        let refreshed = pair.run(by, Op::Refresh { oldest }).await;
        assert!(
            matches!(
                refreshed,
                Reply::Refreshed {
                    attached: false,
                    ..
                }
            ),
            "{refreshed:?}"
        );
        let again = pair.run(by, acquire(number, permits(wanted, 4, 0))).await;
        let in_force = Limit {
            number: 2,
            revision: 7,
        };
        assert_eq!(again, Reply::OtherLimit { limit: in_force });
    }
    let released = pair.execute("there", release(3)).await;
    assert_eq!(handed(&released), [owner(4)]);
    pair.run("here", release(4)).await;
    // It is remembered when nobody is left.
    assert_eq!(limit(&mut pair).await, None);
    pair.run("there", acquire(5, permits(1, 4, 0))).await;
    assert_eq!(limit(&mut pair).await.map(|limit| limit.revision), Some(7));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_waiter_that_leaves_is_missed_also_if_its_coordinator_takes_another_for_the_oldest() {
    let server = Server::start().await;
    let mut pair = Pair::new(&server, "missed").await;
    for (number, wanted) in [(0, 4), (1, 4), (2, 1)] {
        let mode = permits(wanted, 4, 0);
        pair.run("here", acquire(number, mode)).await;
    }
    pair.run("here", acquire(3, Mode::Exclusive)).await;
    pair.run("there", acquire(4, permits(2, 2, 1))).await;
    let released = pair.execute("there", release(0)).await;
    assert_eq!(handed(&released), [owner(2)]);
    for (by, is_attached) in [("there", true), ("here", false), ("here", true)] {
        let oldest = Some(owner(2));
        match pair.run(by, Op::Refresh { oldest }).await {
            Reply::Refreshed { attached, .. } => assert_eq!(attached, is_attached, "{by}"),
            other => panic!("{other:?}"),
        }
    }
}

/// Found by `random_histories_agree`.
#[tokio::test(flavor = "multi_thread")]
async fn an_acquire_that_is_sent_again_may_lower_the_limit_below_what_its_waiter_needs() {
    let mut server = Server::start().await;
    let mut pair = Pair::new(&server, "again").await;
    pair.run("here", acquire(0, permits(1, 4, 0))).await;
    pair.run("there", acquire(1, permits(4, 4, 0))).await;
    // It keeps its place, but is skipped: the next is the one behind it.
    server.pass(DEAD_AFTER + Duration::from_millis(100));
    pair.run("here", acquire(2, permits(4, 4, 0))).await;
    let again = pair.run("here", acquire(2, permits(1, 2, 7))).await;
    assert!(
        matches!(again, Reply::Queued { position: 1, .. }),
        "{again:?}"
    );
    let oldest = Some(owner(2));
    match pair.run("here", Op::Refresh { oldest }).await {
        Reply::Refreshed { attached, .. } => assert!(!attached),
        other => panic!("{other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_limit_is_remembered_from_the_last_renewal_or_resume_on() {
    let server = Server::start().await;
    let mut pair = Pair::new(&server, "renewed").await;
    pair.run("here", acquire(0, permits(1, 2, 3))).await;
    let key: Vec<String> = server.ask(&["KEYS", "*:limit:*"]).await;
    for op in [renew(0, Duration::from_secs(600)), resume(&[0], 1)] {
        let () = server.ask(&["PEXPIRE", &key[0], "5000"]).await;
        pair.run("here", op).await;
        let left: u64 = server.ask(&["PTTL", &key[0]]).await;
        assert!(left > 30_000, "{left} ms");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn many_waiters_for_more_than_a_lowered_limit_leave_some_at_a_time() {
    let server = Server::start().await;
    let mut pair = Pair::new(&server, "crowd").await;
    for number in 0..151 {
        pair.run("here", acquire(number, permits(4, 4, 0))).await;
    }
    let lowering = acquire(200, permits(2, 2, 1));
    let lowering = pair.execute("here", lowering).await;
    assert_eq!((handed(&lowering), lowering.more), (Vec::new(), true));
    // A resume that moves one of those that are left finds that it leaves.
    let resumed = pair.run("there", resume(&[150], 300)).await;
    assert_eq!(resumed, Reply::Lost(Loss::Taken));
    let released = pair.execute("here", release(0)).await;
    assert_eq!(
        (handed(&released), released.more),
        (vec![owner(200)], false)
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn states_of_coordinators_that_know_no_revisions_have_limits_of_none() {
    for raised in [false, true] {
        let server = Server::start().await;
        let mut pair = Pair::new(&server, "former").await;
        pair.run("here", acquire(0, permits(1, 2, 0))).await;
        pair.run("here", acquire(1, permits(2, 2, 0))).await;
        let changed: u32 = server.ask(&["EVAL", WITHOUT_REVISIONS, "0"]).await;
        assert_eq!(changed, 2);
        let other = pair.run("there", acquire(2, permits(1, 3, 0))).await;
        assert!(matches!(other, Reply::OtherLimit { .. }), "{other:?}");
        if raised {
            let executed = pair.execute("here", acquire(3, permits(1, 3, 1))).await;
            assert_eq!(handed(&executed), [owner(1)]);
        }
        pair.run("here", release(0)).await;
        pair.run("here", release(1)).await;
        assert_eq!(limit(&mut pair).await.is_some(), raised);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn permits_that_are_given_back_are_handed_on_once() {
    let server = Server::start().await;
    let mut pair = Pair::new(&server, "reduced").await;
    // One with a revision and without, whose records differ in length.
    for (number, wanted, revision) in [(0, 4, 0), (1, 3, 0), (2, 2, 9)] {
        let mode = permits(wanted, 5, revision);
        pair.run("here", acquire(number, mode)).await;
    }
    for (number, kept, let_in) in [
        (0, 4, None),
        (0, 2, Some(1)),
        (0, 2, None),
        (0, 3, None),
        (1, 1, Some(2)),
        (2, 1, None),
    ] {
        let reduce = Op::Reduce {
            owner: owner(number),
            permits: kept,
        };
        let executed = pair.execute("here", reduce).await;
        assert_eq!(executed.reply, Reply::Changed(true));
        assert_eq!(handed(&executed), let_in.map(owner).as_slice());
        limit(&mut pair).await;
        pair.run("here", Op::Edges).await;
    }
    let view = pair.view(0).await;
    assert_eq!((view.permits_taken, view.holder_count), (4, 3));
    // Their ends give back what is left.
    for number in 0..3 {
        pair.run("here", release(number)).await;
    }
    assert_eq!(limit(&mut pair).await, None);
    let gone = Op::Reduce {
        owner: owner(0),
        permits: 1,
    };
    assert_eq!(pair.run("here", gone).await, Reply::Changed(false));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_left_is_granted_told_and_found_again() {
    for revision in [0, 3] {
        let server = Server::start().await;
        let mut pair = Pair::new(&server, "left").await;
        let asked = |least, most| what_is_left(least, most, 5, revision);
        pair.run("here", acquire(0, permits(2, 5, revision))).await;
        for granted in ["at once", "again"] {
            let reply = pair.run("here", acquire(1, asked(2, 5))).await;
            assert_eq!(left_to_store(&reply), Some(3), "{granted}");
        }
        // Each gets what those before it have left, at its own coordinator and elsewhere.
        for (number, by, mode) in [
            (2, "there", asked(1, 2)),
            (3, "here", permits(1, 5, revision)),
            (4, "there", asked(1, 4)),
            (5, "here", asked(1, 1)),
        ] {
            pair.run(by, acquire(number, mode)).await;
        }
        limit(&mut pair).await;
        pair.run("here", Op::Edges).await;
        let released = pair.execute("here", release(0)).await;
        assert_eq!(shares(&released), [(owner(2), Some(2))]);
        let released = pair.execute("here", release(1)).await;
        assert_eq!(shares(&released), [(owner(3), None), (owner(4), Some(2))]);
        // Those who missed the message find the number with the grant.
        let refreshed = pair.run("there", Op::Refresh { oldest: None }).await;
        let Reply::Refreshed { current, .. } = refreshed else {
            panic!("{refreshed:?}")
        };
        let current: Vec<_> = current.iter().map(|c| (c.owner, c.permits)).collect();
        assert_eq!(current, [(owner(2), Some(2)), (owner(4), Some(2))]);
        // A change of the hold leaves its number alone, and a resume tells it.
        let next = owner(9);
        let resumed = pair.run("there", resume(&[4], 9)).await;
        let Reply::Resumed { mode, .. } = resumed else {
            panic!("{resumed:?}")
        };
        assert_eq!(mode.permits_left_to_store(), Some(2));
        let reduce = Op::Reduce {
            owner: next,
            permits: 1,
        };
        let reduced = pair.execute("there", reduce).await;
        assert_eq!(shares(&reduced), [(owner(5), Some(1))]);
        limit(&mut pair).await;
        // A place keeps what it asks for when it is resumed.
        pair.run("here", acquire(6, asked(2, 5))).await;
        pair.run("there", resume(&[6], 10)).await;
        let released = pair.execute("here", release(2)).await;
        assert_eq!(shares(&released), [(owner(10), Some(2))]);
        limit(&mut pair).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_left_is_left_of_the_limit_in_force() {
    let server = Server::start().await;
    let mut pair = Pair::new(&server, "in force").await;
    pair.run("here", acquire(0, permits(3, 5, 0))).await;
    let raising = pair.run("here", acquire(1, what_is_left(2, 8, 8, 1))).await;
    assert_eq!(left_to_store(&raising), Some(5));
    for (number, least) in [(2, 2), (3, 4)] {
        let mode = what_is_left(least, 5, 5, 0);
        pair.run("there", acquire(number, mode)).await;
    }
    pair.run("here", acquire(4, permits(1, 3, 2))).await;
    pair.run("here", release(1)).await;
    let released = pair.execute("here", release(0)).await;
    assert_eq!(shares(&released), [(owner(2), Some(3))]);
    limit(&mut pair).await;
    // The one that needs more than the lowered limit is gone when it is the next.
    let released = pair.execute("there", release(2)).await;
    assert_eq!(handed(&released), [owner(4)]);
    let again = pair
        .run("there", acquire(3, what_is_left(4, 5, 5, 0)))
        .await;
    assert!(matches!(again, Reply::OtherLimit { .. }), "{again:?}");
    let all = pair
        .run("there", acquire(5, what_is_left(1, 8, 8, 0)))
        .await;
    assert_eq!(left_to_store(&all), Some(2));
}

//! Limits of semaphores that change while they are in use, and permits that are given back in part.

use std::time::Duration;

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

fn handed(executed: &Executed) -> Vec<OwnerId> {
    executed.handed.iter().map(|handed| handed.owner).collect()
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

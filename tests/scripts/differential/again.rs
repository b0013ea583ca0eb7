//! An acquire that is sent again after its hold was renewed, a renewal of another grant, and a resume of a hold whose bound has
//! passed.

use std::time::{Duration, Instant};

use leasehold_core::{
    command::{Loss, Op, Reply},
    id::FencingToken,
    mode::Mode,
    view::{HoldView, HolderView},
};
use leasehold_tests::RedisServer;

use crate::differential::pair::{Pair, acquire, modes, owner, resume};

/// For longer than the acquire asked for.
const RENEWED_FOR: Duration = Duration::from_secs(3600);
/// Over before an operation that comes ten times later.
const SOON: Duration = Duration::from_millis(2);
/// The test takes no longer.
const LEFT: Duration = Duration::from_secs(3000);

#[tokio::test]
async fn it_leaves_a_longer_end_as_it_is() {
    let redis = RedisServer::start();
    for (name, mode) in modes() {
        let mut pair = Pair::new(&redis, name).await;
        let granted = pair.run("here", acquire(1, mode)).await;
        let renew = Op::Renew {
            token: None,
            owner: owner(1),
            ttl: RENEWED_FOR,
        };
        assert_eq!(pair.run("here", renew).await, Reply::Renewed);
        assert_eq!(pair.run("here", acquire(1, mode)).await, granted);
        let hold = only_hold(&mut pair).await;
        assert!(hold.expires_in > LEFT, "{name}: {hold:?}");
    }
}

/// A fail-over may have lost the grant that the sender knows, and the waiter, whose place came back, was granted the lock again.
#[tokio::test]
async fn a_renewal_leaves_a_later_grant_of_the_same_owner_id_alone() {
    let redis = RedisServer::start();
    for (name, mode) in modes() {
        let mut pair = Pair::new(&redis, name).await;
        pair.run("here", acquire(1, mode)).await;
        let hold = only_hold(&mut pair).await;
        let renew = |token| Op::Renew {
            owner: owner(1),
            token: Some(token),
            ttl: RENEWED_FOR,
        };
        let before = FencingToken::new(hold.token.get() - 1);
        for coordinator in ["here", "there"] {
            let renewed = pair.run(coordinator, renew(before)).await;
            assert_eq!(renewed, Reply::Lost(Loss::Taken), "{name}");
        }
        let after = only_hold(&mut pair).await;
        assert!(after.expires_in < LEFT, "{name}: {after:?}");
        assert_eq!(pair.run("there", renew(hold.token)).await, Reply::Renewed);
        assert!(only_hold(&mut pair).await.expires_in > LEFT, "{name}");
    }
}

async fn only_hold(pair: &mut Pair) -> HoldView {
    let view = pair.run("here", Op::View { waiters: 0 }).await;
    let Reply::Seen(view) = view else {
        panic!("{view:?}")
    };
    let [HolderView::Ours(hold)] = &view.holders[..] else {
        panic!("{view:?}")
    };
    (**hold).clone()
}

/// Returns a lock with a hold that may last for `bound`.
async fn bounded(redis: &RedisServer, name: &str, mode: Mode, bound: Duration) -> Pair {
    let mut pair = Pair::new(redis, name).await;
    let Op::Acquire(mut asked) = acquire(1, mode) else {
        panic!("it is an acquire")
    };
    asked.max_hold = Some(bound);
    pair.run("here", Op::Acquire(asked)).await;
    pair
}

#[tokio::test]
async fn a_hold_that_has_lasted_for_as_long_as_it_may_is_not_resumed() {
    let redis = RedisServer::start();
    for (name, mode) in modes() {
        let mut pair = bounded(&redis, name, mode, SOON).await;
        let begun = Instant::now();
        while begun.elapsed() < SOON * 10 {
            only_hold(&mut pair).await;
        }
        for next in [2, 3] {
            assert_eq!(
                pair.run("there", resume(&[1], next)).await,
                Reply::Lost(Loss::Expired),
                "{name}"
            );
        }
        // It stands, for the coordinator that had it to end.
        assert!(only_hold(&mut pair).await.expires_in < RENEWED_FOR);
        let renew = Op::Renew {
            token: None,
            owner: owner(1),
            ttl: RENEWED_FOR,
        };
        assert_eq!(pair.run("here", renew).await, Reply::Renewed);
    }
}

/// The coordinator that has it must learn of it, even if the first answer to its resume was lost: nobody else would end it.
#[tokio::test]
async fn a_resume_that_is_repeated_after_the_bound_finds_what_it_resumed() {
    let redis = RedisServer::start();
    for (name, mode) in modes() {
        let bound = Duration::from_secs(2);
        let mut pair = bounded(&redis, name, mode, bound).await;
        let granted = Instant::now();
        let first = pair.run("there", resume(&[1], 2)).await;
        assert!(matches!(first, Reply::Resumed { .. }), "{name}: {first:?}");
        while granted.elapsed() < bound + SOON * 10 {
            tokio::time::sleep(SOON).await;
        }
        let Reply::Resumed { terms, .. } = pair.run("there", resume(&[1], 2)).await else {
            panic!("{name}: a repeated resume was refused")
        };
        assert_eq!(terms.ends_in, Some(Duration::ZERO), "{name}");
        assert_eq!(
            pair.run("here", resume(&[2], 3)).await,
            Reply::Lost(Loss::Expired),
            "{name}"
        );
    }
}

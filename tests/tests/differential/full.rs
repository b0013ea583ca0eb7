//! Redis has no memory left.

use std::time::Duration;

use leasehold_core::{
    command::{End, Op, Reply},
    mode::{Mode, Permits},
};
use leasehold_store::StoreError;
use leasehold_tests::RedisServer;

use crate::pair::{Pair, acquire, owner, release, resume};

#[tokio::test(flavor = "multi_thread")]
async fn whoever_holds_or_waits_can_let_go_while_nobody_can_acquire() {
    let redis = RedisServer::start();
    let exclusive = Mode::Exclusive;
    let mut held = Pair::new(&redis, "held").await;
    let mut free = Pair::new(&redis, "free").await;
    let mut shared = Pair::new(&redis, "shared").await;
    let mut closing = Pair::new(&redis, "closing").await;
    for number in 0..4 {
        held.run("here", acquire(number, exclusive)).await;
    }
    free.run("here", acquire(10, exclusive)).await;
    for number in 0..3 {
        shared.run("here", acquire(number, Mode::Shared)).await;
        let permits = Mode::Semaphore(Permits::new(1, 2).unwrap());
        let Op::Acquire(mut asked) = acquire(number, permits) else {
            panic!("it is an acquire")
        };
        asked.lock_delay = Duration::from_secs(60);
        closing.run("here", Op::Acquire(asked)).await;
    }
    shared.run("here", acquire(3, exclusive)).await;
    shared.run("here", acquire(4, Mode::Shared)).await;
    let mut set = redis::cmd("CONFIG");
    set.arg("SET").arg("maxmemory").arg("1");
    let mut connection = redis.async_connection().await;
    let () = set.query_async(&mut connection).await.unwrap();

    // What is held and waited for is resumed.
    let mut resumed = Vec::new();
    for (from, next) in [(0, 100), (3, 103)] {
        resumed.push(held.run("there", resume(&[from], next)).await);
    }
    resumed.push(shared.run("there", resume(&[1], 101)).await);
    resumed.push(closing.run("there", resume(&[2], 102)).await);
    let is_resumed =
        |reply: &Reply| matches!(reply, Reply::Resumed { .. } | Reply::ResumedWait { .. });
    assert!(resumed.iter().all(is_resumed), "{resumed:?}");

    // A waiter leaves; the lock is handed on; one that nobody waits for is released.
    held.run("here", release(2)).await;
    held.run("there", release(100)).await;
    free.run("here", release(10)).await;
    let seen = held.run("here", Op::View { waiters: 10 }).await;
    assert!(matches!(seen, Reply::Seen(view) if view.waiter_count == 1));

    let refused = free.try_run("here", acquire(11, exclusive)).await;
    assert!(
        matches!(refused, Err(StoreError::Refused { .. })),
        "{refused:?}"
    );
    let refused = held.try_run("here", acquire(11, exclusive)).await;
    assert!(
        matches!(refused, Err(StoreError::Refused { .. })),
        "{refused:?}"
    );

    // One of several leaves, and the waiter behind another that leaves is let in; one of them is renewed; permits are
    // closed for a while; the last ones leave.
    shared.run("here", release(0)).await;
    shared.run("here", release(3)).await;
    let renew = Op::Renew {
        owner: owner(101),
        ttl: Duration::from_secs(300),
    };
    shared.run("here", renew).await;
    for number in [101, 2, 4] {
        shared.run("here", release(number)).await;
    }
    let unclean = Op::Release {
        owner: owner(0),
        end: End::Unclean,
    };
    closing.run("here", unclean).await;
    closing.run("here", release(1)).await;
    let refused = shared.try_run("here", acquire(5, Mode::Shared)).await;
    assert!(
        matches!(refused, Err(StoreError::Refused { .. })),
        "{refused:?}"
    );
}

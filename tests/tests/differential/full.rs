//! Redis has no memory left.

use leasehold_core::command::{Op, Reply};
use leasehold_store::StoreError;
use leasehold_tests::RedisServer;

use crate::crowd::{Pair, acquire, release};

#[tokio::test(flavor = "multi_thread")]
async fn whoever_holds_or_waits_can_let_go_while_nobody_can_acquire() {
    let redis = RedisServer::start();
    let mut held = Pair::new(&redis, "held").await;
    let mut free = Pair::new(&redis, "free").await;
    for number in 0..4 {
        held.run("here", acquire(number)).await;
    }
    free.run("here", acquire(10)).await;
    let mut set = redis::cmd("CONFIG");
    set.arg("SET").arg("maxmemory").arg("1");
    let mut connection = redis.async_connection().await;
    let () = set.query_async(&mut connection).await.unwrap();

    // A waiter leaves; the lock is handed on; one that nobody waits for is released.
    held.run("here", release(2)).await;
    held.run("here", release(0)).await;
    free.run("here", release(10)).await;
    let seen = held.run("here", Op::View { waiters: 10 }).await;
    assert!(matches!(seen, Reply::Seen(view) if view.waiter_count == 1));

    let refused = free.try_run("here", acquire(11)).await;
    assert!(
        matches!(refused, Err(StoreError::Refused { .. })),
        "{refused:?}"
    );
    let refused = held.try_run("here", acquire(11)).await;
    assert!(
        matches!(refused, Err(StoreError::Refused { .. })),
        "{refused:?}"
    );
}

//! Waiters while the master fails over.

use leasehold_proto::v1::session_response::Response;
use leasehold_tests::{Coordinator, Sentinels, alone::alone};

use crate::scene::{LIMIT, session};

const WAITERS: usize = 3;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn waiters_are_served_in_order_after_a_fail_over() {
    let _alone = alone().await;
    let mut redis = Sentinels::start();
    let coordinator = Coordinator::process().store(redis.url()).start();
    let mut holder = session(&coordinator).await;
    let held = holder.acquire("line").await.lock;
    let mut waiters = Vec::new();
    for place in 1..=WAITERS {
        let mut waiter = session(&coordinator).await;
        let id = waiter.ask("line", None).await;
        assert_eq!(usize::try_from(waiter.queued(id).await), Ok(place));
        waiters.push((waiter, id));
    }
    redis.redis().wait_in_step(0, 2);
    redis.kill_master();
    redis.wait_failed_over(0);
    // Until the coordinator has reached the new master, this fails.
    loop {
        let id = holder.ask_release(&held).await;
        match holder.answer(id, LIMIT).await {
            Response::Released(released) => break assert!(released.released),
            Response::Error(_) => {
                tokio::time::sleep(std::time::Duration::from_millis(20)).await;
            }
            other => panic!("a release was answered by {other:?}"),
        }
    }
    let mut newest = held.fencing_token;
    for (waiter, id) in &mut waiters {
        let granted = waiter.granted(*id, LIMIT).await.lock;
        // Out of order, or twice, a token would be smaller than another one before it.
        assert!(granted.fencing_token > newest, "{granted:?}, {newest}");
        newest = granted.fencing_token;
        assert!(waiter.release(&granted).await);
    }
    for (waiter, _) in &mut waiters {
        waiter.heartbeat().await;
        let unasked = waiter.unread_unasked();
        assert!(unasked.is_empty(), "{unasked:?}");
        // Nobody was granted it twice.
        let again = waiter.acquire("line").await.lock;
        assert!(waiter.release(&again).await);
    }
}

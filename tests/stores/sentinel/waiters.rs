//! Waiters while the master fails over, to one that has their queue and to one that lacks it.

use leasehold_proto::v1::{GetLockRequest, GrantedLock, admin_service_client::AdminServiceClient};
use leasehold_tests::{Coordinator, CoordinatorProcess, RawSession, RedisServer, Sentinels, wait};

use crate::sentinel::scene::{LIMIT, session};

const WAITERS: usize = 3;

/// Has sessions of a coordinator wait for a lock that is held, one after the other, and gives each with its request's id.
async fn line_up(coordinator: &CoordinatorProcess) -> Vec<(RawSession, u64)> {
    let mut waiters = Vec::new();
    for place in 1..=WAITERS {
        let mut waiter = session(coordinator).await;
        let id = waiter.ask("line", None).await;
        assert_eq!(usize::try_from(waiter.queued(id).await), Ok(place));
        waiters.push((waiter, id));
    }
    waiters
}

/// Fails unless each waiter is granted the lock once, in the order of the queue, with tokens that rise from the holder's on.
async fn are_served(waiters: &mut [(RawSession, u64)], held: &GrantedLock) {
    let mut newest = held.fencing_token;
    for (waiter, id) in &mut *waiters {
        let granted = waiter.granted(*id, LIMIT).await.lock;
        // Out of order, or twice, a token would be smaller than another one before it.
        assert!(granted.fencing_token > newest, "{granted:?}, {newest}");
        newest = granted.fencing_token;
        assert!(waiter.release(&granted).await);
    }
    for (waiter, _) in waiters {
        waiter.heartbeat().await;
        let unasked = waiter.unread_unasked();
        assert!(unasked.is_empty(), "{unasked:?}");
        // Nobody was granted it twice.
        let again = waiter.acquire("line").await.lock;
        assert!(again.fencing_token > newest, "{again:?}, {newest}");
        newest = again.fencing_token;
        assert!(waiter.release(&again).await);
    }
}

/// Returns how many queues a server has.
fn queues(server: &RedisServer) -> usize {
    let mut keys = redis::cmd("KEYS");
    let keys = keys.arg("lh:*:queue:*");
    let keys: Vec<String> = keys.query(&mut server.connection()).unwrap();
    keys.len()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn waiters_are_served_in_order_after_a_fail_over() {
    let mut redis = Sentinels::start();
    let coordinator = Coordinator::process().store(redis.url()).start();
    let mut holder = session(&coordinator).await;
    let held = holder.acquire("line").await.lock;
    let mut waiters = line_up(&coordinator).await;
    redis.redis().wait_in_step(0, 2);
    redis.kill_master();
    redis.wait_failed_over(0);
    holder.release_when_possible(&held, LIMIT).await;
    are_served(&mut waiters, &held).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn waiters_whose_queue_a_fail_over_lost_are_served_in_order() {
    let mut redis = Sentinels::options().redis_password("secret").start();
    let [here, there] = [0, 1].map(|_| Coordinator::process().store(redis.url()).start());
    let mut holder = session(&here).await;
    let held = holder.acquire("line").await.lock;
    redis.redis().wait_in_step(0, 2);
    // The replicas know of the holder, and never hear of the waiters.
    redis.cut_replicas_off(0);
    let mut waiters = line_up(&there).await;
    let has_queue = redis.redis().servers().iter().map(queues);
    assert_eq!(has_queue.collect::<Vec<_>>(), [1, 0, 0]);
    redis.kill_master();
    redis.wait_failed_over(0);
    // The lock is held all the time, so that no grant is needed for the coordinator to find out.
    let admin = AdminServiceClient::new(there.channel().await);
    wait::until("the waiters to join the queue again", LIMIT, || async {
        let name = "line".to_owned();
        let shown = admin.clone().get_lock(GetLockRequest { name }).await;
        match shown.map(|shown| shown.into_inner().lock.unwrap().waiter_count) {
            Ok(count) if usize::try_from(count) == Ok(WAITERS) => Ok(()),
            other => Err(other),
        }
    })
    .await;
    holder.release_when_possible(&held, LIMIT).await;
    are_served(&mut waiters, &held).await;
}

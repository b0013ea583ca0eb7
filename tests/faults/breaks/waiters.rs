//! Waiters while Redis is killed, or loses all that it had.

use std::time::Duration;

use leasehold_proto::v1::{LostReason, session_response::Response};
use leasehold_tests::{Coordinator, CoordinatorProcess, RawSession, RedisServer, raw::Granted};
use redis::AsyncCommands;

const TTL: Duration = Duration::from_secs(60);
const WAITERS: usize = 4;
const LIMIT: Duration = Duration::from_secs(20);

/// A lock that one session holds and others wait for, in their order.
struct Line {
    holder: RawSession,
    held: Granted,
    waiters: Vec<(RawSession, u64)>,
}

impl Line {
    async fn form(coordinator: &CoordinatorProcess) -> Self {
        let mut holder = RawSession::open(&coordinator.endpoint(), TTL).await;
        holder.keep_alive(TTL / 60);
        let held = holder.acquire("line").await;
        let mut waiters = Vec::new();
        for place in 1..=WAITERS {
            let mut waiter = RawSession::open(&coordinator.endpoint(), TTL).await;
            waiter.keep_alive(TTL / 60);
            let id = waiter.ask("line", None).await;
            assert_eq!(usize::try_from(waiter.queued(id).await), Ok(place));
            waiters.push((waiter, id));
        }
        Self {
            holder,
            held,
            waiters,
        }
    }

    /// Waits until the holder is told that its lock is lost, for one of these reasons.
    async fn lost(&mut self, reasons: &[LostReason]) {
        let Response::Lost(lost) = self.holder.unasked(LIMIT).await else {
            panic!("something else than a loss");
        };
        assert_eq!(lost.locks.len(), 1, "{lost:?}");
        assert_eq!(lost.locks[0].owner_id, self.held.lock.owner_id);
        assert!(reasons.contains(&lost.locks[0].reason()), "{lost:?}");
    }

    /// Waits until every waiter had its turn: each once, in their order, with tokens that rise, and alone.
    async fn all_served(mut self, redis: &RedisServer) {
        let mut connection = redis.async_connection().await;
        let mut newest = self.held.lock.fencing_token;
        for (waiter, id) in &mut self.waiters {
            let granted = waiter.granted(*id, LIMIT).await.lock;
            // Out of order, or twice, a token would be smaller than another one before it.
            assert!(granted.fencing_token > newest, "{granted:?}, {newest}");
            newest = granted.fencing_token;
            let owner: Vec<u8> = connection.get("lock:line").await.unwrap();
            assert_eq!(owner, granted.owner_id);
            assert!(waiter.release(&granted).await);
        }
        // Nobody is granted anything any more.
        let last = self.holder.acquire("line").await.lock;
        assert!(last.fencing_token > newest);
        assert!(self.holder.release(&last).await);
        for (waiter, _) in &mut self.waiters {
            waiter.heartbeat().await;
            let unasked = waiter.unread_unasked();
            assert!(unasked.is_empty(), "{unasked:?}");
            let again = waiter.acquire("line").await.lock;
            assert!(waiter.release(&again).await);
        }
        for (waiter, _) in self.waiters {
            waiter.close().await;
        }
        self.holder.close().await;
    }
}

#[tokio::test]
async fn waiters_are_served_in_order_after_redis_was_killed_and_came_back_empty() {
    let mut redis = RedisServer::start();
    let coordinator = Coordinator::process().store(redis.url()).start();
    let mut line = Line::form(&coordinator).await;
    redis.kill();
    redis.restart();
    line.lost(&[LostReason::Deleted, LostReason::Taken]).await;
    line.all_served(&redis).await;
}

#[tokio::test]
async fn waiters_are_served_in_order_after_redis_was_killed_and_came_back_with_its_data() {
    // Every write is on disk when it is answered.
    let options = RedisServer::options().append_only();
    let mut redis = options.arguments(["--appendfsync", "always"]).start();
    let coordinator = Coordinator::process().store(redis.url()).start();
    let mut line = Line::form(&coordinator).await;
    redis.kill();
    redis.restart();
    // Released as soon as that is possible; a reply that is lost is asked for again.
    let held = line.held.lock.clone();
    line.holder.release_when_possible(&held, LIMIT).await;
    assert!(line.holder.unread_unasked().is_empty());
    line.all_served(&redis).await;
}

#[tokio::test]
async fn waiters_whose_queue_is_flushed_are_served_in_order() {
    let redis = RedisServer::start();
    let coordinator = Coordinator::process().store(redis.url()).start();
    let mut line = Line::form(&coordinator).await;
    // The connections stay: only the next refresh can tell that the queue is gone.
    let mut connection = redis.async_connection().await;
    let _: () = redis::cmd("FLUSHALL")
        .query_async(&mut connection)
        .await
        .unwrap();
    line.lost(&[LostReason::Deleted, LostReason::Taken]).await;
    line.all_served(&redis).await;
}

//! Renewals, and releases in the background, that Redis answers with an error.

use std::time::Duration;

use leasehold_proto::v1::session_response::Response;
use leasehold_tests::{Coordinator, RawSession, RedisServer, raw::PROMPT, wait};
use redis::{AsyncCommands, aio::MultiplexedConnection};

const TTL: Duration = Duration::from_secs(6);

/// Changes what the coordinator may do in Redis, which it uses as its default user.
async fn permit(redis: &mut MultiplexedConnection, rule: &str) {
    redis::cmd("ACL")
        .arg(&["SETUSER", "default", rule])
        .exec_async(redis)
        .await
        .unwrap();
}

/// Returns how often Redis has answered that something is not permitted.
async fn refusals(redis: &mut MultiplexedConnection) -> u64 {
    let mut info = redis::cmd("INFO");
    info.arg("errorstats");
    let info: String = info.query_async(redis).await.unwrap();
    let count = info
        .lines()
        .find_map(|line| line.strip_prefix("errorstat_NOPERM:count="));
    count.map_or(0, |count| count.trim().parse().unwrap())
}

/// Waits until Redis has refused so many commands more.
async fn refused(redis: &MultiplexedConnection, number: u64) {
    let before = refusals(&mut redis.clone()).await;
    wait::until("commands to be refused", PROMPT, || {
        let mut redis = redis.clone();
        async move {
            let now = refusals(&mut redis).await;
            if now >= before + number {
                Ok(())
            } else {
                Err(now)
            }
        }
    })
    .await;
}

/// Waits until there is no such key.
async fn until_gone(redis: &MultiplexedConnection, key: &str) {
    wait::until("the key to go", PROMPT, || {
        let mut redis = redis.clone();
        async move {
            let is_there: bool = redis.exists(key).await.unwrap();
            if is_there { Err("it is there") } else { Ok(()) }
        }
    })
    .await;
}

#[tokio::test]
async fn a_lock_is_kept_when_its_renewals_are_answered_with_errors() {
    let redis = RedisServer::start();
    let coordinator = Coordinator::process().store(redis.url()).start();
    let mut session = RawSession::open(&coordinator.endpoint(), TTL).await;
    let granted = session.acquire("kept").await.lock;
    let mut connection = redis.async_connection().await;
    session.keep_alive(TTL / 20);
    permit(&mut connection, "-evalsha").await;
    refused(&connection, 1).await;
    // From here on it is tried again without any heartbeat.
    session.fall_silent();
    refused(&connection, 2).await;
    let good_until = session.heartbeat().await;
    permit(&mut connection, "+evalsha").await;
    // It is renewed again: its key lives for longer than it did at any time since the error.
    let left: i64 = connection.pttl("lock:kept").await.unwrap();
    assert!(left > 0, "{left}");
    wait::until("a renewal to be carried out", PROMPT, || {
        let mut connection = connection.clone();
        async move {
            let now: i64 = connection.pttl("lock:kept").await.unwrap();
            if now > left { Ok(()) } else { Err(now) }
        }
    })
    .await;
    // The client is told of itself for how much longer its last heartbeat is good.
    let told = session.unasked(PROMPT).await;
    assert!(matches!(told, Response::Heartbeat(_)), "{told:?}");
    assert!(session.good_until() > Some(good_until));
    session.heartbeat().await;
    let unasked = session.unread_unasked();
    assert!(unasked.is_empty(), "{unasked:?}");
    let owner: Vec<u8> = connection.get("lock:kept").await.unwrap();
    assert_eq!(owner, granted.owner_id);
    assert!(session.release(&granted).await);
    session.close().await;
}

#[tokio::test]
async fn a_release_in_the_background_that_is_answered_with_errors_is_tried_again() {
    let redis = RedisServer::start();
    let coordinator = Coordinator::process().store(redis.url()).start();
    // It is not released by its expiry.
    let mut session = RawSession::open(&coordinator.endpoint(), Duration::from_secs(60)).await;
    session.acquire("released").await;
    let mut connection = redis.async_connection().await;
    permit(&mut connection, "-evalsha").await;
    drop(session);
    refused(&connection, 3).await;
    permit(&mut connection, "+evalsha").await;
    until_gone(&connection, "lock:released").await;
}

//! Renewals that Redis answers with an error.

use std::time::Duration;

use leasehold_tests::{Coordinator, RawSession, RedisServer, alone::alone, raw::PROMPT, wait};
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

/// How often Redis has answered that something is not permitted.
async fn refusals(redis: &mut MultiplexedConnection) -> u64 {
    let mut info = redis::cmd("INFO");
    info.arg("errorstats");
    let info: String = info.query_async(redis).await.unwrap();
    let count = info
        .lines()
        .find_map(|line| line.strip_prefix("errorstat_NOPERM:count="));
    count.map_or(0, |count| count.trim().parse().unwrap())
}

#[tokio::test]
async fn a_lock_is_kept_when_its_renewal_is_answered_with_an_error_once() {
    let _alone = alone().await;
    let redis = RedisServer::start();
    let coordinator = Coordinator::process().store(redis.url()).start();
    let mut session = RawSession::open(&coordinator.endpoint(), TTL).await;
    let granted = session.acquire("kept").await.lock;
    let mut connection = redis.async_connection().await;
    let before = refusals(&mut connection).await;
    session.keep_alive(TTL / 20);
    permit(&mut connection, "-evalsha").await;
    wait::until("a renewal to be refused", PROMPT, || {
        let mut connection = connection.clone();
        async move {
            let now = refusals(&mut connection).await;
            if now > before { Ok(()) } else { Err(now) }
        }
    })
    .await;
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
    session.heartbeat().await;
    let unasked = session.unread_unasked();
    assert!(unasked.is_empty(), "{unasked:?}");
    let owner: Vec<u8> = connection.get("lock:kept").await.unwrap();
    assert_eq!(owner, granted.owner_id);
    assert!(session.release(&granted).await);
    session.close().await;
}

//! Restart of a killed Redis under held locks.

use std::{
    collections::BTreeSet,
    time::{Duration, Instant},
};

use leasehold_proto::v1::{GrantedLock, session_response::Response};
use leasehold_tests::{
    Coordinator, CoordinatorProcess, Latencies, RawSession, RedisServer, alone::alone, audit,
    report, wait,
};

/// Short, so that what is kept must have been renewed.
const SHORT: Duration = Duration::from_secs(8);
/// Long, so that no renewal is due by itself when Redis comes back.
const LONG: Duration = Duration::from_secs(60);
const DOWN: Duration = Duration::from_secs(1);
const SESSIONS: usize = 10;
const LOCKS: usize = 200;

/// Sessions that hold [`LOCKS`] locks together, and the locks of each.
async fn hold(
    coordinator: &CoordinatorProcess,
    ttl: Duration,
) -> Vec<(RawSession, Vec<GrantedLock>)> {
    let mut sessions = Vec::new();
    for number in 0..SESSIONS {
        let mut session = RawSession::open(&coordinator.endpoint(), ttl).await;
        session.keep_alive(ttl / 4);
        let mut locks = Vec::new();
        for lock in 0..LOCKS / SESSIONS {
            let granted = session.acquire(&format!("restart/{number}/{lock}")).await;
            locks.push(granted.lock);
        }
        sessions.push((session, locks));
    }
    sessions
}

/// Waits until the coordinator is connected to Redis again, and returns the time.
async fn reconnected(redis: &RedisServer) -> Instant {
    let mut connection = redis.async_connection().await;
    wait::until(
        "the coordinator to reconnect",
        Duration::from_secs(10),
        || {
            let mut clients = redis::cmd("CLIENT");
            clients.arg("LIST");
            let mut connection = connection.clone();
            async move {
                let clients: String = clients.query_async(&mut connection).await.unwrap();
                // One of them is this.
                if clients.lines().count() > 1 {
                    Ok(())
                } else {
                    Err(clients)
                }
            }
        },
    )
    .await;
    let now = Instant::now();
    let _: String = redis::cmd("PING")
        .query_async(&mut connection)
        .await
        .unwrap();
    now
}

#[tokio::test]
async fn with_an_append_only_file_all_locks_are_kept() {
    let _alone = alone().await;
    let mut redis = RedisServer::options().append_only().start();
    let coordinator = Coordinator::process().store(redis.url()).start();
    let mut sessions = hold(&coordinator, SHORT).await;

    redis.kill();
    tokio::time::sleep(DOWN).await;
    redis.restart();
    let back = reconnected(&redis).await;

    // Longer than the TTL from here on, so that only renewals can have kept them.
    let mut connection = redis.async_connection().await;
    while back.elapsed() < SHORT + SHORT / 2 {
        let keys = audit::keys(&mut connection, "lock:restart/*")
            .await
            .unwrap();
        assert_eq!(keys.len(), LOCKS);
        assert!(keys.values().all(|life| *life > 0), "{keys:?}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    for (number, (session, locks)) in sessions.iter_mut().enumerate() {
        session.heartbeat().await;
        let id = session
            .ask(&format!("restart/after/{number}"), Some(Duration::ZERO))
            .await;
        session.granted(id, Duration::from_secs(1)).await;
        let unasked = session.unread_unasked();
        assert!(
            unasked.is_empty(),
            "nothing is said to be lost: {unasked:?}"
        );
        // Each is still this session's, and its name's next token is larger than the one before the restart.
        for lock in locks {
            assert!(session.release(lock).await, "{}", lock.name);
            let next = session.acquire(&lock.name).await.lock;
            assert!(
                next.fencing_token > lock.fencing_token,
                "{next:?}, {lock:?}"
            );
        }
    }
    for (session, _) in sessions {
        session.close().await;
    }
    report(format!(
        "{LOCKS} locks kept over a restart of Redis with its append-only file"
    ));
}

#[tokio::test]
async fn without_persistence_all_locks_are_reported_lost_within_a_second_of_the_reconnect() {
    let _alone = alone().await;
    let mut redis = RedisServer::start();
    let coordinator = Coordinator::process().store(redis.url()).start();
    let mut sessions = hold(&coordinator, LONG).await;

    redis.kill();
    tokio::time::sleep(DOWN).await;
    redis.restart();
    let back = reconnected(&redis).await;

    let mut latencies =
        Latencies::new("from the reconnect to the report of each of 200 lost locks");
    let mut lost = BTreeSet::new();
    let deadline = back + Duration::from_secs(1);
    for (session, _) in &mut sessions {
        let mut reported = 0;
        while reported < LOCKS / SESSIONS {
            let left = deadline.saturating_duration_since(Instant::now());
            let Response::Lost(message) = session.unasked(left).await else {
                panic!("something else than a loss");
            };
            reported += message.locks.len();
            for lock in message.locks {
                latencies.record(back.elapsed());
                assert!(lost.insert(lock.name), "reported twice");
            }
        }
    }
    latencies.print();
    assert_eq!(lost.len(), LOCKS);
    // Never taken again by itself.
    let mut connection = redis.async_connection().await;
    let keys = audit::keys(&mut connection, "lock:restart/*")
        .await
        .unwrap();
    assert!(keys.is_empty(), "{keys:?}");
    // The sessions go on.
    for (mut session, locks) in sessions {
        session.heartbeat().await;
        for lock in locks {
            // Redis has forgotten the tokens; its time has gone on.
            let next = session.acquire(&lock.name).await.lock;
            assert!(
                next.fencing_token > lock.fencing_token,
                "{next:?}, {lock:?}"
            );
        }
        session.close().await;
    }
}

//! Coordinator that is asked to stop: it leaves locks to expire, and ends.

use std::time::{Duration, Instant};

use leasehold_tests::{
    Coordinator, FaultProxy, RawSession, RedisServer, audit,
    raw::{PROMPT, connect},
    report,
};
use tokio::task::JoinSet;

const TTL: Duration = Duration::from_secs(20);
const DRAIN: Duration = Duration::from_millis(500);
const DELAY: Duration = Duration::from_millis(120);
const LOCKS: usize = 12;
const ROUNDS: usize = 20;
/// Time for which names are contended before the coordinator is asked to end, in the first round. Later rounds take longer.
const FIRST_PHASE: Duration = Duration::from_millis(440);
const STEP: Duration = Duration::from_millis(15);
const AT_A_TIME: usize = 5;

/// Ends a coordinator whose way to Redis is slow. Returns the locks, each with the time until which its client may believe in
/// it.
async fn round(url: String, proxy: FaultProxy, number: usize) -> Vec<(String, Vec<u8>, Instant)> {
    // A start blocks its thread, and the proxies need theirs.
    let options = Coordinator::process()
        .store(url)
        .arguments(["--drain-timeout", "500ms"]);
    let mut coordinator = tokio::task::spawn_blocking(|| options.start())
        .await
        .unwrap();
    let mut holder = RawSession::open(&coordinator.endpoint(), TTL).await;
    let mut waiter = RawSession::open(&coordinator.endpoint(), TTL).await;
    let mut held = Vec::new();
    for lock in 0..LOCKS {
        let name = format!("shutdown/{number}/{lock}");
        held.push(holder.acquire(&name).await);
        let id = waiter.ask(&name, None).await;
        assert_eq!(waiter.queued(id).await, 1);
    }
    // The contended names are refreshed once a second: the sessions are to be cut off around that.
    let phase = FIRST_PHASE + STEP * u32::try_from(number).unwrap();
    tokio::time::sleep(phase).await;
    proxy.set_delay(DELAY);
    let asked = Instant::now();
    coordinator.terminate();
    assert!(holder.end(PROMPT).await.is_err(), "it was not closed");
    assert!(waiter.end(PROMPT).await.is_err(), "it was not closed");
    assert!(coordinator.child().wait(PROMPT).await.success());
    let took = asked.elapsed();
    assert!(took >= DRAIN, "{took:?}");
    let until = holder.good_until();
    held.into_iter()
        .map(|granted| {
            let until = granted.good_until.max(until.unwrap_or(granted.good_until));
            let key = format!("lock:{}", granted.lock.name);
            (key, granted.lock.owner_id, until)
        })
        .collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn contended_locks_of_sessions_that_did_not_close_are_left_to_expire() {
    let redis = RedisServer::start();
    let mut connection = redis.async_connection().await;
    let (mut rounds, mut next) = (JoinSet::new(), 0);
    let mut kept = 0;
    loop {
        while next < ROUNDS && rounds.len() < AT_A_TIME {
            let proxy = FaultProxy::start(redis.address()).await;
            rounds.spawn(round(redis.url_through(proxy.address()), proxy, next));
            next += 1;
        }
        let Some(held) = rounds.join_next().await else {
            break;
        };
        let keys = audit::keys(&mut connection, "lock:*").await.unwrap();
        for (key, owner_id, until) in held.unwrap() {
            let believed = until.saturating_duration_since(Instant::now());
            let life = keys.get(&key).copied();
            let mut value = redis::cmd("GET");
            let value: Option<Vec<u8>> =
                value.arg(&key).query_async(&mut connection).await.unwrap();
            assert!(
                life.is_some_and(|life| life >= i64::try_from(believed.as_millis()).unwrap()),
                "{key} was promised for {believed:?}, and has {life:?} ms"
            );
            assert_eq!(value, Some(owner_id), "{key} has another holder");
            kept += 1;
        }
    }
    assert_eq!(kept, ROUNDS * LOCKS);
    report(format!("{kept} locks left to expire in {ROUNDS} shutdowns"));
}

#[tokio::test]
async fn a_stream_that_never_said_open_does_not_keep_a_coordinator_from_ending() {
    let mut coordinator = Coordinator::process()
        .arguments(["--drain-timeout", "500ms"])
        .start();
    let channel = connect(&coordinator.endpoint()).await;
    let idle = RawSession::stream(channel).await.unwrap();
    let asked = Instant::now();
    coordinator.terminate();
    let status = coordinator.child().wait(2 * PROMPT).await;
    let took = asked.elapsed();
    assert!(status.success(), "{status}");
    assert!(took <= DRAIN + Duration::from_secs(3), "{took:?}");
    drop(idle);
}

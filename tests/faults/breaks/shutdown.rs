//! Coordinator that is asked to stop: it leaves locks to expire, and ends.

use std::time::{Duration, Instant};

use leasehold_tests::{
    Coordinator, FaultProxy, RawSession, RedisServer, audit,
    raw::{PROMPT, connect},
};

const TTL: Duration = Duration::from_secs(20);
const DRAIN: [&str; 2] = ["--drain-timeout", "500ms"];
const DELAY: Duration = Duration::from_millis(120);
const LOCKS: usize = 12;
/// Times for which names are contended before the coordinator is asked to end. They are refreshed once a second: the sessions are
/// to be cut off around that.
const PHASES: [Duration; 2] = [Duration::from_millis(460), Duration::from_millis(560)];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn contended_locks_of_sessions_that_did_not_close_are_left_to_expire() {
    let redis = RedisServer::start();
    let mut connection = redis.async_connection().await;
    for phase in PHASES {
        let proxy = FaultProxy::start(redis.address()).await;
        let options = Coordinator::process().store(redis.url_through(proxy.address()));
        let start = || options.arguments(DRAIN).start();
        // The proxy runs here, too.
        let mut coordinator = tokio::task::block_in_place(start);
        let mut holder = RawSession::open(&coordinator.endpoint(), TTL).await;
        let mut waiter = RawSession::open(&coordinator.endpoint(), TTL).await;
        let mut held = Vec::new();
        for lock in 0..LOCKS {
            let name = format!("shutdown/{}/{lock}", phase.as_millis());
            held.push(holder.acquire(&name).await);
            let id = waiter.ask(&name, None).await;
            assert_eq!(waiter.queued(id).await, 1);
        }
        tokio::time::sleep(phase).await;
        // Redis is far away.
        proxy.set_delay(DELAY);
        coordinator.terminate();
        assert!(holder.end(PROMPT).await.is_err(), "it was not closed");
        assert!(waiter.end(PROMPT).await.is_err(), "it was not closed");
        assert!(coordinator.child().wait(PROMPT).await.success());

        let keys = audit::keys(&mut connection, "lock:*").await.unwrap();
        let looked = Instant::now();
        for granted in held {
            let until = granted
                .good_until
                .max(holder.good_until().unwrap_or(looked));
            let believed = until.saturating_duration_since(looked);
            let key = format!("lock:{}", granted.lock.name);
            let life = keys.get(&key).copied();
            assert!(
                life.is_some_and(|life| life >= i64::try_from(believed.as_millis()).unwrap()),
                "{key} was promised for {believed:?}, and has {life:?} ms"
            );
            let mut value = redis::cmd("GET");
            let value: Option<Vec<u8>> =
                value.arg(&key).query_async(&mut connection).await.unwrap();
            assert_eq!(value, Some(granted.lock.owner_id), "{key}");
        }
    }
}

#[tokio::test]
async fn a_stream_that_never_said_open_does_not_keep_a_coordinator_from_ending() {
    let mut coordinator = Coordinator::process().arguments(DRAIN).start();
    let channel = connect(&coordinator.endpoint()).await;
    let idle = RawSession::stream(channel).await.unwrap();
    coordinator.terminate();
    let status = coordinator.child().wait(2 * PROMPT).await;
    assert!(status.success(), "{status}");
    drop(idle);
}

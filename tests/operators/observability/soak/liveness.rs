//! Troubles that no restart would mend, and under which a coordinator reports that it lives.

use std::time::{Duration, Instant};

use leasehold_tests::{
    Coordinator, CoordinatorProcess, RawSession, RedisServer,
    raw::{PROMPT, exclusive},
};
use tokio::time::timeout;

/// Longer than a part of the coordinator may be stuck.
const LONG: Duration = Duration::from_secs(35);
const LOOK: Duration = Duration::from_millis(250);
const TTL: Duration = Duration::from_secs(60);

/// Asserts that the coordinator stays alive for this time, whatever is done to it.
async fn lives(coordinator: &CoordinatorProcess, what: &str, long: Duration) {
    let until = Instant::now() + long;
    while Instant::now() < until {
        let livez = timeout(PROMPT, coordinator.asked("/livez")).await;
        assert_eq!(livez.unwrap().as_deref(), Ok("ok\n"), "{what}");
        tokio::time::sleep(LOOK).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_lives_without_its_store_while_it_drains_and_after_a_pause() {
    let redis = RedisServer::start();
    let with = |arguments: &[&str]| {
        Coordinator::process()
            .store(redis.url())
            .arguments(arguments.iter().copied())
            .start()
    };
    let (without_store, paused) = (with(&[]), with(&[]));
    let draining = with(&["--drain-timeout", "5m"]);
    // Each has somebody who holds, somebody who waits, and something to clean up.
    let (mut sessions, mut leaving) = (Vec::new(), Vec::new());
    for (number, coordinator) in [&without_store, &paused, &draining].into_iter().enumerate() {
        let name = format!("lock/{number}");
        let mut holder = RawSession::open(&coordinator.endpoint(), TTL).await;
        holder.take_one(exclusive(&name)).await;
        let mut waiter = RawSession::open(&coordinator.endpoint(), TTL).await;
        waiter.wait_for(exclusive(&name)).await;
        let mut gone = RawSession::open(&coordinator.endpoint(), TTL).await;
        gone.take_one(exclusive(&format!("gone/{number}"))).await;
        sessions.extend([holder, waiter]);
        leaving.push(gone);
    }
    redis.stop();
    drop(leaving);
    draining.terminate();
    paused.stop();
    tokio::join!(
        lives(&without_store, "without its store", LONG),
        lives(&draining, "while it drains", LONG),
    );
    assert!(without_store.readiness().await.is_err());
    assert!(draining.readiness().await.unwrap_err().contains("draining"));
    paused.cont();
    lives(&paused, "after a pause", Duration::from_secs(3)).await;
    redis.cont();
}

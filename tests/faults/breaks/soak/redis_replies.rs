//! Commands that reach Redis late, and replies that never come.

use std::time::Duration;

use leasehold_tests::{
    Coordinator, FaultProxy, RedisServer,
    alone::alone,
    audit,
    proxy::{Direction, Flow},
    report, wait,
};
use redis::aio::MultiplexedConnection;

use super::load::Load;

const TTL: Duration = Duration::from_secs(30);
const LIMIT: Duration = Duration::from_secs(5);

async fn clients(redis: &mut MultiplexedConnection) -> usize {
    let mut list = redis::cmd("CLIENT");
    list.arg("LIST");
    let list: String = list.query_async(redis).await.unwrap();
    list.lines().count()
}

/// Returns the number of scripts that Redis has run.
async fn scripts(redis: &mut MultiplexedConnection) -> u64 {
    let mut info = redis::cmd("INFO");
    info.arg("commandstats");
    let info: String = info.query_async(redis).await.unwrap();
    let calls = info
        .lines()
        .find_map(|line| line.strip_prefix("cmdstat_evalsha:calls="))
        .and_then(|rest| rest.split(',').next());
    calls.map_or(0, |calls| calls.parse().unwrap())
}

async fn nothing_locked(redis: &MultiplexedConnection) {
    wait::until("every lock to be released", LIMIT, || {
        let mut redis = redis.clone();
        async move {
            let keys = audit::keys(&mut redis, "lock:*").await.unwrap();
            if keys.is_empty() { Ok(()) } else { Err(keys) }
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn commands_that_reach_redis_after_they_were_given_up_take_nothing() {
    let _alone = alone().await;
    let server = RedisServer::start();
    let proxy = FaultProxy::start(server.address()).await;
    let coordinator = Coordinator::process()
        .store(server.url_through(proxy.address()))
        .start();
    let mut redis = server.async_connection().await;
    let before = clients(&mut redis).await;

    // The connections of the coordinator fall silent under load; it gives them up, and works on over others.
    let load = Load::start(&coordinator, &server, TTL).await;
    tokio::time::sleep(Duration::from_millis(500)).await;
    proxy.black_hole_present();
    tokio::time::sleep(Duration::from_secs(4)).await;
    let operations = load.stop().await;
    let failed = operations
        .iter()
        .filter(|operation| operation.failure.is_some());
    let last = operations.iter().max_by_key(|operation| operation.ended);
    report(format!(
        "{} of {} operations given up",
        failed.clone().count(),
        operations.len()
    ));
    assert!(failed.count() > 0);
    assert!(
        last.is_some_and(|last| last.failure.is_none()),
        "service is back"
    );
    nothing_locked(&redis).await;

    // Now the old commands arrive, long after they were answered by an error and cleaned up after.
    let ran = scripts(&mut redis).await;
    proxy.forward();
    wait::until("the old connections to end", LIMIT, || {
        let mut redis = redis.clone();
        async move {
            let now = clients(&mut redis).await;
            if now <= before { Ok(()) } else { Err(now) }
        }
    })
    .await;
    let late = scripts(&mut redis).await - ran;
    let keys = audit::keys(&mut redis, "lock:*").await.unwrap();
    report(format!("{late} scripts ran late"));
    assert!(late > 0, "nothing arrived late");
    assert!(keys.is_empty(), "acquires that were given up took {keys:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn replies_that_are_lost_are_not_taken_for_those_of_others() {
    let _alone = alone().await;
    let server = RedisServer::start();
    let proxy = FaultProxy::start(server.address()).await;
    let coordinator = Coordinator::process()
        .store(server.url_through(proxy.address()))
        .start();
    let redis = server.async_connection().await;
    let load = Load::start(&coordinator, &server, TTL).await;
    for _ in 0..20 {
        tokio::time::sleep(Duration::from_millis(200)).await;
        proxy.set_flow(Direction::ToClient, Flow::Discard);
        tokio::time::sleep(Duration::from_millis(5)).await;
        proxy.set_flow(Direction::ToClient, Flow::Forward);
    }
    tokio::time::sleep(Duration::from_secs(2)).await;
    let operations = load.stop().await;
    let failed = operations
        .iter()
        .filter(|operation| operation.failure.is_some())
        .count();
    report(format!(
        "{failed} of {} operations had lost a reply",
        operations.len()
    ));
    assert!(failed > 0);
    let last = operations.iter().max_by_key(|operation| operation.ended);
    assert!(
        last.is_some_and(|last| last.failure.is_none()),
        "service is back"
    );
    nothing_locked(&redis).await;
}

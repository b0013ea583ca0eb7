//! Holder whose process is stopped beyond its TTL, and goes on.

use std::time::{Duration, Instant};

use leasehold_tests::{Coordinator, FencedResource, RawSession, RedisServer, Worker, report};

const TTL: Duration = Duration::from_secs(3);
const LIMIT: Duration = Duration::from_secs(10);

#[tokio::test]
async fn a_stopped_holder_is_succeeded_after_its_ttl_knows_first_and_is_refused_by_its_token() {
    let redis = RedisServer::start();
    let coordinator = Coordinator::process().store(redis.url()).start();
    let resource = FencedResource::new("stop/resource");
    let mut connection = redis.async_connection().await;

    let mut holder = Worker::start(&coordinator.endpoint(), TTL);
    holder.ready().await;
    let token = holder.acquire("stop").await;
    holder.order(&format!("write stop {} stop/resource in-time", redis.url()));
    holder.heard("written stop true", LIMIT).await;
    holder.order(&format!("watch stop {}", TTL.as_millis()));
    holder.heard("watching stop", LIMIT).await;

    let mut waiter = RawSession::open(&coordinator.endpoint(), LIMIT).await;
    waiter.keep_alive(Duration::from_secs(1));
    let id = waiter.ask("stop", None).await;
    waiter.queued(id).await;

    let stopped = Instant::now();
    holder.child().stop();
    let granted = waiter.granted(id, TTL + LIMIT).await;
    let took = stopped.elapsed();
    report(format!(
        "from SIGSTOP of the holder to the next grant, TTL {TTL:?}: {took:?}"
    ));
    assert!(took <= TTL + Duration::from_secs(1), "{took:?}");
    // Silence is not a drop: what the holder was told last was good until a TTL, less its margin and the age of the last
    // heartbeat, which is at most a third.
    assert!(took >= TTL / 2, "{took:?}");
    let next = granted.lock.fencing_token;
    assert!(next > token);
    assert!(resource.write(&mut connection, next, "next").await.unwrap());

    // It has been told to write while it was stopped, and does so whatever its guard says.
    holder.order(&format!(
        "write stop {} stop/resource too-late",
        redis.url()
    ));
    tokio::time::sleep_until((stopped + TTL + Duration::from_secs(1)).into()).await;
    holder.child().cont();
    let (_, said) = holder.heard("after a pause stop ", LIMIT).await;
    assert_eq!(said, "held false", "the first thing that its guard says");
    holder.heard("written stop false", LIMIT).await;
    assert_eq!(
        resource.values(&mut connection).await.unwrap(),
        ["in-time", "next"]
    );
    assert!(waiter.release(&granted.lock).await);
}

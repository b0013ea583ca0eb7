//! Connection to Redis that goes silent under load.

use std::time::{Duration, Instant};

use leasehold_tests::{
    Coordinator, FaultProxy, Latencies, RawSession, RedisServer, alone::alone, audit, report, wait,
};
use tonic::Code;

use super::load::{Load, Operation};

const TTL: Duration = Duration::from_secs(30);
const SILENCE: Duration = Duration::from_secs(10);
/// The default of `store-timeout`.
const TIMEOUT: Duration = Duration::from_secs(1);
const SLACK: Duration = Duration::from_millis(500);
const BACK: Duration = Duration::from_secs(1);
const HELD: usize = 100;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_seconds_of_silence_fail_fast_pass_quickly_and_lose_nothing() {
    let _alone = alone().await;
    let redis = RedisServer::start();
    let proxy = FaultProxy::start(redis.address()).await;
    let coordinator = Coordinator::process()
        .store(redis.url_through(proxy.address()))
        .start();
    let mut holder = RawSession::open(&coordinator.endpoint(), TTL).await;
    holder.keep_alive(TTL / 6);
    let mut held = Vec::new();
    for number in 0..HELD {
        held.push(holder.acquire(&format!("held/{number}")).await);
    }
    let load = Load::start(&coordinator, &redis, TTL).await;
    tokio::time::sleep(Duration::from_secs(1)).await;

    let silent = Instant::now();
    proxy.black_hole();
    tokio::time::sleep(SILENCE).await;
    proxy.forward();
    let forward = Instant::now();
    tokio::time::sleep(3 * BACK).await;
    let operations = load.stop().await;

    let mut failing = Latencies::new("operations while Redis was silent");
    let mut first_success = None;
    for Operation {
        began,
        ended,
        failure,
    } in &operations
    {
        let took = *ended - *began;
        // An operation is two commands at most.
        assert!(took <= 2 * TIMEOUT + SLACK, "an operation took {took:?}");
        match failure {
            None if *began >= silent && *ended < forward => {
                panic!("something was granted while Redis was silent");
            }
            None if *ended >= forward => {
                first_success = first_success.min(Some(*ended)).or(Some(*ended));
            }
            None => {}
            Some(failure) => {
                assert_eq!(failure.code, Code::Unavailable as i32, "{failure:?}");
                assert!(*ended >= silent, "failed before the silence: {failure:?}");
                assert!(
                    *began <= forward + BACK,
                    "fails {:?} after: {failure:?}",
                    *began - forward
                );
                failing.record(took);
            }
        }
    }
    failing.print();
    assert!(failing.max() <= TIMEOUT + SLACK, "{failing}");
    let back = first_success.expect("service is back") - forward;
    report(format!(
        "{} operations; service was back {back:?} after the silence",
        operations.len()
    ));
    assert!(back <= BACK, "{back:?}");

    // All that was held still is, and is renewed.
    holder.heartbeat().await;
    assert!(
        holder.unread_unasked().is_empty(),
        "{:?}",
        holder.unread_unasked()
    );
    for granted in &held {
        assert!(holder.release(&granted.lock).await, "{}", granted.lock.name);
    }
    // What was sent before the silence and arrived after it is not left to run out.
    let connection = redis.async_connection().await;
    wait::until("acquires that came late to be undone", 5 * BACK, || {
        let mut connection = connection.clone();
        async move {
            let keys = audit::keys(&mut connection, "lock:*").await.unwrap();
            if keys.is_empty() { Ok(()) } else { Err(keys) }
        }
    })
    .await;
}

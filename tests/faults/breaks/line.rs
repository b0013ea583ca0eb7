//! Unary acquires that wait for admission while Redis is stopped.

use std::time::Duration;

use leasehold_proto::v1::{AcquireOutcome, AcquireRequest};
use leasehold_tests::{
    Site,
    raw::{PROMPT, wire},
    wait,
};

const TTL: Duration = Duration::from_secs(60);
/// So many acquires go ahead of the others.
const ROOM: u32 = 64;
const BRIEFLY: Duration = Duration::from_millis(200);
const SENT: &str = "leasehold_store_operations_total";

async fn until_sent(site: &Site, count: f64) {
    wait::until("so many to be on their way", PROMPT, || async {
        let sent = site.sum(SENT).await;
        if sent < count { Err(sent) } else { Ok(()) }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_waits_for_its_turn_no_longer_than_for_the_lock() {
    let site = Site::redis_with(1, &["--store-timeout=20s"]).await;
    let mut session = site.session(0).await;
    let call = |name: &str, wait| {
        let request = AcquireRequest {
            name: name.to_owned(),
            ttl: wire(TTL),
            wait: wire(wait),
            ..AcquireRequest::default()
        };
        let mut calls = site.unary(0);
        tokio::spawn(async move { calls.acquire(request).await.unwrap().into_inner() })
    };

    site.server().stop();
    let before = site.sum(SENT).await;
    for number in 0..ROOM {
        session.ask(&format!("call/{number}"), None).await;
    }
    until_sent(&site, before + f64::from(ROOM)).await;
    // So many of a connection always may be on their way.
    let first = [call("call/first", TTL), call("call/second", TTL)];
    until_sent(&site, before + f64::from(ROOM + 2)).await;
    let third = tokio::time::timeout(PROMPT, call("call/third", BRIEFLY)).await;
    let third = third.expect("it does not wait for its turn").unwrap();
    assert_eq!(third.outcome(), AcquireOutcome::TimedOut);
    site.server().cont();
    for call in first {
        assert_eq!(call.await.unwrap().outcome(), AcquireOutcome::Granted);
    }
}

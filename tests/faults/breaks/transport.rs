//! Ends of a client's connection: a closed one releases its locks, a silent one does not.

use std::time::{Duration, Instant};

use leasehold_tests::{
    Coordinator, FaultProxy, RawSession, RedisServer, Worker, raw::PROMPT, report,
};
use tonic::transport::{Channel, Endpoint};

const TTL: Duration = Duration::from_secs(5);
/// TTL of the client that is killed: longer than its lock is waited for, so that its expiry can't be what lets the next in.
const LONG_TTL: Duration = PROMPT.saturating_mul(4);
/// Between the end of a lease and the next grant.
const SLACK: Duration = Duration::from_secs(1);

/// Returns a connection that takes in little beyond what is read from it.
async fn narrow(endpoint: &str) -> Channel {
    let endpoint = Endpoint::from_shared(endpoint.to_owned()).unwrap();
    let endpoint = endpoint.initial_stream_window_size(4_096);
    endpoint.connect().await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_silent_client_and_a_slow_reader_keep_their_locks_and_a_killed_one_does_not() {
    let redis = RedisServer::start();
    // Short enough for the coordinator to give the silent connection up before the lease ends.
    let keepalive = [
        "--keepalive-interval",
        "500ms",
        "--keepalive-timeout",
        "500ms",
    ];
    let coordinator = Coordinator::process()
        .store(redis.url())
        .arguments(keepalive)
        .arguments(["--outbound-queue", "64"])
        .start();
    let endpoint = coordinator.endpoint();

    let proxy = FaultProxy::before(&endpoint).await;
    let mut silent = RawSession::open(&proxy.endpoint(), TTL).await;
    silent.acquire("silent").await;
    let mut slow = RawSession::open_on(narrow(&endpoint).await, TTL).await;
    slow.acquire("slow").await;
    let mut killed = Worker::start(&endpoint, LONG_TTL);
    killed.ready().await;
    killed.acquire("killed").await;

    let mut waiter = RawSession::open(&endpoint, TTL).await;
    waiter.keep_alive(TTL / 6);
    let mut asked = Vec::new();
    for name in ["silent", "slow", "killed"] {
        let id = waiter.ask(name, None).await;
        assert_eq!(waiter.queued(id).await, 1);
        asked.push(id);
    }
    let [for_silent, for_slow, for_killed] = asked[..] else {
        unreachable!("three were asked for");
    };

    // The black hole: what was said last counts.
    let silent_until = silent.heartbeat().await;
    proxy.black_hole();

    // The slow reader: beats until it is cut off, and reads nothing.
    slow.keep_alive(Duration::ZERO);
    let flooded = Instant::now();
    slow.wait_until_cut_off(TTL).await;
    let cut_off = flooded.elapsed();
    let status = slow.end(PROMPT).await.unwrap_err();
    let slow_until = slow.good_until().expect("some heartbeats were answered");

    // The killed one.
    let died = Instant::now();
    killed.child().kill();
    waiter.granted(for_killed, PROMPT).await;
    let took = died.elapsed();
    report(format!("killed: released after {took:?}"));

    let (mut silent_granted, mut slow_granted) = (None, None);
    while silent_granted.is_none() || slow_granted.is_none() {
        let message = waiter
            .find(2 * TTL, |message| {
                [for_silent, for_slow].contains(&message.request_id)
            })
            .await;
        let granted = if message.request_id == for_silent {
            &mut silent_granted
        } else {
            &mut slow_granted
        };
        *granted = Some(Instant::now());
    }
    // What the slow reader was promised while it left the answers unread counts for the coordinator.
    for (what, granted, until, unread) in [
        (
            "black-holed",
            silent_granted.unwrap(),
            silent_until,
            Duration::ZERO,
        ),
        ("slow reader", slow_granted.unwrap(), slow_until, cut_off),
    ] {
        report(format!(
            "{what}: released {:?} after its last valid_for",
            granted - until
        ));
        assert!(
            granted >= until,
            "{what}: released {:?} too early",
            until - granted
        );
        assert!(
            granted <= until + unread + SLACK,
            "{what}: released {:?} late",
            granted - until
        );
    }
    report(format!(
        "slow reader: cut off after {cut_off:?} of unread answers: {status}"
    ));
}

//! Ends of a client's connection: a closed one releases its locks, a silent one does not.

use std::time::{Duration, Instant};

use leasehold_tests::{FaultProxy, RawSession, Site, Worker, raw::PROMPT, report};
use tonic::transport::Endpoint;

const TTL: Duration = Duration::from_secs(5);
/// TTL of the client that is killed: longer than its lock is waited for, so that its expiry can't be what lets the next in.
const LONG_TTL: Duration = PROMPT.saturating_mul(4);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_silent_client_and_a_slow_reader_keep_their_locks_and_a_killed_one_does_not() {
    // Short enough for the coordinator to give the silent connection up before the lease ends.
    let site = Site::redis_with(
        1,
        &[
            "--keepalive-interval=500ms",
            "--keepalive-timeout=500ms",
            "--outbound-queue=64",
        ],
    )
    .await;
    let endpoint = site.endpoint(0);
    let proxy = FaultProxy::before(&endpoint).await;
    let mut silent = RawSession::open(&proxy.endpoint(), TTL).await;
    silent.acquire("silent").await;
    // Its connection takes in little beyond what is read from it.
    let narrow = Endpoint::from_shared(endpoint.clone()).unwrap();
    let narrow = narrow.initial_stream_window_size(4_096);
    let mut slow = RawSession::open_on(narrow.connect().await.unwrap(), TTL).await;
    slow.acquire("slow").await;
    let mut killed = Worker::start(&endpoint, LONG_TTL);
    killed.ready().await;
    killed.acquire("killed").await;
    let mut waiter = site.session_of(0, TTL).await;
    let mut asked = Vec::new();
    for name in ["silent", "slow", "killed"] {
        let id = waiter.ask(name, None).await;
        assert_eq!(waiter.queued(id).await, 1);
        asked.push(id);
    }

    // The black hole: what was said last counts.
    let silent_until = silent.heartbeat().await;
    proxy.black_hole();
    // The slow reader: beats until it is cut off, and reads nothing.
    slow.keep_alive(Duration::ZERO);
    slow.wait_until_cut_off(PROMPT).await;
    let status = slow.end(PROMPT).await.unwrap_err();
    report(format!("slow reader: cut off: {status}"));
    let slow_until = slow.good_until().expect("some heartbeats were answered");
    killed.child().kill();
    waiter.granted(asked[2], PROMPT).await;

    let mut untils = vec![(asked[0], silent_until), (asked[1], slow_until)];
    while !untils.is_empty() {
        let is_next = |id| untils.iter().any(|(asked, _)| *asked == id);
        let message = waiter
            .find(2 * PROMPT, |message| is_next(message.request_id))
            .await;
        let granted = Instant::now();
        let next = untils
            .iter()
            .position(|(asked, _)| *asked == message.request_id);
        let (_, until) = untils.remove(next.unwrap());
        assert!(granted >= until, "released {:?} too early", until - granted);
    }
}

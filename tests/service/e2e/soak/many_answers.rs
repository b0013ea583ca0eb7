//! Many answers at one moment, to a client that reads as fast as its connection allows.

use std::{
    collections::HashSet,
    time::{Duration, Instant},
};

use leasehold_proto::v1::{AcquireOutcome, session_response::Response};
use leasehold_tests::{
    Coordinator, FaultProxy, RawSession, RedisServer,
    raw::{PROMPT, exclusive, with_value},
};
use tonic::transport::Endpoint;

const TTL: Duration = Duration::from_secs(30);
const WAIT: Duration = Duration::from_secs(1);
/// More than the outbound queue of a session holds, by its default, and what is on the way besides.
const WAITERS: usize = 2_000;

/// Makes acquires time out together, on a name that is held with a value, which every answer shows.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn waits_that_end_together_are_all_answered_and_the_session_lives() {
    let redis = RedisServer::start();
    let coordinator = Coordinator::process().store(redis.url()).start();
    let mut holder = RawSession::open(&coordinator.endpoint(), TTL).await;
    let id = holder
        .ask_for(with_value(&"v".repeat(256), exclusive("crowded")))
        .await;
    holder.granted(id, PROMPT).await;

    // Answers come faster than the way there takes them: 40 ms there and back, with little on it at a time.
    let proxy = FaultProxy::before(&coordinator.endpoint()).await;
    proxy.set_delay(Duration::from_millis(20));
    let endpoint = Endpoint::from_shared(proxy.endpoint()).unwrap();
    let endpoint = endpoint.initial_stream_window_size(8_192);
    let channel = endpoint.connect().await.unwrap();
    let mut session = RawSession::open_on(channel, TTL).await;
    let held = session.acquire("mine").await;
    let began = Instant::now();
    let mut waiting = HashSet::new();
    for _ in 0..WAITERS {
        waiting.insert(session.ask("crowded", Some(WAIT)).await);
    }
    let mut queued = 0;
    while !waiting.is_empty() {
        let message = session.next(WAIT + PROMPT).await.expect("the stream is up");
        let message = message.expect("the stream is up");
        match message.response.unwrap() {
            Response::Queued(_) => queued += 1,
            Response::NotGranted(answer) => {
                assert_eq!(answer.outcome(), AcquireOutcome::TimedOut);
                // Who holds it is told where it is known.
                if let Some(holder) = answer.holder {
                    assert_eq!(holder.value, [b'v'; 256]);
                }
                assert!(waiting.remove(&message.request_id), "answered twice");
            }
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(queued, WAITERS);
    assert!(began.elapsed() >= WAIT);
    session.heartbeat().await;
    assert!(session.unread_unasked().is_empty());
    assert!(session.release(&held.lock).await);
    session.close().await;
}

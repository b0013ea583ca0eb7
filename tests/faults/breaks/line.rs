//! Acquires that wait for admission while Redis is stopped: each leaves the queue as soon as it is given up.

use std::{
    cell::Cell,
    time::{Duration, Instant},
};

use leasehold_proto::v1::{
    AcquireOutcome, AcquireRequest, lock_service_client::LockServiceClient,
    session_response::Response,
};
use leasehold_tests::{
    Coordinator, CoordinatorProcess, RawSession, RedisServer,
    raw::{PROMPT, connect, exclusive, for_at_most, several, wire, with_value},
    wait,
};

const TTL: Duration = Duration::from_secs(60);
/// So many acquires go ahead of the others.
const ROOM: u32 = 64;
const BRIEFLY: Duration = Duration::from_millis(200);

fn start(redis: &RedisServer, arguments: &[&str]) -> CoordinatorProcess {
    let arguments = arguments.iter().copied().chain(["--store-timeout=20s"]);
    Coordinator::process()
        .store(redis.url())
        .arguments(arguments)
        .start()
}

async fn operations(coordinator: &CoordinatorProcess) -> f64 {
    let metrics = coordinator.metrics().await;
    metrics.sum("leasehold_store_operations_total")
}

async fn until_sent(coordinator: &CoordinatorProcess, count: f64) {
    wait::until("so many to be on their way", PROMPT, || async {
        let sent = operations(coordinator).await;
        if sent < count {
            Err((sent, count))
        } else {
            Ok(())
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_acquire_leaves_the_line_when_it_is_cancelled_or_has_waited_for_as_long_as_it_wanted_to()
{
    let redis = RedisServer::start();
    // There is room for exactly what is asked for.
    let max_locks = format!("--max-locks-per-session={}", ROOM + 5);
    let coordinator = start(&redis, &[&max_locks, "--max-waiters-per-name=1"]);
    let mut session = RawSession::open(&coordinator.endpoint(), TTL).await;

    redis.stop();
    let mut granted = Vec::new();
    for number in 0..ROOM {
        granted.push(session.ask(&format!("line/{number}"), None).await);
    }
    let began = Instant::now();
    let briefly = for_at_most(BRIEFLY, exclusive("line/briefly"));
    let briefly = session.ask_for(briefly).await;
    let one = session.ask("line/one", None).await;
    let both = session.ask_for(several(["line/a", "line/b"])).await;
    // This one does not want to wait for the lock, and is asked for when its turn comes.
    granted.push(session.ask("line/tried", Some(Duration::ZERO)).await);
    for request_id in [one, both] {
        session.cancel(request_id).await;
        let ended = session.not_granted(request_id, PROMPT).await;
        assert_eq!(ended.outcome(), AcquireOutcome::Cancelled);
    }
    let ended = session.not_granted(briefly, PROMPT).await;
    assert_eq!(ended.outcome(), AcquireOutcome::TimedOut);
    assert!(began.elapsed() >= BRIEFLY);

    // None of them counts any more: not among the session's locks, and not among those who wait for a name.
    for name in ["line/one", "line/a", "line/b", "line/briefly"] {
        granted.push(session.ask(name, None).await);
    }
    let over = session.ask("line/over", None).await;
    assert_eq!(session.refusal(over, PROMPT).await.reason, "TOO_MANY_LOCKS");
    redis.cont();
    for request_id in granted {
        session.granted(request_id, PROMPT).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_waits_for_its_turn_no_longer_than_for_the_lock() {
    let redis = RedisServer::start();
    let coordinator = start(&redis, &[]);
    let mut session = RawSession::open(&coordinator.endpoint(), TTL).await;
    let calls = LockServiceClient::new(connect(&coordinator.endpoint()).await);
    let call = |name: &str, wait| {
        let request = AcquireRequest {
            name: name.to_owned(),
            ttl: wire(TTL),
            wait: wire(wait),
            ..AcquireRequest::default()
        };
        let mut calls = calls.clone();
        tokio::spawn(async move { calls.acquire(request).await.unwrap().into_inner() })
    };

    redis.stop();
    let before = operations(&coordinator).await;
    for number in 0..ROOM {
        session.ask(&format!("call/{number}"), None).await;
    }
    until_sent(&coordinator, before + f64::from(ROOM)).await;
    // So many of a connection always may be on their way.
    let first = [call("call/first", TTL), call("call/second", TTL)];
    until_sent(&coordinator, before + f64::from(ROOM + 2)).await;
    let third = tokio::time::timeout(PROMPT, call("call/third", BRIEFLY)).await;
    let third = third.expect("it does not wait for its turn").unwrap();
    assert_eq!(third.outcome(), AcquireOutcome::TimedOut);
    redis.cont();
    for call in first {
        assert_eq!(call.await.unwrap().outcome(), AcquireOutcome::Granted);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_asked_for_who_does_not_read() {
    const TRIES: u32 = 2000;
    let redis = RedisServer::start();
    let coordinator = start(&redis, &[]);
    let mut holder = RawSession::open(&coordinator.endpoint(), TTL).await;
    // What each of those who try is told.
    let held = with_value(&"v".repeat(4096), exclusive("line/held"));
    holder.take_one(held).await;
    let mut session = RawSession::open(&coordinator.endpoint(), TTL).await;

    redis.stop();
    let before = operations(&coordinator).await;
    let mut tries = Vec::new();
    for _ in 0..TRIES {
        tries.push(session.ask("line/held", Some(Duration::ZERO)).await);
    }
    wait::until("all to be in line", PROMPT, || async {
        let metrics = coordinator.metrics().await;
        let asked = metrics.of("leasehold_session_requests_total", &["request=\"acquire\""]);
        if asked < f64::from(TRIES) {
            Err(asked)
        } else {
            Ok(())
        }
    })
    .await;
    redis.cont();
    let last = Cell::new(before);
    let asked = wait::until("the session to be asked for no more", PROMPT, || async {
        // Long enough for more to be on their way, if any are to be.
        tokio::time::sleep(Duration::from_millis(100)).await;
        let metrics = coordinator.metrics().await;
        let now = metrics.sum("leasehold_store_operations_total");
        let earlier = last.replace(now);
        let unread = metrics.sum("leasehold_unread_answers");
        if unread > 0.0 && now == earlier {
            Ok(now - before)
        } else {
            Err((now, unread))
        }
    })
    .await;
    // Half a thousand answers are in its client's own buffers.
    assert!(asked < f64::from(TRIES / 2), "{asked} were asked for");
    for request_id in tries {
        let answer = session.answer(request_id, PROMPT).await;
        let Response::NotGranted(busy) = answer else {
            panic!("{answer:?}");
        };
        assert_eq!(busy.outcome(), AcquireOutcome::Busy);
    }
}

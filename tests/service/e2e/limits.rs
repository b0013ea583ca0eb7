//! Limits: a request over one is refused with the limit and, where it helps, a time to try again; others notice
//! nothing.

use std::time::Duration;

use leasehold_proto::v1::{
    AcquireRequest, ListLocksRequest, ListSessionsRequest, ObserveRequest, SessionAcquire,
    SessionFailure, SessionSetValue, WatchLocksRequest, admin_service_client::AdminServiceClient,
    election_service_client::ElectionServiceClient, lock_service_client::LockServiceClient,
    session_request::Request, session_response::Response,
};
use leasehold_tests::{
    Coordinator, CoordinatorProcess, RawSession, RedisServer,
    raw::{
        PROMPT, acquire_request, connect, error_info, exclusive, release_request, renew_request,
        several, wire,
    },
    wait,
};
use rustix::process::Signal;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};
use tonic::{Code, Status};
use tonic_health::pb::{HealthCheckRequest, health_client::HealthClient};
use tonic_types::StatusExt;

const TTL: Duration = Duration::from_secs(60);

/// Asserts that a call was refused because of a limit.
#[track_caller]
fn assert_over(status: &Status, reason: &str, (setting, limit): (&str, &str), retry: bool) {
    assert_eq!(status.code(), Code::ResourceExhausted, "{status:?}");
    let info = error_info(status);
    assert_eq!(info.reason, reason);
    assert_eq!(info.metadata["setting"], setting);
    assert_eq!(info.metadata["limit"], limit);
    assert!(status.message().contains(limit), "{}", status.message());
    let details = status.get_error_details();
    let retry_after = details.retry_info().and_then(|info| info.retry_delay);
    assert_eq!(retry_after.is_some(), retry, "{retry_after:?}");
}

/// Does the same for a request on a session.
#[track_caller]
fn assert_failed(
    failure: &SessionFailure,
    reason: &str,
    (setting, limit): (&str, &str),
    retry: bool,
) {
    assert_eq!(failure.code, Code::ResourceExhausted as i32, "{failure:?}");
    assert_eq!(failure.reason, reason, "{failure:?}");
    assert_eq!(failure.metadata["setting"], setting);
    assert_eq!(failure.metadata["limit"], limit);
    assert_eq!(failure.retry_after.is_some(), retry, "{failure:?}");
}

#[tokio::test]
async fn sessions_of_one_caller() {
    let coordinator = Coordinator::in_process_with(["--max-sessions-per-identity", "2"]);
    let endpoint = coordinator.endpoint();
    let first = RawSession::open(&endpoint, TTL).await;
    let mut second = RawSession::open(&endpoint, TTL).await;
    let held = second.acquire("limits").await;
    let mut third = RawSession::stream(connect(&endpoint).await).await.unwrap();
    third.send(Request::Open(Default::default())).await;
    let status = third.end(PROMPT).await.unwrap_err();
    let limit = ("max-sessions-per-identity", "2");
    assert_over(&status, "TOO_MANY_SESSIONS", limit, true);
    first.close().await;
    RawSession::open(&endpoint, TTL).await.close().await;
    assert!(second.release(&held.lock).await);
}

#[tokio::test]
async fn sessions_in_all_and_locks_of_a_session() {
    let flags = ["--max-sessions", "1", "--max-locks-per-session", "2"];
    let coordinator = Coordinator::in_process_with(flags);
    let endpoint = coordinator.endpoint();
    let mut session = RawSession::open(&endpoint, TTL).await;
    let mut other = RawSession::stream(connect(&endpoint).await).await.unwrap();
    other.send(Request::Open(Default::default())).await;
    let status = other.end(PROMPT).await.unwrap_err();
    assert_over(&status, "TOO_MANY_SESSIONS", ("max-sessions", "1"), true);

    session.acquire("one").await;
    session.acquire("two").await;
    let id = session.send(Request::Acquire(exclusive("three"))).await;
    let failure = session.refusal(id, PROMPT).await;
    let limit = ("max-locks-per-session", "2");
    assert_failed(&failure, "TOO_MANY_LOCKS", limit, true);
}

#[tokio::test]
async fn waiters_of_a_name() {
    let coordinator = Coordinator::in_process_with(["--max-waiters-per-name", "1"]);
    let endpoint = coordinator.endpoint();
    let limit = ("max-waiters-per-name", "1");
    let mut holder = RawSession::open(&endpoint, TTL).await;
    // A grant that would have waited does not count among the waiters.
    let held = holder.acquire("crowded").await;
    let mut waiter = RawSession::open(&endpoint, TTL).await;
    let waiting = waiter.wait_for(exclusive("crowded")).await;

    let mut late = RawSession::open(&endpoint, TTL).await;
    let id = late.ask("crowded", None).await;
    let refused = late.refusal(id, PROMPT).await;
    assert_failed(&refused, "TOO_MANY_WAITERS", limit, true);
    let id = late.send(Request::Acquire(several(["a", "crowded"]))).await;
    let refused = late.refusal(id, PROMPT).await;
    assert_failed(&refused, "TOO_MANY_WAITERS", limit, true);
    let mut unary = LockServiceClient::new(connect(&endpoint).await);
    let mut acquire = acquire_request("crowded");
    acquire.wait = wire(TTL);
    let status = unary.acquire(acquire).await.unwrap_err();
    assert_over(&status, "TOO_MANY_WAITERS", limit, true);
    // Who does not wait takes no place, and other names have their own.
    unary.acquire(acquire_request("crowded")).await.unwrap();
    let elsewhere = late.acquire("a").await;
    assert!(late.release(&elsewhere.lock).await);

    assert!(holder.release(&held.lock).await);
    waiter.granted(waiting, PROMPT).await;
    // The place is free again.
    late.wait_for(exclusive("crowded")).await;
}

#[tokio::test]
async fn names_pages_and_messages() {
    let flags = [
        ["--max-names-per-acquire", "2"],
        ["--max-page-size", "5"],
        ["--max-message-size", "65536"],
    ];
    let coordinator = Coordinator::in_process_with(flags.concat());
    let endpoint = coordinator.endpoint();
    let mut session = RawSession::open(&endpoint, TTL).await;
    let id = session
        .send(Request::Acquire(several(["a", "b", "c"])))
        .await;
    let failure = session.refusal(id, PROMPT).await;
    let limit = ("max-names-per-acquire", "2");
    assert_failed(&failure, "TOO_MANY_NAMES", limit, false);
    session.take(several(["a", "b"])).await;

    let mut admin = AdminServiceClient::new(connect(&endpoint).await);
    let limit = ("max-page-size", "5");
    for (page_size, fits) in [(6, false), (5, true), (0, true)] {
        let locks = ListLocksRequest {
            page_size,
            ..ListLocksRequest::default()
        };
        let sessions = ListSessionsRequest {
            page_size,
            ..ListSessionsRequest::default()
        };
        let locks = admin.list_locks(locks).await.map(drop);
        let sessions = admin.list_sessions(sessions).await.map(drop);
        for answer in [locks, sessions] {
            match answer {
                Ok(()) => assert!(fits, "{page_size}"),
                Err(status) => assert_over(&status, "PAGE_TOO_LARGE", limit, false),
            }
        }
    }

    let limit = ("max-message-size", "65536");
    let large = "n".repeat(65_536);
    let mut unary = LockServiceClient::new(connect(&endpoint).await);
    let status = unary.acquire(acquire_request(&large)).await.unwrap_err();
    assert_over(&status, "MESSAGE_TOO_LARGE", limit, false);
    for opens in [false, true] {
        let mut broken = RawSession::stream(connect(&endpoint).await).await.unwrap();
        if opens {
            broken.say_open(TTL).await;
        }
        broken.send(Request::Acquire(exclusive(&large))).await;
        let status = broken.end(PROMPT).await.unwrap_err();
        assert_over(&status, "MESSAGE_TOO_LARGE", limit, false);
    }
    session.heartbeat().await;
}

#[tokio::test]
async fn health_and_reflection_take_small_messages() {
    let coordinator = Coordinator::in_process();
    let mut health = HealthClient::new(connect(&coordinator.endpoint()).await);
    let mut check = async |length| {
        let service = "n".repeat(length);
        health.check(HealthCheckRequest { service }).await
    };
    // There is no such service: it was read.
    assert_eq!(check(60_000).await.unwrap_err().code(), Code::NotFound);
    let status = check(65_536).await.unwrap_err();
    assert_eq!(status.code(), Code::ResourceExhausted, "{status:?}");
    let info = error_info(&status);
    assert_eq!(info.reason, "MESSAGE_TOO_LARGE");
    assert_eq!(info.metadata["limit"], "65536");
}

#[tokio::test]
async fn reflection_is_counted_and_health_apart() {
    let coordinator = Coordinator::in_process_with(["--max-requests-per-second", "1"]);
    let channel = connect(&coordinator.endpoint()).await;
    let mut health = HealthClient::new(channel.clone());
    let mut check = async || health.check(HealthCheckRequest::default()).await;
    let mut unknown = tonic::client::Grpc::new(channel);
    let mut ask = async || {
        unknown.ready().await.unwrap();
        let codec = tonic_prost::ProstCodec::<AcquireRequest, AcquireRequest>::default();
        let request = tonic::Request::new(AcquireRequest::default());
        let path = "/x/Y".parse().unwrap();
        unknown.unary(request, path, codec).await.unwrap_err()
    };
    let limit = ("max-requests-per-second", "1");
    assert_eq!(ask().await.code(), Code::Unimplemented);
    assert_over(&ask().await, "RATE_LIMITED", limit, true);
    check().await.unwrap();
    let status = check().await.unwrap_err();
    assert_over(&status, "RATE_LIMITED", limit, true);
}

#[tokio::test]
async fn watchers_and_observers() {
    for setting in ["max-watchers", "max-watchers-per-identity"] {
        let coordinator = Coordinator::in_process_with([&*format!("--{setting}"), "2"]);
        let endpoint = coordinator.endpoint();
        let mut admin = AdminServiceClient::new(connect(&endpoint).await);
        let mut elections = ElectionServiceClient::new(connect(&endpoint).await);
        let observe = ObserveRequest {
            election: "election".to_owned(),
        };
        let watching = admin
            .watch_locks(WatchLocksRequest::default())
            .await
            .unwrap();
        let _observing = elections.observe(observe.clone()).await.unwrap();
        let limit = (setting, "2");
        let status = admin.watch_locks(WatchLocksRequest::default()).await;
        assert_over(&status.unwrap_err(), "TOO_MANY_WATCHERS", limit, true);
        let status = elections.observe(observe.clone()).await;
        assert_over(&status.unwrap_err(), "TOO_MANY_WATCHERS", limit, true);
        drop(watching);
        wait::until("the place to be free", PROMPT, || async {
            elections.clone().observe(observe.clone()).await.map(drop)
        })
        .await;
    }
}

#[tokio::test]
async fn requests_in_a_second() {
    let coordinator = Coordinator::in_process_with(["--max-requests-per-second", "20"]);
    let endpoint = coordinator.endpoint();
    let limit = ("max-requests-per-second", "20");
    let mut session = RawSession::open(&endpoint, TTL).await;
    let held = session.acquire("rate").await;
    let set_value = Request::SetValue(SessionSetValue {
        name: "rate".to_owned(),
        owner_id: held.lock.owner_id.clone(),
        value: Vec::new(),
    });
    let refused = loop {
        let id = session.send(set_value.clone()).await;
        match session.answer(id, PROMPT).await {
            Response::ValueSet(_) => {}
            Response::Error(failure) => break failure,
            other => panic!("{other:?}"),
        }
    };
    assert_failed(&refused, "RATE_LIMITED", limit, true);
    let mut unary = LockServiceClient::new(connect(&endpoint).await);
    let status = loop {
        if let Err(status) = unary.acquire(acquire_request("rate")).await {
            break status;
        }
    };
    assert_over(&status, "RATE_LIMITED", limit, true);
    // What shows life or gives back is served all the same.
    for _ in 0..50 {
        session.heartbeat().await;
        let release = release_request("rate", &[7; 16]);
        unary.release(release).await.unwrap();
        let renewed = unary.renew(renew_request("rate", &[7; 16])).await;
        assert!(!renewed.unwrap().into_inner().renewed);
    }
    // And after the time that was told, so is this.
    let refused = loop {
        let id = session.send(set_value.clone()).await;
        if let Response::Error(failure) = session.answer(id, PROMPT).await {
            break failure;
        }
    };
    let retry_after: Duration = refused.retry_after.unwrap().try_into().unwrap();
    assert!(retry_after <= Duration::from_millis(50), "{retry_after:?}");
    tokio::time::sleep(retry_after).await;
    let id = session.send(set_value.clone()).await;
    let answer = session.answer(id, PROMPT).await;
    assert!(matches!(answer, Response::ValueSet(_)), "{answer:?}");
    assert!(session.release(&held.lock).await);
    session.close().await;
}

/// Returns whether a new connection is closed without an answer to what is asked on it.
async fn is_refused(coordinator: &CoordinatorProcess) -> bool {
    let address = coordinator.endpoint();
    let stream = TcpStream::connect(address.trim_start_matches("http://")).await;
    let Ok(mut stream) = stream else {
        return true;
    };
    // It may be closed already.
    let _ = stream.write_all(b"GET / HTTP/1.1\r\nhost: h\r\n\r\n").await;
    let mut byte = [0];
    let read = tokio::time::timeout(PROMPT, stream.read(&mut byte)).await;
    !matches!(read.expect("an answer or the end"), Ok(1))
}

#[tokio::test]
async fn connections_of_an_address_and_limits_that_change() {
    let redis = RedisServer::start();
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("leasehold.toml");
    std::fs::write(&file, "max-connections-per-address = 1\n").unwrap();
    let mut coordinator = Coordinator::process()
        .store(redis.url())
        .arguments(["--config", file.to_str().unwrap()])
        .start();
    let mut session = RawSession::open(&coordinator.endpoint(), TTL).await;
    assert!(is_refused(&coordinator).await);
    std::fs::write(
        &file,
        "max-connections-per-address = 2\nmax-locks-per-session = 1\nmax-names-per-acquire = 1\n",
    )
    .unwrap();
    coordinator.child().signal(Signal::HUP);
    wait::until("the new limit to hold", PROMPT, || async {
        if is_refused(&coordinator).await {
            Err("closed")
        } else {
            Ok(())
        }
    })
    .await;
    // A session goes on as it began, but for what it asks.
    let names: SessionAcquire = several(["a", "b"]);
    let id = session.send(Request::Acquire(names)).await;
    let failure = session.refusal(id, PROMPT).await;
    let limit = ("max-names-per-acquire", "1");
    assert_failed(&failure, "TOO_MANY_NAMES", limit, false);
    session.heartbeat().await;
}

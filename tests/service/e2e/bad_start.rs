//! Coordinators that cannot start, or cannot serve yet: their messages name the fault, its place and the remedy.

use std::{
    net::TcpListener,
    process::{Command, Output, Stdio},
    time::Duration,
};

use leasehold_proto::v1::{
    AcquireRequest, lock_service_client::LockServiceClient, session_response::Response,
};
use leasehold_tests::{
    Coordinator, RawSession, RedisServer,
    ports::free_port,
    raw::{PROMPT, connect},
};
use tonic::Code;
use tonic_health::pb::{
    HealthCheckRequest, health_check_response::ServingStatus, health_client::HealthClient,
};
use tonic_types::StatusExt;

const LIMIT: Duration = Duration::from_secs(10);
/// The exit code of a coordinator whose configuration makes no sense.
const BAD_CONFIGURATION: i32 = 64;

/// Runs a coordinator that is to end by itself.
async fn run_to_its_end(mut command: Command) -> Output {
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut command = tokio::process::Command::from(command);
    command.kill_on_drop(true);
    tokio::time::timeout(LIMIT, command.output())
        .await
        .expect("the coordinator ends by itself")
        .unwrap()
}

#[tokio::test]
async fn a_port_in_use_is_named() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    for flag in ["--listen", "--admin-listen"] {
        let command = Coordinator::process().arguments([flag, &address]).command();
        let output = run_to_its_end(command).await;
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(said.contains(&address), "{said}");
        assert!(said.to_lowercase().contains("in use"), "{said}");
        assert!(output.stdout.is_empty(), "{:?}", output.stdout);
    }
}

#[tokio::test]
async fn malformed_configuration_is_located() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("leasehold.toml");
    for (text, expected) in [
        ("store = \"memory:\nname = 3", "line 1"),
        ("name = \"a\"\nno-such-setting = 1\n", "line 2, column 1"),
        ("\n\nmin-ttl = \"soon\"\n", "line 3"),
        ("min-ttl = \"1m\"\nmax-ttl = \"1s\"\n", "min-ttl"),
    ] {
        std::fs::write(&file, text).unwrap();
        let path = file.to_str().unwrap();
        let command = Coordinator::process()
            .arguments(["--config", path])
            .command();
        let output = run_to_its_end(command).await;
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(
            output.status.code(),
            Some(BAD_CONFIGURATION),
            "{text}: {said}"
        );
        assert!(said.contains(expected), "{text}: {said}");
        assert!(said.contains(path), "{text}: {said}");
    }
    let command = Coordinator::process()
        .arguments(["--config", "/no/such/file"])
        .command();
    let output = run_to_its_end(command).await;
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(BAD_CONFIGURATION), "{said}");
    assert!(said.contains("/no/such/file"), "{said}");
}

#[tokio::test]
async fn bad_flags_and_variables_are_named_and_never_show_a_password() {
    for (arguments, expected) in [
        (["--max-ttl", "-5s"], "max-ttl"),
        (["--store", "redis://user:hunter2@host:port/x"], "store"),
        (["--store", "etcd://hunter2@127.0.0.1:2379"], "store"),
        (["--listen", "0.0.0.0:0"], "--insecure"),
    ] {
        let output = run_to_its_end(Coordinator::process().arguments(arguments).command()).await;
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success(), "{arguments:?}: {said}");
        assert!(said.contains(expected), "{arguments:?}: {said}");
        assert!(!said.contains("hunter2"), "{arguments:?}: {said}");
    }
    let command = Coordinator::process()
        .environment("LEASEHOLD_MIN_TTL", "zero")
        .command();
    let output = run_to_its_end(command).await;
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(BAD_CONFIGURATION), "{said}");
    assert!(said.contains("LEASEHOLD_MIN_TTL"), "{said}");
}

async fn serving(endpoint: &str) -> ServingStatus {
    let mut health = HealthClient::new(connect(endpoint).await);
    let request = HealthCheckRequest {
        service: "leasehold.v1.LockService".to_owned(),
    };
    health.check(request).await.unwrap().into_inner().status()
}

async fn assert_unavailable(endpoint: &str) {
    let mut client = LockServiceClient::new(connect(endpoint).await);
    let request = AcquireRequest {
        name: "any".to_owned(),
        ..AcquireRequest::default()
    };
    let answer = tokio::time::timeout(PROMPT, client.acquire(request)).await;
    let status = answer.expect("it fails within its time-out").unwrap_err();
    assert_eq!(status.code(), Code::Unavailable, "{status:?}");
    let info = status.get_details_error_info().expect("an ErrorInfo");
    assert_eq!(
        (info.domain.as_str(), info.reason.as_str()),
        ("leasehold", "STORE_UNAVAILABLE")
    );
    assert!(!status.message().contains("hunter2"), "{status:?}");
}

#[tokio::test]
async fn an_unreachable_redis_is_said_and_waited_for() {
    let address = format!("127.0.0.1:{}", free_port());
    let coordinator = Coordinator::process()
        .store(format!("redis://{address}"))
        .start_unready();
    assert_eq!(
        serving(&coordinator.endpoint()).await,
        ServingStatus::NotServing
    );
    assert_unavailable(&coordinator.endpoint()).await;
    // A session can be opened, and says for each request what is wrong.
    let mut session = RawSession::open(&coordinator.endpoint(), LIMIT).await;
    let id = session.ask("any", Some(Duration::ZERO)).await;
    match session.answer(id, PROMPT).await {
        Response::Error(failure) => {
            assert_eq!(failure.code, Code::Unavailable as i32, "{failure:?}");
            assert_eq!(failure.reason, "STORE_UNAVAILABLE", "{failure:?}");
        }
        other => panic!("{other:?}"),
    }
    assert!(
        coordinator.log().contains(&address),
        "{}",
        coordinator.log()
    );
}

#[tokio::test]
async fn a_wrong_password_is_said_but_not_shown() {
    let redis = RedisServer::options().password("swordfish").start();
    let wrong = format!("redis://:hunter2@{}", redis.address());
    let coordinator = Coordinator::process().store(wrong).start_unready();
    assert_eq!(
        serving(&coordinator.endpoint()).await,
        ServingStatus::NotServing
    );
    assert_unavailable(&coordinator.endpoint()).await;
    let log = coordinator.log();
    assert!(
        log.contains("WRONGPASS") || log.to_lowercase().contains("password"),
        "{log}"
    );
    assert!(!log.contains("hunter2"), "{log}");

    let coordinator = Coordinator::process().store(redis.url()).start();
    let endpoint = coordinator.endpoint();
    assert_eq!(serving(&endpoint).await, ServingStatus::Serving);
    RawSession::open(&endpoint, LIMIT)
        .await
        .acquire("any")
        .await;
}

#[tokio::test]
async fn a_store_that_is_required_and_not_there_ends_the_coordinator() {
    let nobody = format!("127.0.0.1:{}", free_port());
    for url in [
        format!("redis://{nobody}"),
        format!("redis+sentinel://{nobody}/locks"),
        format!("redis+cluster://{nobody}"),
        format!("redis+quorum://{nobody},127.0.0.2:1,127.0.0.3:1"),
    ] {
        let command = Coordinator::process()
            .store(&url)
            .arguments(["--require-store", "--store-timeout", "100ms"])
            .command();
        let output = run_to_its_end(command).await;
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{url}: {said}");
        assert!(said.contains("--require-store"), "{url}: {said}");
        assert!(said.contains(&nobody), "{url}: {said}");
    }
}

//! Coordinators that cannot serve yet, because their store is away or refuses them: callers and logs are told why.

use std::time::Duration;

use leasehold_proto::v1::lock_service_client::LockServiceClient;
use leasehold_tests::{
    Coordinator, RawSession, RedisServer,
    ports::free_port,
    raw::{self, PROMPT, acquire_request, connect},
};
use tonic::Code;
use tonic_health::pb::{
    HealthCheckRequest, health_check_response::ServingStatus, health_client::HealthClient,
};

const LIMIT: Duration = Duration::from_secs(10);

async fn serving(endpoint: &str) -> ServingStatus {
    let mut health = HealthClient::new(connect(endpoint).await);
    let request = HealthCheckRequest {
        service: "leasehold.v1.LockService".to_owned(),
    };
    health.check(request).await.unwrap().into_inner().status()
}

async fn assert_unavailable(endpoint: &str) {
    let mut client = LockServiceClient::new(connect(endpoint).await);
    let acquire = client.acquire(acquire_request("any"));
    let answer = tokio::time::timeout(PROMPT, acquire).await;
    let status = answer.expect("it fails within its time-out").unwrap_err();
    assert_eq!(status.code(), Code::Unavailable, "{status:?}");
    assert_eq!(raw::reason(&status), "STORE_UNAVAILABLE");
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
    let failure = session.refusal(id, PROMPT).await;
    assert_eq!(failure.code, Code::Unavailable as i32, "{failure:?}");
    assert_eq!(failure.reason, "STORE_UNAVAILABLE", "{failure:?}");
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

//! Readiness and gRPC health, which follow the store, the renewals, and a drain.

use std::time::Duration;

use leasehold_proto::v1::lock_service_client::LockServiceClient;
use leasehold_tests::{
    Coordinator, CoordinatorProcess, RawSession, RedisServer, Replicas,
    raw::{self, acquire_request, exclusive},
    wait,
};
use tonic::transport::Channel;
use tonic_health::pb::{
    HealthCheckRequest, health_check_response::ServingStatus, health_client::HealthClient,
};

use crate::observability::SEEN;

/// Renewals are late after a third of it, and holds run out with it.
const TTL: Duration = Duration::from_secs(9);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn renewals_that_a_stopped_redis_does_not_answer_are_told_until_it_goes_on() {
    let redis = RedisServer::start();
    let coordinator = Coordinator::process().store(redis.url()).start();
    let mut session = RawSession::open(&coordinator.endpoint(), TTL).await;
    let lock = session.take_one(exclusive("kept")).await;
    session.keep_alive(TTL / 9);
    assert_eq!(health(&coordinator).await, ServingStatus::Serving);
    redis.stop();
    until_late(&coordinator).await;
    let metrics = coordinator.metrics().await;
    assert_eq!(metrics.sum("leasehold_store_up"), 0.0);
    redis.cont();
    until_ready(&coordinator).await;
    // In time: nothing was lost.
    assert!(session.release(&lock).await);
    assert_eq!(session.unread_unasked().len(), 0);
    let metrics = coordinator.metrics().await;
    assert_eq!(metrics.sum("leasehold_store_up"), 1.0);
    assert!(metrics.sum("leasehold_store_outages_total") >= 1.0);
    assert_eq!(metrics.sum("leasehold_lost_total"), 0.0);
    // The renewal that was late is among those that were carried out.
    let bucket = "leasehold_renewal_lag_seconds_bucket";
    let slow = metrics.of(bucket, &["le=\"+Inf\""]) - metrics.of(bucket, &["le=\"2.5\""]);
    assert!(slow >= 1.0, "{slow}");
    session.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn renewals_that_do_not_count_are_told_though_the_store_is_up() {
    let redis = Replicas::start(1);
    let coordinator = Coordinator::process()
        .store(redis.server(0).url())
        .arguments(["--min-replicas", "1", "--replica-timeout", "300ms"])
        .start();
    let mut session = RawSession::open(&coordinator.endpoint(), TTL).await;
    session.take_one(exclusive("kept")).await;
    session.keep_alive(TTL / 9);
    redis.server(1).stop();
    until_late(&coordinator).await;
    let metrics = coordinator.metrics().await;
    assert_eq!(metrics.sum("leasehold_store_up"), 1.0);
    let errors = "leasehold_store_script_errors_total";
    let renewals = ["script=\"renew\"", "error=\"not_replicated\""];
    assert!(metrics.of(errors, &renewals) >= 1.0);
    redis.server(1).cont();
    until_ready(&coordinator).await;
    let metrics = coordinator.metrics().await;
    let waits = "leasehold_store_script_seconds_count";
    assert!(metrics.of(waits, &["script=\"wait\""]) >= 1.0);
    session.close().await;
}

#[tokio::test]
async fn a_coordinator_whose_redis_is_full_is_ready_and_says_what_is_refused() {
    let redis = RedisServer::start();
    let coordinator = Coordinator::process().store(redis.url()).start();
    let mut unary = LockServiceClient::new(coordinator.channel().await);
    let mut set = redis::cmd("CONFIG");
    set.arg("SET").arg("maxmemory").arg(1);
    set.exec(&mut redis.connection()).unwrap();
    for name in ["a", "b", "c"] {
        let refused = unary.acquire(acquire_request(name)).await.unwrap_err();
        assert_eq!(raw::reason(&refused), "STORE_REFUSED");
        assert!(
            !refused.message().contains(&redis.address().to_string()),
            "{refused}"
        );
    }
    let said = wait::until("the refusals to be told", SEEN, || async {
        let said = coordinator.asked("/readyz").await;
        said.and_then(|said| {
            if said == "ready\n" {
                Err(said)
            } else {
                Ok(said)
            }
        })
    })
    .await;
    let expected = format!(
        "ready, although Redis at {} is out of memory, and refuses commands (OOM command not allowed",
        redis.address()
    );
    assert!(said.starts_with(&expected), "{said}");
    assert!(
        said.ends_with(" (docs/doctor.md#out-of-memory)\n"),
        "{said}"
    );
    assert_eq!(health(&coordinator).await, ServingStatus::Serving);
    let log = coordinator.log();
    assert_eq!(log.matches("is out of memory").count(), 1, "{log}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_renewal_of_a_lock_that_is_given_back_is_late_no_longer() {
    let redis = RedisServer::start();
    let coordinator = Coordinator::process().store(redis.url()).start();
    let mut session = RawSession::open(&coordinator.endpoint(), TTL).await;
    let lock = session.take_one(exclusive("given back")).await;
    session.keep_alive(TTL / 9);
    redis.stop();
    until_late(&coordinator).await;
    // Redis does not answer this either.
    session.ask_release(&lock).await;
    let late = ["leasehold_late_renewals"];
    coordinator.until_zero(late, SEEN).await;
    redis.cont();
    until_ready(&coordinator).await;
    session.close().await;
}

#[tokio::test]
async fn a_coordinator_that_goes_away_is_draining_and_not_ready() {
    let coordinator = Coordinator::process().start();
    let session = RawSession::open(&coordinator.endpoint(), TTL).await;
    let channel = coordinator.channel().await;
    let metrics = coordinator.metrics().await;
    assert_eq!(metrics.sum("leasehold_ready"), 1.0);
    assert_eq!(metrics.sum("leasehold_draining"), 0.0);
    coordinator.terminate();
    wait::until("the coordinator to say that it drains", SEEN, || async {
        match coordinator.readiness().await {
            Err(reason) if reason.contains("draining") => Ok(()),
            other => Err(other),
        }
    })
    .await;
    let metrics = coordinator.metrics().await;
    assert_eq!(metrics.sum("leasehold_ready"), 0.0);
    assert_eq!(metrics.sum("leasehold_draining"), 1.0);
    assert_eq!(health_on(channel).await, ServingStatus::NotServing);
    session.close().await;
}

/// Waits until a coordinator says that the one session there is has a renewal that is late.
async fn until_late(coordinator: &CoordinatorProcess) {
    wait::until("renewals to be late", SEEN, || async {
        match coordinator.readiness().await {
            Err(reason) if reason.contains("the renewals of 1 session are late") => Ok(()),
            other => Err(other),
        }
    })
    .await;
    assert_eq!(health(coordinator).await, ServingStatus::NotServing);
    let metrics = coordinator.metrics().await;
    assert_eq!(metrics.sum("leasehold_late_renewals"), 1.0);
    assert_eq!(metrics.sum("leasehold_ready"), 0.0);
}

async fn until_ready(coordinator: &CoordinatorProcess) {
    wait::until("it to be ready again", SEEN, || coordinator.readiness()).await;
    assert_eq!(health(coordinator).await, ServingStatus::Serving);
    let metrics = coordinator.metrics().await;
    assert_eq!(metrics.sum("leasehold_late_renewals"), 0.0);
    assert_eq!(metrics.sum("leasehold_ready"), 1.0);
}

/// Returns the health of the services over gRPC. Asserts that all have the same.
async fn health(coordinator: &CoordinatorProcess) -> ServingStatus {
    health_on(coordinator.channel().await).await
}

async fn health_on(channel: Channel) -> ServingStatus {
    let mut health = HealthClient::new(channel);
    let mut said = Vec::new();
    for service in ["", "leasehold.v1.LockService", "leasehold.v1.AdminService"] {
        let service = service.to_owned();
        let answer = health.check(HealthCheckRequest { service }).await.unwrap();
        said.push(answer.into_inner().status());
    }
    said.dedup();
    assert_eq!(said.len(), 1, "{said:?}");
    said[0]
}

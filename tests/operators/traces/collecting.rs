//! Sampling of traces, and their way to the collector.

use std::fs;

use leasehold_proto::v1::{AcquireRequest, lock_service_client::LockServiceClient};
use leasehold_tests::{
    Coordinator, CoordinatorProcess, RawSession, collector::Collector, ports::free_port, wait,
};
use rustix::process::Signal;

use super::LIMIT;

/// Calls that are carried out one after the other.
async fn call(coordinator: &CoordinatorProcess, calls: usize) {
    let mut client = LockServiceClient::new(coordinator.channel().await);
    for number in 0..calls {
        let name = format!("name-{number}");
        let request = AcquireRequest {
            name,
            ..AcquireRequest::default()
        };
        client.acquire(request).await.unwrap();
    }
}

fn calls(collector: &Collector) -> usize {
    let spans = collector.spans();
    spans
        .iter()
        .filter(|span| span.name.ends_with("/Acquire"))
        .count()
}

#[tokio::test]
async fn of_many_requests_the_share_is_traced_and_what_is_unsent_is_sent_at_the_end() {
    let collector = Collector::start().await;
    let endpoint = collector.endpoint();
    let mut coordinator = Coordinator::process()
        .arguments(["--otlp-endpoint", &endpoint, "--trace-sample", "0.25"])
        .environment("OTEL_BSP_SCHEDULE_DELAY", "3600000")
        .start();
    call(&coordinator, 800).await;
    assert_eq!(calls(&collector), 0, "sent too early to show anything");
    coordinator.terminate();
    assert!(coordinator.child().wait(LIMIT).await.success());
    // 200 are expected: this is more than seven standard deviations away.
    let traced = calls(&collector);
    assert!((110..=290).contains(&traced), "{traced} of 800");
    let resources = collector.requests();
    let resource = resources[0].resource_spans[0].resource.clone().unwrap();
    let keys: Vec<_> = resource
        .attributes
        .iter()
        .map(|found| found.key.as_str())
        .collect();
    for key in ["service.name", "service.version", "service.instance.id"] {
        assert!(keys.contains(&key), "{keys:?}");
    }
}

#[tokio::test]
async fn the_share_follows_the_configuration() {
    let collector = Collector::start().await;
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("leasehold.toml");
    let text = format!(
        "otlp-endpoint = {:?}\ntrace-sample = ",
        collector.endpoint()
    );
    fs::write(&file, format!("{text}0\n")).unwrap();
    let mut coordinator = Coordinator::process()
        .arguments(["--config", file.to_str().unwrap()])
        .environment("OTEL_BSP_SCHEDULE_DELAY", "50")
        .start();
    call(&coordinator, 20).await;
    fs::write(&file, format!("{text}1.0\n")).unwrap();
    coordinator.child().signal(Signal::HUP);
    coordinator.logged(&["changed=\"trace-sample\""]).await;
    wait::until("a call that is traced", LIMIT, || async {
        call(&coordinator, 1).await;
        let found = calls(&collector);
        if found > 0 { Ok(()) } else { Err(()) }
    })
    .await;
}

#[tokio::test]
async fn a_collector_that_is_not_there_holds_nothing_up() {
    let endpoint = format!("http://127.0.0.1:{}", free_port());
    let mut coordinator = Coordinator::process()
        .arguments(["--otlp-endpoint", &endpoint, "--trace-sample", "1"])
        .environment("OTEL_BSP_SCHEDULE_DELAY", "50")
        .start();
    call(&coordinator, 50).await;
    let mut session = RawSession::open(&coordinator.endpoint(), LIMIT).await;
    session.acquire("served").await;
    wait::until("a complaint", LIMIT, || async {
        let log = coordinator.log();
        let is_told = log.to_lowercase().contains("export");
        if is_told { Ok(()) } else { Err(log) }
    })
    .await;
    coordinator.terminate();
    assert!(coordinator.child().wait(LIMIT).await.success());
}

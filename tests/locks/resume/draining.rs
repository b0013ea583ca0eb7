//! Coordinator that drains: it announces that to load balancers first, and serves until its clients are gone.

use leasehold_proto::v1::session_response::Response;
use leasehold_tests::{
    Coordinator, RawSession, Site,
    raw::{PROMPT, connect, exclusive, resume_hold, resume_wait},
    site::TTL,
};
use tonic::Code;
use tonic_health::pb::{HealthCheckRequest, health_client::HealthClient};

const WAIT: u64 = 1_000_000;

#[tokio::test(flavor = "multi_thread")]
async fn clients_leave_a_draining_coordinator_with_all_that_they_have() {
    let site = Site::redis(1).await;
    let leaving = Coordinator::process()
        .store(site.server().url())
        .arguments(["--drain-timeout", "30s"])
        .start();
    let mut holder = site.session(0).await;
    let waited = holder.take_one(exclusive("waited")).await;
    let mut old = RawSession::open(&leaving.endpoint(), TTL).await;
    let held = old.take_one(exclusive("held")).await;
    let id = old.ask_for(exclusive("waited")).await;
    let ticket = old.ticket(id).await.ticket;
    let channel = connect(&leaving.endpoint()).await;
    let mut health = HealthClient::new(channel.clone());
    leaving.terminate();
    let draining = old.unasked(PROMPT).await;
    assert!(matches!(draining, Response::Draining(_)), "{draining:?}");
    // Whoever asks was told before.
    let request = HealthCheckRequest {
        service: "leasehold.v1.LockService".to_owned(),
    };
    let said = health.check(request).await.unwrap().into_inner();
    assert_eq!(
        said.status(),
        tonic_health::pb::health_check_response::ServingStatus::NotServing
    );
    let ready = readyz(leaving.admin_endpoint().trim_start_matches("http://")).await;
    assert!(ready.starts_with("HTTP/1.1 503"), "{ready}");
    // No other session is opened there.
    let mut late = RawSession::stream(channel).await;
    let refused = match &mut late {
        Ok(stream) => stream.end(PROMPT).await.unwrap_err(),
        Err(status) => status.clone(),
    };
    assert_eq!(refused.code(), Code::Unavailable, "{refused:?}");
    // Those that are there are served.
    let more = old.take_one(exclusive("more")).await;
    old.heartbeat().await;

    let resume = vec![
        resume_hold(&held),
        resume_hold(&more),
        resume_wait("waited", &ticket, WAIT),
    ];
    let (mut new, resumed) = RawSession::resume(&site.endpoint(0), TTL, resume).await;
    new.keep_alive(TTL / 5);
    assert_eq!(resumed.refused, []);
    drop(old);
    // It goes as soon as everybody has left.
    let mut leaving = leaving;
    assert!(leaving.child().wait(PROMPT).await.success());
    assert!(holder.release(&waited).await);
    let granted = new.granted(WAIT, PROMPT).await;
    for lock in resumed.holds().values().chain([&granted.lock]) {
        assert!(new.release(lock).await);
    }
    new.close().await;
    holder.close().await;
    site.nothing_is_left().await;
}

/// Returns the answer of `/readyz`, with any status.
async fn readyz(address: &str) -> String {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let mut stream = tokio::net::TcpStream::connect(address).await.unwrap();
    let request = "GET /readyz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut said = String::new();
    stream.read_to_string(&mut said).await.unwrap();
    said
}

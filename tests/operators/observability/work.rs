//! Work of every kind, and the metrics that it changes.

use std::time::Duration;

use leasehold_proto::v1::{
    AcquireOutcome, AcquireRequest, CheckTokenRequest, GetLockRequest, RenewRequest,
    admin_service_client::AdminServiceClient, lock_service_client::LockServiceClient,
};
use leasehold_tests::{
    Coordinator, CoordinatorProcess, RawSession, RedisServer,
    coordinator::Metrics,
    raw::{PROMPT, acquire_request, exclusive, for_at_most, release_request},
};

pub(crate) const TTL: Duration = Duration::from_secs(10);
/// Longest wait of the acquire that is not granted.
const IN_VAIN: Duration = Duration::from_millis(400);

/// Does a little of everything at a coordinator.
pub(crate) async fn work(coordinator: &CoordinatorProcess) {
    let endpoint = coordinator.endpoint();
    let mut holder = RawSession::open(&endpoint, TTL).await;
    let mut waiter = RawSession::open(&endpoint, TTL).await;
    let held = holder.take_one(exclusive("secret-name")).await;
    // One that waits in vain, one that takes it back, and one that is handed the lock.
    let in_vain = for_at_most(IN_VAIN, exclusive("secret-name"));
    let in_vain = waiter.ask_for(in_vain).await;
    let outcome = waiter.not_granted(in_vain, PROMPT).await.outcome();
    assert_eq!(outcome, AcquireOutcome::TimedOut);
    let cancelled = waiter.wait_for(exclusive("secret-name")).await;
    waiter.cancel(cancelled).await;
    waiter.not_granted(cancelled, PROMPT).await;
    let handed = waiter.wait_for(exclusive("secret-name")).await;
    assert!(holder.release(&held).await);
    waiter.granted_all(handed, PROMPT).await;

    let channel = coordinator.channel().await;
    let mut locks = LockServiceClient::new(channel.clone());
    let name = "another-name".to_owned();
    let acquire = acquire_request(&name);
    let granted = locks.acquire(acquire).await.unwrap().into_inner();
    let renew = RenewRequest {
        name: name.clone(),
        owner_id: granted.owner_id.clone(),
        ..RenewRequest::default()
    };
    assert!(locks.renew(renew).await.unwrap().into_inner().renewed);
    let release = release_request(&name, &granted.owner_id);
    assert!(locks.release(release).await.unwrap().into_inner().released);
    locks.acquire(AcquireRequest::default()).await.unwrap_err();

    let mut admin = AdminServiceClient::new(channel);
    for (fencing_token, current) in [(granted.fencing_token, true), (1, false)] {
        let name = name.clone();
        let check = CheckTokenRequest {
            name,
            fencing_token,
        };
        let checked = admin.check_token(check).await.unwrap().into_inner();
        assert_eq!(checked.current, current);
    }
    admin.get_lock(GetLockRequest { name }).await.unwrap();
    holder.close().await;
    waiter.close().await;
}

#[tokio::test]
async fn work_is_counted_where_it_belongs() {
    let redis = RedisServer::start();
    let coordinator = Coordinator::process().store(redis.url()).start();
    work(&coordinator).await;
    let metrics = coordinator.metrics().await;
    let waits = |end| metrics.of("leasehold_wait_seconds_count", &[end]);
    assert_eq!(waits("end=\"granted\""), 1.0);
    assert_eq!(waits("end=\"timed_out\""), 1.0);
    assert_eq!(waits("end=\"cancelled\""), 1.0);
    let timed_out = metrics.of("leasehold_wait_seconds_sum", &["end=\"timed_out\""]);
    // The way to the store is not counted as waiting.
    assert!(timed_out >= IN_VAIN.as_secs_f64() / 2.0, "{timed_out}");
    assert_eq!(metrics.sum("leasehold_fenced_refusals_total"), 1.0);
    assert_eq!(calls(&metrics, "Acquire", "OK"), [1.0, 1.0]);
    assert_eq!(calls(&metrics, "Acquire", "INVALID_ARGUMENT"), [1.0, 1.0]);
    assert_eq!(calls(&metrics, "CheckToken", "OK"), [2.0, 2.0]);
    // Streams are counted, and not timed.
    assert_eq!(calls(&metrics, "Session", "OK"), [2.0, 0.0]);
    assert_eq!(metrics.sum("leasehold_rpcs_in_flight"), 0.0);
    assert_eq!(requests(&metrics, "acquire"), 4.0);
    assert_eq!(requests(&metrics, "close"), 2.0);
    // Two of the sessions' four acquires were granted at once or queued; and there is the unary call's.
    assert_eq!(metrics.sum("leasehold_acquire_seconds_count"), 5.0);
    let scripts = |script| metrics.of("leasehold_store_script_seconds_count", &[script]);
    assert!(scripts("script=\"acquire\"") >= 5.0);
    assert!(scripts("script=\"release\"") >= 3.0);
    assert!(scripts("script=\"renew\"") >= 1.0);
    assert!(scripts("script=\"view\"") >= 3.0);
    let sent = metrics.sum("leasehold_store_batch_size_sum");
    let calls = metrics.sum("leasehold_store_batch_size_count");
    assert!(sent >= calls && calls >= 10.0, "{sent} in {calls}");
    for gauge in ["leasehold_store_queue", "leasehold_contention_queue"] {
        assert_eq!(metrics.sum(gauge), 0.0, "{gauge}");
    }
    assert_eq!(metrics.sum("leasehold_store_script_errors_total"), 0.0);
}

#[tokio::test]
async fn without_metrics_there_are_levels_and_counts_alone() {
    let redis = RedisServer::start();
    let coordinator = Coordinator::process()
        .store(redis.url())
        .arguments(["--metrics=false"])
        .start();
    work(&coordinator).await;
    let metrics = coordinator.metrics().await;
    assert_eq!(metrics.sum("leasehold_grants_total"), 3.0);
    assert_eq!(metrics.sum("leasehold_store_up"), 1.0);
    for counted in [
        "leasehold_wait_seconds_count",
        "leasehold_acquire_seconds_count",
        "leasehold_rpcs_total",
        "leasehold_store_batch_size_count",
    ] {
        assert_eq!(metrics.sum(counted), 0.0, "{counted}");
    }
    assert_eq!(metrics.find("leasehold_store_script_seconds_count"), None);
}

/// Returns the number of calls of a method that ended with this code, and the number of those that were timed.
fn calls(metrics: &Metrics, method: &str, code: &str) -> [f64; 2] {
    let labels = [format!("method=\"{method}\""), format!("code=\"{code}\"")];
    let labels = [&*labels[0], &*labels[1]];
    ["leasehold_rpcs_total", "leasehold_rpc_seconds_count"].map(|name| metrics.of(name, &labels))
}

fn requests(metrics: &Metrics, request: &str) -> f64 {
    let label = format!("request=\"{request}\"");
    metrics.of("leasehold_session_requests_total", &[&label])
}

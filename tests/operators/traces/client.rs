//! Traces of the Rust client's requests, which belong to the trace of the calling code.

use std::time::Duration;

use leasehold_client::{AcquireError, Client, TraceContext};
use leasehold_proto::v1::lock_service_client::LockServiceClient;
use leasehold_tests::{CoordinatorProcess, collector::Collector, raw::acquire_request, wait};
use opentelemetry_proto::tonic::trace::v1::Span;
use tonic::Request;

use super::{ASKING, LIMIT, TRACE, assert_parts, coordinator, hex, sampled, span_of, unsampled};

tokio::task_local! {
    /// The span that the current task is in, as an application's tracing would know it.
    static CURRENT: TraceContext;
}

async fn client(coordinator: &CoordinatorProcess) -> Client {
    Client::builder()
        .trace_context_from(|| CURRENT.try_get().ok())
        .connect(coordinator.endpoint())
        .await
        .unwrap()
}

/// Returns a span of the test's trace, told apart by its number.
fn span(number: u8) -> TraceContext {
    let trace = u128::from_str_radix(TRACE, 16).unwrap();
    TraceContext::new(trace.to_be_bytes(), [number; 8], 1).unwrap()
}

/// Waits for the span of a request, by its kind and what it asked for.
async fn told(collector: &Collector, kind: &str, lock: &str) -> Span {
    span_of(collector, kind, ("leasehold.lock", lock)).await
}

#[track_caller]
fn assert_asked_in(found: &Span, number: u8) {
    assert_eq!(hex(&found.trace_id), TRACE, "{found:?}");
    assert_eq!(found.parent_span_id, [number; 8], "{found:?}");
}

#[tokio::test]
async fn requests_on_a_session_are_part_of_the_span_in_which_they_are_made() {
    let collector = Collector::start().await;
    let coordinator = coordinator(&collector, "0");
    let client = client(&coordinator).await;
    let guard = CURRENT
        .scope(span(1), client.lock("one").into_future())
        .await;
    let guard = guard.unwrap();
    let changed = CURRENT.scope(span(2), guard.set_value("changed")).await;
    changed.unwrap();
    CURRENT.scope(span(3), guard.downgrade()).await.unwrap();
    CURRENT.scope(span(4), guard.release()).await.unwrap();
    for (kind, number) in [
        ("acquire", 1),
        ("set_value", 2),
        ("downgrade", 3),
        ("release", 4),
    ] {
        let found = told(&collector, kind, "one").await;
        assert_asked_in(&found, number);
        assert_parts(&collector, &found, &["script"]);
    }

    let permits = client.semaphore("kept", 3).permits(2).await.unwrap();
    CURRENT.scope(span(9), permits.keep(1)).await.unwrap();
    assert_asked_in(&told(&collector, "reduce", "kept").await, 9);

    // A guard that is only dropped, permits, several names, an election.
    let dropped = client.lock("dropped").try_acquire().await.unwrap();
    CURRENT.sync_scope(span(5), || drop(dropped));
    assert_asked_in(&told(&collector, "release", "dropped").await, 5);
    let permits = client.semaphore("permits", 3).permits(2);
    let permits = CURRENT.scope(span(6), permits.into_future()).await.unwrap();
    assert_asked_in(&told(&collector, "acquire", "permits").await, 6);
    let all = client.lock_all(["a", "b"]);
    let all = CURRENT.scope(span(7), all.into_future()).await.unwrap();
    wait::until("the span of several names", LIMIT, || async {
        let spans = collector.spans();
        let mut found = spans.iter().filter(|span| span.parent_span_id == [7; 8]);
        found.next().map(|_| ()).ok_or(spans.clone())
    })
    .await;
    let campaign = client.election("election").campaign("me");
    let leadership = CURRENT.scope(span(8), campaign).await.unwrap();
    assert_asked_in(&told(&collector, "acquire", "election").await, 8);
    drop((permits, all, leadership));
    client.close().await;

    // What was asked in no span, and renewals, are nobody's.
    let spans = collector.spans();
    let strange = spans.iter().find(|span| hex(&span.trace_id) != TRACE);
    assert!(strange.is_none(), "{strange:?}");
}

#[tokio::test]
async fn a_request_may_have_a_context_of_its_own() {
    let collector = Collector::start().await;
    let coordinator = coordinator(&collector, "0");
    // Without a source there is none but that.
    let client = Client::connect(coordinator.endpoint()).await.unwrap();
    let context: TraceContext = sampled().parse().unwrap();
    let held = client.lock("own").trace_context(context.clone());
    let held = held.await.unwrap();
    let found = told(&collector, "acquire", "own").await;
    assert_eq!(hex(&found.parent_span_id), ASKING);
    // With one, it comes first: this is not sampled.
    let busy = Client::builder()
        .trace_context_from(|| sampled().parse().ok())
        .connect(coordinator.endpoint())
        .await
        .unwrap();
    let unsampled: TraceContext = unsampled().parse().unwrap();
    let untold = busy.lock("unsampled").trace_context(unsampled);
    untold.await.unwrap().release().await.unwrap();
    let refused = busy.lock("own").wait(Duration::from_millis(20));
    let refused = refused.await.unwrap_err();
    assert!(matches!(refused, AcquireError::TimedOut { .. }));
    let outcome = ("leasehold.outcome", "ACQUIRE_OUTCOME_TIMED_OUT");
    let found = span_of(&collector, "acquire", outcome).await;
    assert_parts(&collector, &found, &["script", "wait"]);
    let spans = collector.spans();
    let is_untold = |span: &&Span| {
        let lock = leasehold_tests::collector::attribute(span, "leasehold.lock");
        span.name == "acquire" && lock.as_deref() == Some("unsampled")
    };
    assert!(!spans.iter().any(|span| is_untold(&span)), "{spans:?}");
    held.release().await.unwrap();
}

#[tokio::test]
async fn calls_are_part_of_the_span_in_which_they_are_made() {
    let collector = Collector::start().await;
    let coordinator = coordinator(&collector, "0");
    let client = client(&coordinator).await;
    let status = ("rpc.grpc.status_code", "0");
    let vendors = span(1).with_state("vendor=said");
    let admin = client.admin();
    let got = CURRENT.scope(vendors, admin.get_lock("a")).await;
    got.unwrap();
    let name = "leasehold.v1.AdminService/GetLock";
    let found = span_of(&collector, name, status).await;
    assert_asked_in(&found, 1);
    assert_eq!(found.trace_state, "vendor=said");

    // So are those of the stubs, unless they tell their own.
    let mut stubs = LockServiceClient::new(client.channel());
    let request = || acquire_request("a");
    CURRENT
        .scope(span(2), stubs.acquire(request()))
        .await
        .unwrap();
    let name = "leasehold.v1.LockService/Acquire";
    let found = span_of(&collector, name, status).await;
    assert_asked_in(&found, 2);
    let mut own = Request::new(request());
    own.metadata_mut()
        .insert("traceparent", sampled().parse().unwrap());
    CURRENT.scope(span(3), stubs.acquire(own)).await.unwrap();
    wait::until("the span of the other call", LIMIT, || async {
        let spans = collector.spans();
        let found = spans.iter().any(|span| hex(&span.parent_span_id) == ASKING);
        if found { Ok(()) } else { Err(spans) }
    })
    .await;
}

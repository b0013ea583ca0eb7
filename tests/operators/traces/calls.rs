//! Unary calls.

use leasehold_proto::v1::{AcquireRequest, lock_service_client::LockServiceClient};
use leasehold_tests::{
    collector::Collector,
    raw::{release_request, wire},
};
use tonic::Request;

use super::{
    ASKING, LIMIT, TRACE, assert_parts, assert_said, coordinator, hex, sampled, span_of, unsampled,
};

fn asking<T>(message: T, traceparent: &str) -> Request<T> {
    let mut request = Request::new(message);
    let metadata = request.metadata_mut();
    metadata.insert("traceparent", traceparent.parse().unwrap());
    request
}

fn acquire(name: &str) -> AcquireRequest {
    AcquireRequest {
        name: name.to_owned(),
        wait: wire(LIMIT),
        ..AcquireRequest::default()
    }
}

#[tokio::test]
async fn a_call_is_part_of_its_callers_trace() {
    let collector = Collector::start().await;
    let coordinator = coordinator(&collector, "0");
    let mut client = LockServiceClient::new(coordinator.channel().await);
    let held = client.acquire(acquire("a")).await.unwrap().into_inner();
    let mut other = client.clone();
    let waiting =
        tokio::spawn(async move { other.acquire(asking(acquire("a"), &sampled())).await });
    leasehold_tests::wait::until("a waiter", LIMIT, || async {
        let waiters = coordinator.metrics().await.sum("leasehold_waiters");
        if waiters > 0.0 { Ok(()) } else { Err(waiters) }
    })
    .await;
    let release = release_request("a", &held.owner_id);
    client.release(release).await.unwrap();
    waiting.await.unwrap().unwrap();

    let name = "leasehold.v1.LockService/Acquire";
    let span = span_of(&collector, name, ("rpc.method", "Acquire")).await;
    assert_eq!(hex(&span.trace_id), TRACE);
    assert_eq!(hex(&span.parent_span_id), ASKING);
    assert_said(
        &span,
        &[
            ("rpc.system", "grpc"),
            ("rpc.service", "leasehold.v1.LockService"),
            ("rpc.grpc.status_code", "0"),
        ],
    );
    assert_parts(&collector, &span, &["script", "wait", "hand-off"]);
    // The calls without a context were not traced.
    assert_eq!(collector.spans().len(), 4, "{:?}", collector.spans());
}

#[tokio::test]
async fn a_refused_call_ends_with_its_code() {
    let collector = Collector::start().await;
    let coordinator = coordinator(&collector, "1");
    let mut client = LockServiceClient::new(coordinator.channel().await);
    client
        .acquire(asking(acquire("unsampled"), &unsampled()))
        .await
        .unwrap();
    client.acquire(acquire("")).await.unwrap_err();
    let name = "leasehold.v1.LockService/Acquire";
    let span = span_of(&collector, name, ("rpc.grpc.status_code", "3")).await;
    assert_eq!(
        span.status.as_ref().map(|status| status.code),
        Some(2),
        "{span:?}"
    );
    assert_parts(&collector, &span, &[]);
    let spans = collector.spans();
    assert!(
        spans.iter().all(|span| hex(&span.trace_id) != TRACE),
        "{spans:?}"
    );
}

#[tokio::test]
async fn callers_choose_no_names_of_spans() {
    let collector = Collector::start().await;
    let coordinator = coordinator(&collector, "0");
    let mut client = tonic::client::Grpc::new(coordinator.channel().await);
    for path in [
        format!("/grpc.health.v1.Health/{}", "x".repeat(8 << 10)),
        "/grpc.reflection.v1alpha.ServerReflection/X".to_owned(),
        "/X/Acquire".to_owned(),
    ] {
        client.ready().await.unwrap();
        let request = asking(AcquireRequest::default(), &sampled());
        let codec = tonic_prost::ProstCodec::<_, AcquireRequest>::default();
        let path = path.parse().unwrap();
        let status = client.unary(request, path, codec).await.unwrap_err();
        assert_eq!(status.code(), tonic::Code::Unimplemented);
    }
    leasehold_tests::wait::until("three spans", LIMIT, || async {
        let spans = collector.spans();
        if spans.len() == 3 { Ok(()) } else { Err(spans) }
    })
    .await;
    for span in collector.spans() {
        assert_eq!(span.name, "unknown/unknown");
        assert_said(
            &span,
            &[("rpc.service", "unknown"), ("rpc.method", "unknown")],
        );
    }
}

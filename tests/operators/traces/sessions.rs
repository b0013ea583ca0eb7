//! Traces of requests on a session.

use std::time::Duration;

use leasehold_proto::v1::{
    SessionRelease, SessionSetValue, lock_service_client::LockServiceClient,
    session_request::Request,
};
use leasehold_tests::{
    RawSession,
    collector::Collector,
    raw::{acquire_request, exclusive},
    wait,
};
use prost::Message;

use super::{
    ASKING, LIMIT, TRACE, assert_parts, assert_said, coordinator, hex, sampled, span_of, unsampled,
};

#[tokio::test]
async fn an_acquire_that_waits_tells_of_its_wait_and_of_the_hand_off() {
    let collector = Collector::start().await;
    let coordinator = coordinator(&collector, "0");
    let mut holder = RawSession::open(&coordinator.endpoint(), LIMIT).await;
    let mut waiter = RawSession::open(&coordinator.endpoint(), LIMIT).await;
    let held = holder.acquire("traced").await;
    waiter.trace_as(sampled());
    let asked = waiter.ask("traced", Some(LIMIT)).await;
    waiter.queued(asked).await;
    let pause = Duration::from_millis(50);
    tokio::time::sleep(pause).await;
    assert!(holder.release(&held.lock).await);
    let granted = waiter.granted(asked, LIMIT).await;

    let span = span_of(&collector, "acquire", ("leasehold.outcome", "granted")).await;
    assert_eq!(hex(&span.trace_id), TRACE);
    assert_eq!(hex(&span.parent_span_id), ASKING);
    let number = asked.to_string();
    assert_said(
        &span,
        &[
            ("leasehold.lock", "traced"),
            ("leasehold.request", &number),
            ("leasehold.position", "1"),
        ],
    );
    assert_parts(&collector, &span, &["script", "wait", "hand-off"]);
    let waited = &collector.parts_of(&span)[1];
    let waited = waited.end_time_unix_nano - waited.start_time_unix_nano;
    assert!(
        u128::from(waited) >= pause.as_nanos() * 9 / 10,
        "{waited} ns"
    );

    // And its release, but nothing of the other session, whose requests nobody samples.
    assert!(waiter.release(&granted.lock).await);
    let span = span_of(&collector, "release", ("leasehold.outcome", "released")).await;
    assert_parts(&collector, &span, &["script"]);
    let spans = collector.spans();
    assert!(
        spans.iter().all(|span| hex(&span.trace_id) == TRACE),
        "{spans:?}"
    );
}

#[tokio::test]
async fn a_name_that_is_too_long_for_one_is_told_nowhere() {
    let collector = Collector::start().await;
    let coordinator = coordinator(&collector, "1");
    let long = "n".repeat(100_000);
    let mut session = RawSession::open(&coordinator.endpoint(), LIMIT).await;
    let owner_id = vec![7; 16];
    let (name, value) = (long.clone(), Vec::new());
    let release = SessionRelease {
        name: name.clone(),
        owner_id: owner_id.clone(),
        expired: false,
    };
    let set_value = SessionSetValue {
        name,
        owner_id,
        value,
    };
    for request in [
        Request::Acquire(exclusive(&long)),
        Request::Release(release),
        Request::SetValue(set_value),
    ] {
        let asked = session.send(request).await;
        assert_eq!(session.refusal(asked, LIMIT).await.reason, "INVALID_FIELD");
    }
    let mut unary = LockServiceClient::new(coordinator.channel().await);
    let request = acquire_request(&long);
    unary.acquire(request).await.unwrap_err();
    for name in ["acquire", "release", "set_value"] {
        let outcome = ("leasehold.outcome", "INVALID_FIELD");
        let span = span_of(&collector, name, outcome).await;
        let status = span.status.as_ref().map(|status| status.code);
        assert_eq!(status, Some(2), "{span:?}");
        // Nothing was asked of the store.
        assert_parts(&collector, &span, &[]);
    }
    wait::until("the call to be told", LIMIT, || async {
        let spans = collector.spans();
        let call = spans.iter().any(|span| span.name.ends_with("/Acquire"));
        call.then_some(()).ok_or(spans.len())
    })
    .await;
    for span in collector.spans() {
        assert!(span.encoded_len() < 2000, "{}", span.name);
    }
}

#[tokio::test]
async fn the_context_of_the_stream_goes_for_requests_without_their_own() {
    let collector = Collector::start().await;
    let coordinator = coordinator(&collector, "0");
    let channel = coordinator.channel().await;
    let mut session = RawSession::stream_with(channel, &[("traceparent", &sampled())])
        .await
        .unwrap();
    session.say_open(LIMIT).await;
    session.acquire("of-the-stream").await;
    let span = span_of(&collector, "acquire", ("leasehold.lock", "of-the-stream")).await;
    assert_eq!(hex(&span.parent_span_id), ASKING);
    // A request's own comes first, and may say that it is not sampled.
    session.trace_as(unsampled());
    session.acquire("unsampled").await;
    session.trace_as("nonsense");
    session.acquire("nonsense").await;
    span_of(&collector, "acquire", ("leasehold.lock", "nonsense")).await;
    let told = |span: &_| leasehold_tests::collector::attribute(span, "leasehold.lock");
    let spans = collector.spans();
    assert!(
        !spans
            .iter()
            .any(|span| told(span).as_deref() == Some("unsampled"))
    );
}

#[tokio::test]
async fn renewals_are_traced_for_themselves() {
    let collector = Collector::start().await;
    let coordinator = coordinator(&collector, "1");
    let mut session = RawSession::open(&coordinator.endpoint(), Duration::from_secs(4)).await;
    session.trace_as(sampled());
    session.acquire("renewed").await;
    session.keep_alive(Duration::from_millis(300));
    let span = span_of(&collector, "renew", ("leasehold.holds", "1")).await;
    assert!(span.parent_span_id.is_empty(), "{span:?}");
    assert_ne!(hex(&span.trace_id), TRACE);
    assert_said(&span, &[("leasehold.lost", "0")]);
    assert_parts(&collector, &span, &["script"]);
}

#[tokio::test]
async fn the_log_tells_of_each_request_with_its_ids() {
    let collector = Collector::start().await;
    let endpoint = collector.endpoint();
    let coordinator = leasehold_tests::Coordinator::process()
        .arguments([
            "--otlp-endpoint",
            &endpoint,
            "--log",
            "debug",
            "--log-format",
            "json",
        ])
        .start();
    let mut session = RawSession::stream(coordinator.channel().await)
        .await
        .unwrap();
    let opened = session.say_open(LIMIT).await;
    session.trace_as(sampled());
    let asked = session.ask("told", None).await;
    session.granted(asked, LIMIT).await;
    let line = coordinator.logged(&["leasehold_server::requests"]).await;
    let line: serde_json::Value = serde_json::from_str(&line).unwrap();
    let fields = &line["fields"];
    assert_eq!(fields["session"], opened.session_id.as_str(), "{line}");
    assert_eq!(fields["request"], asked, "{line}");
    assert_eq!(fields["kind"], "acquire", "{line}");
    assert_eq!(fields["outcome"], "granted", "{line}");
    assert_eq!(fields["trace"], TRACE, "{line}");
    assert!(fields["took"].is_string(), "{line}");
}

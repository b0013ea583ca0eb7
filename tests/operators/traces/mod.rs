//! Traces, as a collector receives them, and the log lines that belong to them.

mod calls;
mod client;
mod collecting;
mod sessions;

use std::time::Duration;

use leasehold_tests::{
    Coordinator, CoordinatorProcess,
    collector::{Collector, attribute},
};
use opentelemetry_proto::tonic::trace::v1::Span;

/// Longer than anything here takes on a busy machine.
const LIMIT: Duration = Duration::from_secs(10);
/// A trace of somebody else's, and the span in it that asks.
const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const ASKING: &str = "00f067aa0ba902b7";

/// Returns the context of a caller that traces its request.
fn sampled() -> String {
    format!("00-{TRACE}-{ASKING}-01")
}

/// Returns the context of a caller that is not sampled.
fn unsampled() -> String {
    format!("00-{TRACE}-{ASKING}-00")
}

/// Returns a coordinator that sends spans soon.
fn coordinator(collector: &Collector, share: &str) -> CoordinatorProcess {
    let endpoint = collector.endpoint();
    Coordinator::process()
        .arguments(["--otlp-endpoint", &endpoint, "--trace-sample", share])
        .environment("OTEL_BSP_SCHEDULE_DELAY", "50")
        .start()
}

/// Waits for a span of this name that says this.
async fn span_of(collector: &Collector, name: &str, said: (&str, &str)) -> Span {
    collector.span(name, said, LIMIT).await
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Asserts that these are the parts of a span, one after the other and within it.
#[track_caller]
fn assert_parts(collector: &Collector, span: &Span, names: &[&str]) {
    let parts = collector.parts_of(span);
    let found: Vec<_> = parts.iter().map(|part| part.name.as_str()).collect();
    assert_eq!(found, names, "{span:?}");
    let mut from = span.start_time_unix_nano;
    for part in &parts {
        assert_eq!(part.trace_id, span.trace_id);
        assert!(from <= part.start_time_unix_nano, "{part:?} in {span:?}");
        assert!(
            part.start_time_unix_nano <= part.end_time_unix_nano,
            "{part:?}"
        );
        from = part.end_time_unix_nano;
    }
    assert!(from <= span.end_time_unix_nano, "{parts:?} in {span:?}");
}

#[track_caller]
fn assert_said(span: &Span, said: &[(&str, &str)]) {
    for (key, value) in said {
        assert_eq!(
            attribute(span, key).as_deref(),
            Some(*value),
            "{key} of {span:?}"
        );
    }
}

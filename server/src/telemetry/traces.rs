//! Traces: sampling of requests, their spans, and the export.
//!
//! A caller that sends its own context (W3C `traceparent`) decides whether its request is traced. Of the other requests the
//! coordinator traces a random share. It draws first, so that a request that is not traced costs one comparison.

use std::{
    collections::HashMap,
    fmt,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::{Duration, SystemTime},
};

use opentelemetry::{
    Context, KeyValue, Value,
    propagation::TextMapPropagator,
    trace::{
        Span as _, SpanBuilder, SpanContext, SpanKind, Status, TraceContextExt, Tracer as _,
        TracerProvider as _,
    },
};
use opentelemetry_otlp::{ExporterBuildError, SpanExporter, WithExportConfig};
use opentelemetry_sdk::{
    Resource,
    propagation::TraceContextPropagator,
    trace::{Sampler, SdkTracer, SdkTracerProvider, Span},
};
use tonic::codegen::http::{Extensions, HeaderMap};

use crate::{
    config::{Config, Share},
    follow::Reload,
};

/// Time for the last spans to be sent when the coordinator ends.
const LAST_SPANS: Duration = Duration::from_secs(2);

/// Exporter and sampler of traces, or nothing if traces are off. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct Traces(Option<Arc<On>>);

struct On {
    provider: SdkTracerProvider,
    tracer: SdkTracer,
    /// Share of the requests whose callers do not decide, in parts of [`u32::MAX`].
    share: AtomicU32,
}

/// Context that a caller sent with a request, if any.
#[derive(Clone, Debug, Default)]
pub struct CallerContext(Option<SpanContext>);

/// A traced request. Its span ends when this is dropped.
pub struct Traced {
    on: Arc<On>,
    span: Span,
    /// The span as the parent of its parts.
    inside: Context,
    /// The present part, and its beginning.
    part: Option<(&'static str, SystemTime)>,
}

impl Traces {
    /// Sends spans to `otlp-endpoint`, if that is set. `instance` is the coordinator's id. Must be called within a Tokio runtime.
    ///
    /// # Errors
    ///
    /// Fails if the endpoint or the environment's settings for it (`OTEL_EXPORTER_OTLP_HEADERS` and the like) can't be used. An
    /// endpoint out of reach is no error: the exporter drops the spans.
    pub fn start(config: &Config, instance: &str) -> Result<Self, ExporterBuildError> {
        let Some(endpoint) = &config.otlp_endpoint else {
            return Ok(Self::default());
        };
        let exporter = SpanExporter::builder()
            .with_tonic()
            .with_endpoint(endpoint)
            .build()?;
        let resource = Resource::builder()
            .with_service_name("leasehold")
            .with_attributes([
                KeyValue::new("service.version", env!("CARGO_PKG_VERSION")),
                KeyValue::new("service.instance.id", instance.to_owned()),
            ])
            .build();
        let provider = SdkTracerProvider::builder()
            // Sampling takes place before a span begins.
            .with_sampler(Sampler::AlwaysOn)
            .with_batch_exporter(exporter)
            .with_resource(resource)
            .build();
        let on = On {
            tracer: provider.tracer("leasehold"),
            provider,
            share: AtomicU32::new(config.trace_sample.of_max()),
        };
        Ok(Self(Some(Arc::new(on))))
    }

    /// Returns whether any request may be traced.
    #[must_use]
    pub fn are_on(&self) -> bool {
        self.0.is_some()
    }

    /// Follows the setting `trace-sample` while it is awaited.
    pub async fn follow(self, mut reload: Reload) {
        let Some(on) = self.0 else { return };
        loop {
            let share: Share = reload.changed().await.trace_sample;
            on.share.store(share.of_max(), Ordering::Relaxed);
        }
    }

    /// Returns the caller's context from a request's headers, if traces are on.
    #[must_use]
    pub fn context(&self, headers: &HeaderMap) -> CallerContext {
        if !self.are_on() {
            return CallerContext::default();
        }
        let text = |name| headers.get(name).and_then(|value| value.to_str().ok());
        match text("traceparent") {
            Some(parent) => CallerContext::read(parent, text("tracestate").unwrap_or_default()),
            None => CallerContext::default(),
        }
    }

    /// Begins the span of a request, if it is to be traced. `said`, the context in the request itself, decides if it is not empty,
    /// then the `caller`, then chance.
    #[must_use]
    pub fn begin(&self, name: &'static str, caller: &CallerContext, said: &str) -> Option<Traced> {
        let on = self.0.as_ref()?;
        let own = if said.is_empty() {
            CallerContext::default()
        } else {
            CallerContext::read(said, "")
        };
        let parent = own.0.as_ref().or(caller.0.as_ref());
        let is_sampled = match parent {
            Some(parent) => parent.is_sampled(),
            None => on.draws(),
        };
        if !is_sampled {
            return None;
        }
        let outside = match parent {
            Some(parent) => Context::new().with_remote_span_context(parent.clone()),
            None => Context::new(),
        };
        let builder = SpanBuilder::from_name(name).with_kind(SpanKind::Server);
        let span = on.tracer.build_with_context(builder, &outside);
        let inside = Context::new().with_remote_span_context(span.span_context().clone());
        Some(Traced {
            on: Arc::clone(on),
            span,
            inside,
            part: None,
        })
    }

    /// Sends the remaining spans, for a short time at most.
    pub async fn shutdown(self) {
        let Some(on) = self.0 else { return };
        // The call blocks its thread.
        let shutdown = move || on.provider.shutdown_with_timeout(LAST_SPANS);
        if let Ok(Err(error)) = tokio::task::spawn_blocking(shutdown).await {
            tracing::warn!(%error, "not all spans could be sent");
        }
    }
}

impl On {
    /// Draws whether to trace a request whose caller does not decide.
    fn draws(&self) -> bool {
        let share = self.share.load(Ordering::Relaxed);
        share > 0 && fastrand::u32(..) <= share
    }
}

impl CallerContext {
    /// Returns the context with which the stream of these extensions was opened.
    #[must_use]
    pub fn of_stream(extensions: &Extensions) -> Self {
        extensions.get().cloned().unwrap_or_default()
    }

    /// Reads the caller's context. A malformed one counts as none, as W3C requires.
    fn read(traceparent: &str, tracestate: &str) -> Self {
        let carrier = [("traceparent", traceparent), ("tracestate", tracestate)]
            .map(|(name, value)| (name.to_owned(), value.to_owned()));
        let context = TraceContextPropagator::new()
            .extract_with_context(&Context::new(), &HashMap::from(carrier));
        let parent = context.span().span_context().clone();
        Self(parent.is_valid().then_some(parent))
    }
}

impl Traced {
    /// Sets an attribute of the span. Never pass an owner id, a ticket or another secret.
    pub fn set(&mut self, key: &'static str, value: impl Into<Value>) {
        self.span.set_attribute(KeyValue::new(key, value));
    }

    /// Renames the span.
    pub fn rename(&mut self, name: String) {
        self.span.update_name(name);
    }

    /// Begins a part of the request, and ends the one before.
    pub fn part(&mut self, name: &'static str) {
        let now = SystemTime::now();
        self.part_ends(now);
        self.part = Some((name, now));
    }

    /// Splits the hand-off off the request's wait: its last `ago`, since the command that handed the lock over was sent.
    pub fn handed_off(&mut self, ago: Duration) {
        let now = SystemTime::now();
        if self.part.is_some_and(|(name, _)| name == "wait") {
            let sent = now.checked_sub(ago).unwrap_or(now);
            self.part_ends(sent);
            self.part = Some(("hand-off", sent));
        }
    }

    /// Ends the request's span, with an error if there is one.
    pub fn end(mut self, error: Option<&'static str>) {
        if let Some(error) = error {
            self.span.set_status(Status::error(error));
        }
    }

    /// Returns the trace's id, for logs.
    #[must_use]
    pub fn id(&self) -> String {
        self.span.span_context().trace_id().to_string()
    }

    fn part_ends(&mut self, at: SystemTime) {
        let Some((name, since)) = self.part.take() else {
            return;
        };
        let builder = SpanBuilder::from_name(name)
            .with_kind(SpanKind::Internal)
            // Keeps the beginning before the end if the clock was set back.
            .with_start_time(since.min(at));
        let mut part = self.on.tracer.build_with_context(builder, &self.inside);
        part.end_with_timestamp(at);
    }
}

impl Drop for Traced {
    fn drop(&mut self) {
        let now = SystemTime::now();
        self.part_ends(now);
        self.span.end_with_timestamp(now);
    }
}

impl fmt::Debug for On {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("On").finish_non_exhaustive()
    }
}

impl fmt::Debug for Traced {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Traced({})", self.id())
    }
}

#[cfg(test)]
mod tests {
    use super::CallerContext;

    #[test]
    fn only_a_context_that_makes_sense_is_one() {
        let trace = "4bf92f3577b34da6a3ce929d0e0e4736";
        for (text, sampled) in [
            (format!("00-{trace}-00f067aa0ba902b7-01"), Some(true)),
            (format!("00-{trace}-00f067aa0ba902b7-00"), Some(false)),
            (format!("00-{trace}-0000000000000000-01"), None),
            (format!("ff-{trace}-00f067aa0ba902b7-01"), None),
            (format!("00-{}-00f067aa0ba902b7-01", "0".repeat(32)), None),
            ("nonsense".to_owned(), None),
            ("x".repeat(100_000), None),
            (String::new(), None),
        ] {
            let read = CallerContext::read(&text, "");
            let found = read.0.map(|context| context.is_sampled());
            assert_eq!(found, sampled, "{text}");
        }
    }
}

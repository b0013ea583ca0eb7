//! The settings of traces.

use super::{Setting, Shape, put};
use crate::config::value::endpoint;

pub(super) const OTLP_ENDPOINT: Setting = Setting {
    name: "otlp-endpoint",
    shape: Shape::Text,
    value_name: "URL",
    help: "Where traces are sent: an OpenTelemetry collector's gRPC port, http://HOST:4317, or https://HOST:4317 for TLS \
           with the system's certificates. Nothing is traced without it. Headers that the collector wants are taken from \
           OTEL_EXPORTER_OTLP_HEADERS.",
    set: |config, text| {
        config.otlp_endpoint = Some(endpoint(text)?);
        Ok(())
    },
    show: |config| config.otlp_endpoint.clone(),
    example: Some("http://127.0.0.1:4317"),
};

pub(super) const TRACE_SAMPLE: Setting = Setting {
    name: "trace-sample",
    shape: Shape::Fraction,
    value_name: "SHARE",
    help: "The share of requests that is traced, from 0 to 1. A caller that sends a context of its own (traceparent) decides \
           for its requests.",
    set: |config, text| put(&mut config.trace_sample, text.parse()),
    show: |config| Some(config.trace_sample.to_string()),
    example: None,
};

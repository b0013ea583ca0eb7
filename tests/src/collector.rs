//! An OpenTelemetry collector inside this process: it takes spans over OTLP and keeps them.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use opentelemetry_proto::tonic::{
    collector::trace::v1::{
        ExportTraceServiceRequest, ExportTraceServiceResponse,
        trace_service_server::{TraceService, TraceServiceServer},
    },
    common::v1::any_value::Value,
    trace::v1::Span,
};
use tokio::net::TcpListener;
use tokio_stream::wrappers::TcpListenerStream;
use tokio_util::sync::{CancellationToken, DropGuard};
use tonic::{Request, Response, Status, transport::Server};

use crate::wait;

/// A collector. It ends when it is dropped.
#[derive(Debug)]
pub struct Collector {
    endpoint: String,
    taken: Taken,
    _stop: DropGuard,
}

#[derive(Clone, Debug, Default)]
struct Taken(Arc<Mutex<Vec<ExportTraceServiceRequest>>>);

#[tonic::async_trait]
impl TraceService for Taken {
    async fn export(
        &self,
        request: Request<ExportTraceServiceRequest>,
    ) -> Result<Response<ExportTraceServiceResponse>, Status> {
        self.0.lock().unwrap().push(request.into_inner());
        Ok(Response::new(ExportTraceServiceResponse::default()))
    }
}

impl Collector {
    /// Starts one on a free port, in this runtime.
    ///
    /// # Panics
    ///
    /// If it can't listen.
    pub async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let endpoint = format!("http://{}", listener.local_addr().unwrap());
        let taken = Taken::default();
        let stop = CancellationToken::new();
        let served = Server::builder()
            .add_service(TraceServiceServer::new(taken.clone()))
            .serve_with_incoming_shutdown(
                TcpListenerStream::new(listener),
                stop.clone().cancelled_owned(),
            );
        tokio::spawn(served);
        Self {
            endpoint,
            taken,
            _stop: stop.drop_guard(),
        }
    }

    /// Returns its URL: `http://…`.
    pub fn endpoint(&self) -> String {
        self.endpoint.clone()
    }

    /// Returns all requests that it received, unchanged.
    pub fn requests(&self) -> Vec<ExportTraceServiceRequest> {
        self.taken.0.lock().unwrap().clone()
    }

    /// Returns all spans that it has, in the order in which they came.
    pub fn spans(&self) -> Vec<Span> {
        self.requests()
            .into_iter()
            .flat_map(|request| request.resource_spans)
            .flat_map(|resource| resource.scope_spans)
            .flat_map(|scope| scope.spans)
            .collect()
    }

    /// Waits for a span by its name and one of its attributes.
    ///
    /// # Panics
    ///
    /// If it does not come within `limit`.
    pub async fn span(&self, name: &str, (key, value): (&str, &str), limit: Duration) -> Span {
        wait::until("a span", limit, || async {
            let spans = self.spans();
            let found = spans
                .iter()
                .find(|span| span.name == name && attribute(span, key).as_deref() == Some(value));
            found.cloned().ok_or((name, spans))
        })
        .await
    }

    /// Returns the children of this span, in the order of their beginnings.
    pub fn parts_of(&self, parent: &Span) -> Vec<Span> {
        let mut parts = self.spans();
        parts.retain(|span| span.parent_span_id == parent.span_id);
        parts.sort_by_key(|span| span.start_time_unix_nano);
        parts
    }
}

/// Returns an attribute of a span, as text.
pub fn attribute(span: &Span, key: &str) -> Option<String> {
    let attribute = span.attributes.iter().find(|found| found.key == key)?;
    match attribute.value.as_ref()?.value.as_ref()? {
        Value::StringValue(text) => Some(text.clone()),
        Value::IntValue(number) => Some(number.to_string()),
        other => Some(format!("{other:?}")),
    }
}

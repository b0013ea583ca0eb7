//! Answers of gRPC services as Connect's: one message, or a stream that ends with its status.

use std::{
    collections::BTreeMap,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use bytes::{Bytes, BytesMut};
use http_body::Frame;
use http_body_util::{BodyExt, Full};
use serde::Serialize;
use tokio::time::{Instant, Sleep};
use tonic::{
    Code, Status,
    body::Body,
    codegen::http::{HeaderMap, HeaderValue, Response, StatusCode, header},
};

use super::{
    call::{Call, Rejection, Schema},
    codec::Codec,
    envelope::{self, COMPRESSED, END_OF_STREAM},
    error::{WireError, http_status},
    metadata,
};
use crate::layered::Kept;

/// Content type of every error of a unary call.
const JSON: HeaderValue = HeaderValue::from_static("application/json");

/// Returns the answer of HTTP to a request that is no call.
pub(super) fn rejected(rejection: Rejection, schema: &Schema) -> Response<Body> {
    if rejection.http == StatusCode::UNSUPPORTED_MEDIA_TYPE {
        return rejected_in_text(rejection);
    }
    let mut response = failed(&rejection.status, schema);
    *response.status_mut() = rejection.http;
    response.headers_mut().extend(rejection.header);
    response
}

/// Returns the answer to a client that may not speak Connect. JSON is for those that do: a gRPC client does not read it.
pub(super) fn rejected_in_text(rejection: Rejection) -> Response<Body> {
    let message = format!("{}\n", rejection.status.message());
    let mut response = Response::new(Body::new(Full::from(message)));
    *response.status_mut() = rejection.http;
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/plain"));
    headers.extend(rejection.header);
    response
}

/// Returns the answer to a call that failed before or instead of an answer of the service.
pub(super) fn refused(call: &Call, status: &Status, schema: &Arc<Schema>) -> Response<Body> {
    if call.is_unary {
        return of_get(call, failed(status, schema));
    }
    let ended = Stream::ended(call.clone(), status, &HeaderMap::new(), schema);
    streamed(call, ended)
}

/// Returns the answer to a unary call: its message, or its error.
pub(super) async fn unary<B>(call: &Call, response: Response<B>, schema: &Schema) -> Response<Body>
where
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<tonic::codegen::StdError>,
{
    let (head, body) = response.into_parts();
    let mut leading = head.headers;
    let (result, trailers) = match Status::from_header_map(&leading) {
        // An answer without a body has its trailers in the place of headers.
        Some(status) => (Err(status), std::mem::take(&mut leading)),
        None => collected(Body::new(body)).await,
    };
    let message = result.and_then(|message| {
        let encoded = call.codec.encode(message, call.method.output());
        encoded.map_err(|error| untranslatable(&error))
    });
    let mut response = match message {
        Ok(message) => {
            let encoded = call.answer_encoding.encode(&message);
            let encoding = call.answer_encoding.name().filter(|_| encoded.is_some());
            let body = Full::new(encoded.unwrap_or(message));
            let mut response = Response::new(Body::new(body));
            *response.extensions_mut() = head.extensions;
            let mut response = Kept::by_body(response);
            let headers = response.headers_mut();
            let content_type = match call.codec {
                Codec::Json => JSON,
                Codec::Proto => HeaderValue::from_static("application/proto"),
            };
            headers.insert(header::CONTENT_TYPE, content_type);
            if let Some(encoding) = encoding {
                headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static(encoding));
            }
            response
        }
        Err(status) => failed(&status, schema),
    };
    metadata::lead(response.headers_mut(), &leading);
    metadata::trail(response.headers_mut(), &trailers);
    of_get(call, response)
}

/// Returns the answer to a call that streams.
pub(super) fn stream<B>(
    call: Call,
    response: Response<B>,
    deadline: Option<Instant>,
    schema: &Arc<Schema>,
) -> Response<Body>
where
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<tonic::codegen::StdError>,
{
    let (head, body) = response.into_parts();
    if let Some(status) = Status::from_header_map(&head.headers) {
        let ended = Stream::ended(call.clone(), &status, &head.headers, schema);
        return streamed(&call, ended);
    }
    let body = Stream {
        inner: Some(Body::new(body)),
        buffer: BytesMut::new(),
        call: call.clone(),
        deadline: deadline.map(|deadline| Box::pin(tokio::time::sleep_until(deadline))),
        end: None,
        schema: Arc::clone(schema),
    };
    let mut response = streamed(&call, body);
    metadata::lead(response.headers_mut(), &head.headers);
    response
}

/// Returns the status of a call whose time is over.
pub(super) fn too_late() -> Status {
    Status::deadline_exceeded("the call took longer than its client gives it")
}

/// Reads a unary answer to its end.
async fn collected(mut body: Body) -> (Result<Bytes, Status>, HeaderMap) {
    let mut buffer = BytesMut::new();
    let mut trailers = HeaderMap::new();
    while let Some(frame) = body.frame().await {
        match frame.map(Frame::into_data) {
            Ok(Ok(data)) => buffer.extend_from_slice(&data),
            Ok(Err(frame)) => trailers.extend(frame.into_trailers().unwrap_or_default()),
            Err(status) => return (Err(status), trailers),
        }
    }
    let result = match Status::from_header_map(&trailers) {
        Some(status) if status.code() == Code::Ok => {
            match envelope::take(&mut buffer, usize::MAX) {
                Ok(Some((0, message))) if buffer.is_empty() => Ok(message),
                _ => Err(untranslatable("it is not one message")),
            }
        }
        Some(status) => Err(status),
        None => Err(untranslatable("it has no status")),
    };
    (result, trailers)
}

fn untranslatable(why: &str) -> Status {
    Status::internal(format!("failed to translate the answer: {why}"))
}

/// Returns the answer to a unary call that failed.
fn failed(status: &Status, schema: &Schema) -> Response<Body> {
    let json = WireError::new(status, &schema.pool).to_json();
    let mut response = Response::new(Body::new(Full::from(json)));
    *response.status_mut() = http_status(status.code());
    response.headers_mut().insert(header::CONTENT_TYPE, JSON);
    response
}

/// Keeps the answer to a GET out of caches: locks change. A service that sets the header itself decides.
fn of_get(call: &Call, mut response: Response<Body>) -> Response<Body> {
    if call.is_get {
        let headers = response.headers_mut();
        headers
            .entry(header::CACHE_CONTROL)
            .or_insert(HeaderValue::from_static("no-store"));
        headers.append(header::VARY, HeaderValue::from_static("accept-encoding"));
    }
    response
}

fn streamed(call: &Call, body: Stream) -> Response<Body> {
    let mut response = Response::new(Body::new(body));
    *response.status_mut() = StatusCode::OK;
    let headers = response.headers_mut();
    let content_type = match call.codec {
        Codec::Json => "application/connect+json",
        Codec::Proto => "application/connect+proto",
    };
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    if let Some(encoding) = call.answer_encoding.name() {
        headers.insert(
            "connect-content-encoding",
            HeaderValue::from_static(encoding),
        );
    }
    response
}

/// Last message of a stream.
#[derive(Serialize)]
struct EndOfStream<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<WireError>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    metadata: BTreeMap<&'a str, Vec<String>>,
}

/// Body of a streamed answer. It reads from the service as the client reads, and ends the call when it is dropped.
struct Stream {
    /// The service's answer, until its end.
    inner: Option<Body>,
    buffer: BytesMut,
    call: Call,
    deadline: Option<Pin<Box<Sleep>>>,
    /// The last message, once it is known.
    end: Option<Bytes>,
    schema: Arc<Schema>,
}

impl Stream {
    /// Returns a stream that has only an end.
    fn ended(call: Call, status: &Status, metadata: &HeaderMap, schema: &Arc<Schema>) -> Self {
        let mut stream = Self {
            inner: None,
            buffer: BytesMut::new(),
            call,
            deadline: None,
            end: None,
            schema: Arc::clone(schema),
        };
        stream.end(status, metadata);
        stream
    }

    fn end(&mut self, status: &Status, metadata: &HeaderMap) {
        let is_error = status.code() != Code::Ok;
        let end = EndOfStream {
            error: is_error.then(|| WireError::new(status, &self.schema.pool)),
            metadata: metadata::by_name(metadata),
        };
        // Strings and JSON are always serializable.
        let json = serde_json::to_vec(&end).unwrap_or_default();
        self.inner = None;
        self.buffer.clear();
        self.end = Some(envelope::wrap(END_OF_STREAM, &json));
    }

    fn next_message(&mut self) -> Result<Option<Bytes>, Status> {
        let Ok(Some((flags, message))) = envelope::take(&mut self.buffer, usize::MAX) else {
            return Ok(None);
        };
        if flags != 0 {
            return Err(untranslatable("a message has flags"));
        }
        let message = self.call.codec.encode(message, self.call.method.output());
        let message = message.map_err(|error| untranslatable(&error))?;
        Ok(Some(match self.call.answer_encoding.encode(&message) {
            Some(encoded) => envelope::wrap(COMPRESSED, &encoded),
            None => envelope::wrap(0, &message),
        }))
    }
}

impl http_body::Body for Stream {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let this = self.get_mut();
        loop {
            if let Some(end) = this.end.take() {
                return Poll::Ready(Some(Ok(Frame::data(end))));
            }
            if this.inner.is_none() {
                return Poll::Ready(None);
            }
            if let Some(deadline) = &mut this.deadline
                && deadline.as_mut().poll(cx).is_ready()
            {
                this.end(&too_late(), &HeaderMap::new());
                continue;
            }
            match this.next_message() {
                Ok(Some(message)) => return Poll::Ready(Some(Ok(Frame::data(message)))),
                Ok(None) => {}
                Err(status) => {
                    this.end(&status, &HeaderMap::new());
                    continue;
                }
            }
            let Some(inner) = &mut this.inner else {
                continue;
            };
            match ready!(Pin::new(inner).poll_frame(cx)).transpose() {
                Ok(Some(frame)) => match frame.into_data() {
                    Ok(data) => this.buffer.extend_from_slice(&data),
                    Err(frame) => {
                        let trailers = frame.into_trailers().unwrap_or_default();
                        let status = Status::from_header_map(&trailers);
                        let status = status.unwrap_or_else(|| untranslatable("it has no status"));
                        this.end(&status, &trailers);
                    }
                },
                Ok(None) => this.end(&untranslatable("it has no status"), &HeaderMap::new()),
                Err(status) => this.end(&status, &HeaderMap::new()),
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_none() && self.end.is_none()
    }
}

//! Requests of every protocol, and answers of a service that speaks gRPC alone.

mod grpc;
mod refused;
mod streams;
mod unary;

use std::{
    convert::Infallible,
    sync::{Arc, Mutex},
    time::Duration,
};

use bytes::Bytes;
use futures_util::{StreamExt, stream};
use http_body::Frame;
use http_body_util::{BodyExt, Full, StreamBody};
use leasehold_proto::v1::{
    AcquireOutcome, AcquireRequest, AcquireResponse, GetLockRequest, LockMode, WatchLocksRequest,
    WatchLocksResponse, WatchReady, watch_locks_response,
};
use prost::Message;
use serde_json::{Value, json};
use tonic::{
    Code, Status,
    body::Body,
    codegen::http::{HeaderMap, Request, Response, StatusCode, Version, header},
};
use tower::{Layer, ServiceExt, service_fn};

use super::{
    ConnectLayer,
    encoding::Encoding,
    envelope::{self, COMPRESSED, END_OF_STREAM},
};
use crate::{
    services::descriptors,
    status::{Reason, Refusal},
};

const ACQUIRE: &str = "/leasehold.v1.LockService/Acquire";
const SESSION: &str = "/leasehold.v1.LockService/Session";
const GET_LOCK: &str = "/leasehold.v1.AdminService/GetLock";
const WATCH: &str = "/leasehold.v1.AdminService/WatchLocks";
/// Most bytes of a message.
const LIMIT: usize = 10_000;

/// Request as a service received it: the headers, and the frames' bytes or the error in their place.
#[derive(Debug)]
struct Asked {
    headers: HeaderMap,
    body: Result<Bytes, Status>,
}

/// Answer of HTTP.
#[derive(Debug)]
struct Answered {
    status: StatusCode,
    headers: HeaderMap,
    body: Bytes,
}

impl Answered {
    fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap()
    }

    fn header(&self, name: &str) -> &str {
        let value = self.headers.get(name);
        value.map_or("", |value| value.to_str().unwrap())
    }

    /// Returns the messages of a stream: their flags, and what they say.
    fn messages(&self) -> Vec<(u8, Bytes)> {
        let mut buffer = self.body.as_ref().into();
        let mut messages = Vec::new();
        while let Some(message) = envelope::take(&mut buffer, usize::MAX).unwrap() {
            messages.push(message);
        }
        assert!(buffer.is_empty());
        messages
    }

    /// Returns the last message of a stream.
    fn end(&self) -> Value {
        let (flags, end) = self.messages().pop().unwrap();
        assert_eq!(flags, END_OF_STREAM);
        serde_json::from_slice(&end).unwrap()
    }
}

fn layer() -> ConnectLayer {
    let layer = ConnectLayer::new(descriptors().unwrap(), LIMIT);
    layer.allow_origins(|origin, _| origin == "https://app.example")
}

/// Serves a request by a service that answers `answer` once it has read everything. Returns what it was asked, unless it was not.
async fn serve(
    request: Request<Body>,
    answer: impl FnOnce() -> Response<Body> + Send + 'static,
) -> (Option<Asked>, Answered) {
    let asked = Arc::new(Mutex::new(None));
    let (seen, answer) = (Arc::clone(&asked), Arc::new(Mutex::new(Some(answer))));
    let service = service_fn(move |request: Request<Body>| {
        let (seen, answer) = (Arc::clone(&seen), Arc::clone(&answer));
        async move {
            let (head, body) = request.into_parts();
            let body = body.collect().await.map(|body| body.to_bytes());
            let failed = body.as_ref().err().map(|status| {
                Status::with_details(
                    status.code(),
                    status.message(),
                    Bytes::copy_from_slice(status.details()),
                )
            });
            let headers = head.headers;
            *seen.lock().unwrap() = Some(Asked { headers, body });
            // As tonic does with a request that it can't read.
            let response = match failed {
                Some(status) => status.into_http(),
                None => (answer.lock().unwrap().take().unwrap())(),
            };
            Ok::<_, Infallible>(response)
        }
    });
    let response = layer().layer(service).oneshot(request).await.unwrap();
    let (head, body) = response.into_parts();
    let answered = Answered {
        status: head.status,
        headers: head.headers,
        body: body.collect().await.unwrap().to_bytes(),
    };
    let asked = asked.lock().unwrap().take();
    (asked, answered)
}

/// Returns a request with this body.
fn post(path: &str, headers: &[(&str, &str)], body: impl Into<Bytes>) -> Request<Body> {
    let mut request = Request::post(path).version(Version::HTTP_11);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    request.body(Body::new(Full::new(body.into()))).unwrap()
}

fn get(path: &str, query: &str) -> Request<Body> {
    let uri = format!("{path}?{query}");
    Request::get(uri).body(Body::empty()).unwrap()
}

const JSON: (&str, &str) = ("content-type", "application/json");
const PROTO: (&str, &str) = ("content-type", "application/proto");
const STREAM: (&str, &str) = ("content-type", "application/connect+json");

/// Returns gRPC's answer with these messages and a status.
fn grpc(messages: &[Vec<u8>], trailers: HeaderMap) -> Response<Body> {
    let frames = messages.iter().map(|message| envelope::wrap(0, message));
    let mut frames: Vec<_> = frames.map(Frame::data).collect();
    frames.push(Frame::trailers(trailers));
    let frames = stream::iter(frames.into_iter().map(Ok::<_, Status>));
    let mut response = Response::new(Body::new(StreamBody::new(frames)));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, "application/grpc".parse().unwrap());
    headers.insert("x-leads", "1".parse().unwrap());
    response
}

fn ok() -> HeaderMap {
    let mut trailers = HeaderMap::new();
    trailers.insert("grpc-status", "0".parse().unwrap());
    trailers.insert("x-trails", "2".parse().unwrap());
    trailers.insert("x-trails-bin", "AAE".parse().unwrap());
    trailers
}

fn granted() -> Response<Body> {
    let message = AcquireResponse {
        outcome: AcquireOutcome::Granted.into(),
        owner_id: vec![0xfb, 0xff],
        fencing_token: 1 << 60,
        ..AcquireResponse::default()
    };
    grpc(&[message.encode_to_vec()], ok())
}

/// Returns the request that a service reads in a frame.
fn message<M: Message + Default>(asked: Asked) -> M {
    let mut buffer = asked.body.unwrap().as_ref().into();
    let (flags, message) = envelope::take(&mut buffer, usize::MAX).unwrap().unwrap();
    assert!(flags == 0 && buffer.is_empty());
    M::decode(message).unwrap()
}

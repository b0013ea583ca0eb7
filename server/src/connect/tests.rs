//! Requests of every protocol, and answers of a service that speaks gRPC alone.
#![expect(clippy::unwrap_used, reason = "tests")]

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
    layer.allow_origins(|origin| origin == "https://app.example")
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

#[tokio::test]
async fn a_unary_call_in_json_is_one_of_grpc() {
    let said = r#"{"name":"demo","ttl":"10.5s","client_name":"me","mode":"LOCK_MODE_SHARED","value":"-_8"}"#;
    let headers = [JSON, ("connect-timeout-ms", "5000"), ("x-mine", "yes")];
    let (asked, answered) = serve(post(ACQUIRE, &headers, said), granted).await;
    let asked = asked.unwrap();
    assert_eq!(asked.headers["content-type"], "application/grpc");
    assert_eq!(asked.headers["te"], "trailers");
    assert_eq!(asked.headers["grpc-timeout"], "5000m");
    assert_eq!(asked.headers["x-mine"], "yes");
    let request: AcquireRequest = message(asked);
    let ttl = request.ttl.unwrap();
    assert_eq!((ttl.seconds, ttl.nanos), (10, 500_000_000));
    assert_eq!((&*request.name, &*request.client_name), ("demo", "me"));
    assert_eq!(request.mode, i32::from(LockMode::Shared));
    assert_eq!(request.value, [0xfb, 0xff]);

    assert_eq!(answered.status, StatusCode::OK);
    assert_eq!(answered.header("content-type"), "application/json");
    assert_eq!(answered.header("x-leads"), "1");
    assert_eq!(answered.header("trailer-x-trails"), "2");
    assert_eq!(answered.header("trailer-x-trails-bin"), "AAE");
    assert!(
        answered
            .headers
            .keys()
            .all(|name| !name.as_str().contains("grpc"))
    );
    let expected = json!({
        "outcome": "ACQUIRE_OUTCOME_GRANTED",
        "ownerId": "+/8=",
        "fencingToken": "1152921504606846976",
    });
    assert_eq!(answered.json(), expected);
}

#[tokio::test]
async fn a_unary_call_in_binary_is_one_of_grpc() {
    let request = AcquireRequest {
        name: "demo".to_owned(),
        ..AcquireRequest::default()
    };
    let (asked, answered) = serve(post(ACQUIRE, &[PROTO], request.encode_to_vec()), granted).await;
    assert_eq!(message::<AcquireRequest>(asked.unwrap()), request);
    assert_eq!(answered.header("content-type"), "application/proto");
    let response = AcquireResponse::decode(answered.body).unwrap();
    assert_eq!(response.fencing_token, 1 << 60);
    // No bytes are an empty message.
    let (asked, _) = serve(post(ACQUIRE, &[PROTO], ""), granted).await;
    assert_eq!(
        message::<AcquireRequest>(asked.unwrap()),
        AcquireRequest::default()
    );
}

#[tokio::test]
async fn messages_that_are_none_of_the_method_are_refused() {
    let deep = |open: &str, close: &str| open.repeat(100_000) + &close.repeat(100_000);
    for (said, because) in [
        ("", "it is empty"),
        ("{", "EOF"),
        ("not json", "expected"),
        ("[]", "a map"),
        ("null", "a map"),
        ("{} {}", "trailing"),
        ("{\"name\":\"\u{fffd}\"}x", "trailing"),
        (r#"{"name":1}"#, "a string"),
        (r#"{"nam":"a"}"#, "'nam'"),
        (r#"{"name":"a","name":"b"}"#, "twice"),
        (r#"{"clientName":"a","client_name":"b"}"#, "twice"),
        (r#"{"nam":{"a":1,"a":2}}"#, "twice"),
        (r#"{"ttl":"soon"}"#, ""),
        (r#"{"ttl":"1e9s"}"#, ""),
        (r#"{"ttl":"999999999999999999999s"}"#, ""),
        (r#"{"mode":"LOCK_MODE_NEW"}"#, "LOCK_MODE_NEW"),
        (r#"{"mode":1e400}"#, "out of range"),
        (r#"{"mode":99999999999999999999}"#, ""),
        (r#"{"mode":1.5}"#, ""),
        (r#"{"value":"***"}"#, ""),
        (&deep("[", "]")[..LIMIT], "recursion"),
        (&deep("{\"a\":", "}")[..LIMIT], "recursion"),
    ] {
        let (asked, answered) = serve(post(ACQUIRE, &[JSON], said.to_owned()), granted).await;
        assert!(asked.unwrap().body.is_err(), "{said}");
        assert_eq!(answered.status, StatusCode::BAD_REQUEST, "{said}");
        let error = answered.json();
        assert_eq!(error["code"], "invalid_argument", "{said}");
        let message = error["message"].as_str().unwrap();
        assert!(message.contains(because), "{said}: {message}");
        assert!(message.len() < 500, "{message}");
        assert_eq!(error["details"][0]["debug"]["reason"], "UNKNOWN_REQUEST");
    }
    let (_, answered) = serve(post(ACQUIRE, &[PROTO], vec![0xff; 10]), granted).await;
    assert_eq!(answered.json()["code"], "invalid_argument");
    // Not UTF-8.
    let (_, answered) = serve(
        post(ACQUIRE, &[JSON], b"{\"name\":\"\xff\"}".to_vec()),
        granted,
    )
    .await;
    assert_eq!(answered.json()["code"], "invalid_argument");
}

#[tokio::test]
async fn fields_of_maps_and_other_objects_may_have_equal_names() {
    // Each list item is an object of its own, as is each value of a map.
    let said =
        r#"{"open":{"metadata":{"open":"a","metadata":"b"},"resume":[{"name":"a"},{"name":"a"}]}}"#;
    let body = envelope::wrap(0, said.as_bytes());
    let mut request = post(SESSION, &[STREAM], body);
    *request.version_mut() = Version::HTTP_2;
    let (asked, _) = serve(request, || grpc(&[], ok())).await;
    let request: leasehold_proto::v1::SessionRequest = message(asked.unwrap());
    let Some(leasehold_proto::v1::session_request::Request::Open(open)) = request.request else {
        return assert!(request.request.is_some(), "it opens");
    };
    assert_eq!((open.metadata.len(), open.resume.len()), (2, 2));
}

#[tokio::test]
async fn errors_have_their_code_status_message_and_details() {
    let refusal = Refusal::over(
        Reason::RateLimited,
        ("max-requests-per-second", 5),
        Some(Duration::from_millis(1500)),
        "too many: 100 %",
    );
    let fails = move || Status::from(refusal).into_http();
    let (_, answered) = serve(post(ACQUIRE, &[PROTO], ""), fails).await;
    assert_eq!(answered.status, StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(answered.header("content-type"), "application/json");
    let error = answered.json();
    assert_eq!(error["code"], "resource_exhausted");
    assert_eq!(error["message"], "too many: 100 %");
    let details = error["details"].as_array().unwrap();
    let types: Vec<_> = details.iter().map(|detail| &detail["type"]).collect();
    assert_eq!(types, ["google.rpc.RetryInfo", "google.rpc.ErrorInfo"]);
    assert_eq!(details[0]["debug"], json!({"retryDelay": "1.500s"}));
    assert_eq!(details[1]["debug"]["domain"], "leasehold");
    let value = details[0]["value"].as_str().unwrap();
    assert!(!value.contains('='), "{value} has no padding");

    // Within trailers, after data.
    let mut trailers = HeaderMap::new();
    trailers.insert("grpc-status", "5".parse().unwrap());
    trailers.insert("grpc-message", "no%20lock".parse().unwrap());
    trailers.insert("x-why", "that".parse().unwrap());
    let (_, answered) = serve(post(ACQUIRE, &[JSON], "{}"), move || grpc(&[], trailers)).await;
    assert_eq!(answered.status, StatusCode::NOT_FOUND);
    assert_eq!(answered.header("trailer-x-why"), "that");
    assert_eq!(
        answered.json(),
        json!({"code": "not_found", "message": "no lock"})
    );

    // Answers that are not gRPC's.
    for answer in [
        || grpc(&[], ok()),
        || grpc(&[vec![], vec![]], ok()),
        || grpc(&[vec![]], HeaderMap::new()),
        || grpc(&[vec![0xff; 9]], ok()),
    ] {
        let (_, answered) = serve(post(ACQUIRE, &[JSON], "{}"), answer).await;
        assert_eq!(answered.json()["code"], "internal");
    }
}

#[tokio::test]
async fn requests_that_are_no_calls_get_their_status_of_http() {
    let with = |method: &str, path: &str, content_type: &str| {
        let request = Request::builder().method(method).uri(path);
        let request = request.header("content-type", content_type);
        request.body(Body::empty()).unwrap()
    };
    for (request, status, code, header) in [
        (with("POST", "/", JSON.1), 404, "unimplemented", ""),
        (with("GET", "/a.B/C", ""), 404, "unimplemented", ""),
        (with("GET", ACQUIRE, ""), 405, "unknown", "allow"),
        (with("DELETE", GET_LOCK, JSON.1), 405, "unknown", "allow"),
        (with("HEAD", GET_LOCK, ""), 405, "unknown", "allow"),
        (with("GET", WATCH, ""), 405, "unknown", "allow"),
        (with("POST", ACQUIRE, ""), 415, "", "accept-post"),
        (with("POST", ACQUIRE, "image/jpeg"), 415, "", "accept-post"),
        (
            with("POST", ACQUIRE, "application/xml"),
            415,
            "",
            "accept-post",
        ),
        (with("POST", ACQUIRE, STREAM.1), 415, "", "accept-post"),
        (with("POST", WATCH, JSON.1), 415, "", "accept-post"),
        (
            with("POST", ACQUIRE, "application/json; charset=x"),
            415,
            "",
            "accept-post",
        ),
        (
            with("POST", ACQUIRE, "application/grpc-web+json"),
            415,
            "",
            "",
        ),
        (with("POST", ACQUIRE, "application/grpc+json"), 415, "", ""),
        (with("POST", ACQUIRE, "application/grpcs"), 415, "", ""),
        (
            get(GET_LOCK, "encoding=xml&message="),
            415,
            "",
            "accept-post",
        ),
        (
            with("DELETE", ACQUIRE, "application/grpc"),
            405,
            "",
            "allow",
        ),
        (
            with("GET", ACQUIRE, "application/grpc-web"),
            405,
            "",
            "allow",
        ),
        // gRPC needs HTTP/2, and so does a stream both ways.
        (
            with("POST", ACQUIRE, "application/grpc"),
            505,
            "",
            "connection",
        ),
        (
            with("POST", SESSION, STREAM.1),
            505,
            "unimplemented",
            "connection",
        ),
        (
            with("POST", SESSION, "application/grpc-web"),
            505,
            "",
            "connection",
        ),
    ] {
        let shown = format!("{request:?}");
        let (asked, answered) = serve(request, granted).await;
        assert!(asked.is_none(), "{shown}");
        assert_eq!(answered.status, status, "{shown}");
        // Whoever may not speak Connect gets text.
        if code.is_empty() {
            assert_eq!(answered.header("content-type"), "text/plain", "{shown}");
            assert!(answered.body.ends_with(b"\n"), "{shown}");
        } else {
            assert_eq!(answered.json()["code"], code, "{shown}");
        }
        assert!(
            header.is_empty() || answered.headers.contains_key(header),
            "{shown}"
        );
    }
    let large = "x".repeat(17_000);
    let (asked, answered) = serve(post(ACQUIRE, &[JSON, ("x", &large)], "{}"), granted).await;
    assert!(asked.is_none());
    assert_eq!(answered.status, StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE);
}

#[tokio::test]
async fn heads_of_calls_that_make_no_sense_are_refused_as_calls() {
    for (headers, code) in [
        (
            [JSON, ("connect-protocol-version", "2")],
            "invalid_argument",
        ),
        ([JSON, ("connect-timeout-ms", "soon")], "invalid_argument"),
        ([JSON, ("content-encoding", "br")], "unimplemented"),
    ] {
        let (asked, answered) = serve(post(ACQUIRE, &headers, "{}"), granted).await;
        assert!(asked.is_none());
        assert_eq!(answered.json()["code"], code, "{headers:?}");
    }
    let headers = [JSON, ("content-encoding", "br")];
    let (_, answered) = serve(post(ACQUIRE, &headers, "{}"), granted).await;
    assert_eq!(answered.status, StatusCode::NOT_IMPLEMENTED);
    let error = answered.json();
    let message = error["message"].as_str().unwrap();
    assert!(message.contains("gzip, identity"), "{message}");
    // A stream's errors are in the stream.
    for (headers, code) in [
        ([STREAM, ("connect-timeout-ms", "-1")], "invalid_argument"),
        (
            [STREAM, ("connect-content-encoding", "br")],
            "unimplemented",
        ),
    ] {
        let (asked, answered) = serve(post(WATCH, &headers, ""), granted).await;
        assert!(asked.is_none());
        assert_eq!(answered.status, StatusCode::OK);
        assert_eq!(answered.header("content-type"), STREAM.1);
        assert_eq!(answered.messages().len(), 1);
        assert_eq!(answered.end()["error"]["code"], code, "{headers:?}");
    }
}

#[tokio::test]
async fn a_call_ends_at_its_time() {
    let headers = [JSON, ("connect-timeout-ms", "10")];
    let service = service_fn(|_| std::future::pending::<Result<Response<Body>, Infallible>>());
    let service = layer().layer(service);
    let response = service
        .clone()
        .oneshot(post(ACQUIRE, &headers, "{}"))
        .await
        .unwrap();
    assert_eq!(response.status(), StatusCode::GATEWAY_TIMEOUT);
    let headers = [STREAM, ("connect-timeout-ms", "10")];
    let body = envelope::wrap(0, b"{}");
    let response = service
        .oneshot(post(WATCH, &headers, body.clone()))
        .await
        .unwrap();
    assert_eq!(response.status(), StatusCode::OK);
    // A stream that has begun ends too.
    let endless = service_fn(|_| async {
        let message = envelope::wrap(0, &WatchLocksResponse::default().encode_to_vec());
        let frames = stream::iter([Ok::<_, Status>(Frame::data(message))]);
        let body = StreamBody::new(frames.chain(stream::pending()));
        Ok::<_, Infallible>(Response::new(Body::new(body)))
    });
    let request = post(WATCH, &headers, body);
    let response = layer().layer(endless).oneshot(request).await.unwrap();
    let answered = Answered {
        status: response.status(),
        headers: HeaderMap::new(),
        body: response.into_body().collect().await.unwrap().to_bytes(),
    };
    assert_eq!(answered.messages()[0], (0, Bytes::from_static(b"{}")));
    assert_eq!(answered.end()["error"]["code"], "deadline_exceeded");
}

#[tokio::test]
async fn streams_have_prefixes_and_end_with_their_status() {
    let events = || {
        let ready = WatchReady { lock_count: 3 };
        let ready = watch_locks_response::Response::Ready(ready);
        let ready = WatchLocksResponse {
            response: Some(ready),
        };
        grpc(&[ready.encode_to_vec(), ready.encode_to_vec()], ok())
    };
    let body = envelope::wrap(0, br#"{"prefix":"a/"}"#);
    let (asked, answered) = serve(post(WATCH, &[STREAM], body.clone()), events).await;
    assert_eq!(message::<WatchLocksRequest>(asked.unwrap()).prefix, "a/");
    assert_eq!(answered.header("content-type"), STREAM.1);
    assert_eq!(answered.header("x-leads"), "1");
    let messages = answered.messages();
    assert_eq!(messages.len(), 3);
    for (flags, message) in &messages[..2] {
        assert_eq!(*flags, 0);
        let message: Value = serde_json::from_slice(message).unwrap();
        assert_eq!(message, json!({"ready": {"lockCount": "3"}}));
    }
    let metadata = json!({"x-trails": ["2"], "x-trails-bin": ["AAE"]});
    assert_eq!(answered.end(), json!({"metadata": metadata}));

    // A refusal before the first message, whose metadata trail.
    let refused = || {
        let mut response = Status::unavailable("later").into_http();
        response
            .headers_mut()
            .insert("x-why", "that".parse().unwrap());
        response
    };
    let (_, answered) = serve(post(WATCH, &[STREAM], body), refused).await;
    assert_eq!(answered.status, StatusCode::OK);
    let expected = json!({
        "error": {"code": "unavailable", "message": "later"},
        "metadata": {"x-why": ["that"]},
    });
    assert_eq!(answered.end(), expected);
}

#[tokio::test]
async fn a_stream_of_answers_takes_one_message() {
    let one = envelope::wrap(0, b"{}");
    for (body, code, says) in [
        (Bytes::new(), "unimplemented", "none"),
        (
            [&*one, &*one].concat().into(),
            "unimplemented",
            "more than one",
        ),
        (one.slice(..6), "invalid_argument", "ended within"),
        (one.slice(..3), "invalid_argument", "ended within"),
        (
            envelope::wrap(COMPRESSED, b"{}"),
            "internal",
            "name no encoding",
        ),
        (
            envelope::wrap(END_OF_STREAM, b"{}"),
            "invalid_argument",
            "flags",
        ),
        (envelope::wrap(0, b"{"), "invalid_argument", "EOF"),
        (
            envelope::wrap(0, &vec![b' '; LIMIT + 1]),
            "out_of_range",
            "larger",
        ),
    ] {
        let (asked, answered) = serve(post(WATCH, &[STREAM], body), granted).await;
        assert!(asked.unwrap().body.is_err());
        let error = &answered.end()["error"];
        assert_eq!(error["code"], code, "{error}");
        assert!(error["message"].as_str().unwrap().contains(says), "{error}");
    }
}

#[tokio::test]
async fn messages_are_compressed_both_ways() {
    let name = "n".repeat(400);
    let said = format!(r#"{{"name":"{name}"}}"#);
    let packed = Encoding::Gzip.encode(said.as_bytes()).unwrap();
    let large = || {
        let message = AcquireResponse {
            owner_id: vec![7; 1000],
            ..AcquireResponse::default()
        };
        grpc(&[message.encode_to_vec()], ok())
    };
    // A client that says nothing of answers accepts what it sends.
    let headers = [JSON, ("content-encoding", "gzip")];
    let (asked, answered) = serve(post(ACQUIRE, &headers, packed.clone()), large).await;
    assert_eq!(message::<AcquireRequest>(asked.unwrap()).name, name);
    assert_eq!(answered.header("content-encoding"), "gzip");
    let plain = Encoding::Gzip.decode(answered.body, LIMIT).unwrap();
    assert!(plain.starts_with(b"{\"ownerId\":\"Bwc"));
    let headers = [
        JSON,
        ("content-encoding", "gzip"),
        ("accept-encoding", "br"),
    ];
    let (_, answered) = serve(post(ACQUIRE, &headers, packed.clone()), large).await;
    assert_eq!(answered.header("content-encoding"), "");
    assert!(answered.body.starts_with(b"{"));

    // In a stream, each message by itself.
    let said = format!(r#"{{"prefix":"{name}"}}"#);
    let packed = Encoding::Gzip.encode(said.as_bytes()).unwrap();
    let gap = || {
        let message = "g".repeat(1000);
        let gap = leasehold_proto::v1::WatchGap { message };
        let gap = WatchLocksResponse {
            response: Some(watch_locks_response::Response::Gap(gap)),
        };
        grpc(&[gap.encode_to_vec(), vec![]], ok())
    };
    let headers = [STREAM, ("connect-content-encoding", "gzip")];
    let body = envelope::wrap(COMPRESSED, &packed);
    let (asked, answered) = serve(post(WATCH, &headers, body), gap).await;
    assert_eq!(message::<WatchLocksRequest>(asked.unwrap()).prefix, name);
    assert_eq!(answered.header("connect-content-encoding"), "gzip");
    let messages = answered.messages();
    let flags: Vec<_> = messages.iter().map(|(flags, _)| *flags).collect();
    assert_eq!(flags, [COMPRESSED, 0, END_OF_STREAM]);
    let gap = Encoding::Gzip.decode(messages[0].1.clone(), LIMIT).unwrap();
    assert!(gap.starts_with(b"{\"gap\""));
}

#[tokio::test]
async fn messages_are_bounded_as_sent_and_decompressed() {
    let fits = format!("{{{}}}", " ".repeat(LIMIT - 2));
    let (asked, _) = serve(post(ACQUIRE, &[JSON], fits.clone()), granted).await;
    assert!(asked.unwrap().body.is_ok());
    let headers = [JSON, ("content-encoding", "gzip")];
    let packed = Encoding::Gzip.encode(fits.as_bytes()).unwrap();
    let (asked, _) = serve(post(ACQUIRE, &headers, packed), granted).await;
    assert!(asked.unwrap().body.is_ok());

    let bomb = Encoding::Gzip.encode(&vec![b' '; 1 << 20]).unwrap();
    assert!(bomb.len() < LIMIT);
    for (headers, body) in [
        (&[JSON][..], Bytes::from(format!(" {fits}"))),
        (&[PROTO], vec![0; LIMIT + 1].into()),
        (&headers, bomb),
    ] {
        let (asked, answered) = serve(post(ACQUIRE, headers, body), granted).await;
        assert!(asked.unwrap().body.is_err());
        // As tonic's own of a gRPC message that is too large, for which the layers behind have words.
        assert_eq!(answered.json()["code"], "out_of_range");
    }
}

#[tokio::test]
async fn methods_without_side_effects_are_called_by_get() {
    let lock = || grpc(&[vec![]], ok());
    for query in [
        "encoding=json&message=%7B%22name%22%3A%22a%22%7D",
        "connect=v1&base64=1&encoding=proto&message=CgFh&other=1",
        "message=eyJuYW1lIjoiYSJ9&base64=1&encoding=json",
    ] {
        let (asked, answered) = serve(get(GET_LOCK, query), lock).await;
        assert_eq!(
            message::<GetLockRequest>(asked.unwrap()).name,
            "a",
            "{query}"
        );
        assert_eq!(answered.status, StatusCode::OK);
        assert_eq!(answered.header("cache-control"), "no-store");
        assert!(
            answered
                .headers
                .get_all("vary")
                .iter()
                .any(|value| value == "accept-encoding")
        );
    }
    for (query, code) in [
        ("encoding=json", "invalid_argument"),
        ("message=%7B%7D", "invalid_argument"),
        (
            "encoding=json&message=%7B%7D&connect=v2",
            "invalid_argument",
        ),
        ("encoding=json&message=*&base64=1", "invalid_argument"),
        (
            "encoding=json&message=%7B%7D&compression=br",
            "unimplemented",
        ),
        ("encoding=json&message=", "invalid_argument"),
    ] {
        let (_, answered) = serve(get(GET_LOCK, query), lock).await;
        assert_eq!(answered.json()["code"], code, "{query}");
        assert_eq!(answered.header("cache-control"), "no-store");
    }
}

#[tokio::test]
async fn grpc_passes_as_it_is() {
    let headers = [
        ("content-type", "application/grpc+proto"),
        ("grpc-timeout", "1S"),
        ("accept-encoding", "gzip"),
    ];
    let mut request = post(ACQUIRE, &headers, "anything");
    *request.version_mut() = Version::HTTP_2;
    let sent = request.headers().clone();
    let (asked, answered) = serve(request, granted).await;
    let asked = asked.unwrap();
    assert_eq!(
        (asked.headers, asked.body.unwrap()),
        (sent, "anything".into())
    );
    assert_eq!(answered.header("content-type"), "application/grpc");
    assert!(!answered.headers.contains_key("vary"));
    assert_eq!(answered.body[0], 0);
}

#[tokio::test]
async fn requests_over_http2_that_only_look_like_grpc_are_refused() {
    for (method, content_type, status) in [
        ("DELETE", "application/grpc", 405),
        ("GET", "application/grpc+proto", 405),
        ("POST", "application/grpc+json", 415),
        ("POST", "application/grpc+protobuf", 415),
        ("POST", "application/grpc;charset=utf-8", 200),
        ("POST", "application/grpc+proto;charset=utf-8", 200),
    ] {
        let mut request = post(ACQUIRE, &[("content-type", content_type)], "");
        *request.version_mut() = Version::HTTP_2;
        *request.method_mut() = method.parse().unwrap();
        let (asked, answered) = serve(request, granted).await;
        assert_eq!(answered.status, status, "{method} {content_type}");
        assert_eq!(asked.is_some(), status == 200, "{method} {content_type}");
    }
}

#[tokio::test]
async fn a_call_of_grpc_web_has_one_message() {
    let headers = [("content-type", "application/grpc-web")];
    let one = envelope::wrap(0, b"");
    for path in [ACQUIRE, WATCH] {
        for body in [Bytes::new(), [&*one, &*one].concat().into()] {
            let (asked, _) = serve(post(path, &headers, body), granted).await;
            let status = asked.unwrap().body.unwrap_err();
            assert_eq!(status.code(), Code::Unimplemented, "{path}: {status}");
        }
    }
    // A session has many.
    let mut request = post(SESSION, &headers, [&*one, &*one].concat());
    *request.version_mut() = Version::HTTP_2;
    let (asked, _) = serve(request, granted).await;
    assert_eq!(asked.unwrap().body.unwrap().len(), 10);
    // A method that does not exist is tonic's to answer.
    let (asked, _) = serve(post("/a.B/C", &headers, one), granted).await;
    assert!(asked.is_some());
}

#[tokio::test(start_paused = true)]
async fn a_call_of_grpc_web_ends_at_its_time_and_in_its_protocol() {
    let service = service_fn(|_| std::future::pending::<Result<Response<Body>, Infallible>>());
    let headers = [
        ("content-type", "application/grpc-web"),
        ("grpc-timeout", "10m"),
    ];
    // Whether its request is complete or not.
    for body in [
        Body::empty(),
        Body::new(StreamBody::new(stream::pending::<
            Result<Frame<Bytes>, Status>,
        >())),
    ] {
        let request = post(ACQUIRE, &headers, "").map(|_| body);
        let begun = tokio::time::Instant::now();
        let response = layer().layer(service).oneshot(request).await.unwrap();
        assert_eq!(
            response.headers()["content-type"],
            "application/grpc-web+proto"
        );
        assert_eq!(response.headers()["grpc-status"], "4");
        assert!(begun.elapsed() < Duration::from_millis(20));
    }
}

#[tokio::test]
async fn grpc_web_is_one_of_grpc() {
    let frame = envelope::wrap(0, &AcquireRequest::default().encode_to_vec());
    let headers = [("content-type", "application/grpc-web+proto")];
    let (asked, answered) = serve(post(ACQUIRE, &headers, frame), granted).await;
    let asked = asked.unwrap();
    assert_eq!(asked.headers["content-type"], "application/grpc");
    assert_eq!(message::<AcquireRequest>(asked), AcquireRequest::default());
    assert_eq!(
        answered.header("content-type"),
        "application/grpc-web+proto"
    );
    let mut buffer = answered.body.as_ref().into();
    envelope::take(&mut buffer, LIMIT).unwrap().unwrap();
    let (flags, trailers) = envelope::take(&mut buffer, LIMIT).unwrap().unwrap();
    assert_eq!(flags, 0x80);
    assert!(trailers.starts_with(b"grpc-status:0"), "{trailers:?}");
}

#[tokio::test]
async fn web_pages_of_other_origins_may_not_call() {
    let from = |origin| [JSON, ("origin", origin)];
    let (asked, answered) = serve(post(ACQUIRE, &from("https://app.example"), "{}"), granted).await;
    assert!(asked.is_some());
    assert_eq!(
        answered.header("access-control-allow-origin"),
        "https://app.example"
    );
    for origin in ["https://evil.example", "null", ""] {
        let (asked, answered) = serve(post(ACQUIRE, &from(origin), "{}"), granted).await;
        assert!(asked.is_none(), "{origin}");
        assert_eq!(answered.status, StatusCode::FORBIDDEN);
        assert_eq!(answered.json()["code"], "permission_denied");
        assert_eq!(answered.header("access-control-allow-origin"), "");
    }
    let preflight = |origin| {
        let request = Request::options(ACQUIRE).header("origin", origin);
        let request = request.header("access-control-request-method", "POST");
        let asks = "content-type,authorization,connect-protocol-version";
        let request = request.header("access-control-request-headers", asks);
        request.body(Body::empty()).unwrap()
    };
    let (asked, answered) = serve(preflight("https://app.example"), granted).await;
    assert!(asked.is_none());
    assert_eq!(answered.status, StatusCode::OK);
    assert_eq!(
        answered.header("access-control-allow-origin"),
        "https://app.example"
    );
    assert_eq!(answered.header("access-control-allow-methods"), "GET,POST");
    let allowed = answered.header("access-control-allow-headers");
    assert!(allowed.contains("authorization"), "{allowed}");
    let (_, answered) = serve(preflight("https://evil.example"), granted).await;
    assert_eq!(answered.header("access-control-allow-origin"), "");
}

//! Plain client of HTTP/1.1 and HTTP/2: a connection for each request.

use std::time::Duration;

use bytes::{Buf, Bytes, BytesMut};
use http_body_util::{BodyExt, Full};
use hyper::{
    Request, Response,
    body::{Body, Incoming},
    client::conn,
    header::{HeaderMap, HeaderValue},
};
use hyper_util::rt::{TokioExecutor, TokioIo};
use leasehold_tests::{Coordinator, raw::PROMPT};
use serde_json::Value;
use tokio::{net::TcpStream, time::timeout};

pub(super) const JSON: (&str, &str) = ("content-type", "application/json");
pub(super) const PROTO: (&str, &str) = ("content-type", "application/proto");
pub(super) const STREAM: (&str, &str) = ("content-type", "application/connect+json");

/// Most bytes of a message, by default.
pub(super) const LARGEST: usize = 2 << 20;

pub(super) const ACQUIRE: &str = "/leasehold.v1.LockService/Acquire";
pub(super) const RENEW: &str = "/leasehold.v1.LockService/Renew";
pub(super) const RELEASE: &str = "/leasehold.v1.LockService/Release";
pub(super) const SESSION: &str = "/leasehold.v1.LockService/Session";
pub(super) const LEADER: &str = "/leasehold.v1.ElectionService/Leader";
pub(super) const OBSERVE: &str = "/leasehold.v1.ElectionService/Observe";
pub(super) const GET_LOCK: &str = "/leasehold.v1.AdminService/GetLock";
pub(super) const FORCE_RELEASE: &str = "/leasehold.v1.AdminService/ForceRelease";
pub(super) const LIST_LOCKS: &str = "/leasehold.v1.AdminService/ListLocks";
pub(super) const WATCH: &str = "/leasehold.v1.AdminService/WatchLocks";
pub(super) const HEALTH: &str = "/grpc.health.v1.Health/Check";

/// A version of HTTP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Version {
    One,
    Two,
}

pub(super) const BOTH: [Version; 2] = [Version::One, Version::Two];

/// Client of one coordinator.
#[derive(Clone, Debug)]
pub(super) struct Http {
    address: String,
    version: Version,
}

/// Answer to one request.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) headers: HeaderMap,
    pub(super) body: Bytes,
}

impl Answer {
    pub(super) fn json(&self) -> Value {
        match serde_json::from_slice(&self.body) {
            Ok(value) => value,
            Err(error) => panic!("{error} in {:?}", self.body),
        }
    }

    /// Returns the reason in an error's details.
    pub(super) fn reason(&self) -> String {
        reason(&self.json())
    }

    pub(super) fn header(&self, name: &str) -> &str {
        let value = self.headers.get(name).map(HeaderValue::to_str);
        value.map_or("", Result::unwrap)
    }
}

/// Returns the reason in the details of an error.
pub(super) fn reason(error: &Value) -> String {
    let details = error["details"].as_array().unwrap();
    let reasons = details.iter().map(|detail| &detail["debug"]["reason"]);
    let mut reasons = reasons.filter_map(Value::as_str);
    reasons.next().unwrap_or_default().to_owned()
}

impl Http {
    pub(super) fn of(coordinator: &Coordinator, version: Version) -> Self {
        Self::at(&coordinator.endpoint(), version)
    }

    /// Returns a client of the port at this URL.
    pub(super) fn at(endpoint: &str, version: Version) -> Self {
        let address = endpoint.trim_start_matches("http://").to_owned();
        Self { address, version }
    }

    pub(super) fn address(&self) -> &str {
        &self.address
    }

    /// Sends a request, and returns the beginning of its answer.
    pub(super) async fn open<B>(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: B,
    ) -> Response<Incoming>
    where
        B: Body<Data = Bytes> + Send + Unpin + 'static,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let uri = match self.version {
            Version::One => path.to_owned(),
            Version::Two => format!("http://{}{path}", self.address),
        };
        let mut request = Request::builder().method(method).uri(uri);
        if self.version == Version::One {
            request = request.header("host", &self.address);
        }
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(body).unwrap();
        let socket = TcpStream::connect(&self.address).await.unwrap();
        let socket = TokioIo::new(socket);
        let answered = async {
            match self.version {
                Version::One => {
                    let (mut client, connection) = conn::http1::handshake(socket).await?;
                    tokio::spawn(connection);
                    client.send_request(request).await
                }
                Version::Two => {
                    let handshake = conn::http2::handshake(TokioExecutor::new(), socket);
                    let (mut client, connection) = handshake.await?;
                    tokio::spawn(connection);
                    client.send_request(request).await
                }
            }
        };
        timeout(PROMPT, answered).await.unwrap().unwrap()
    }

    async fn ask(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: impl Into<Bytes>,
    ) -> Answer {
        let response = self.open(method, path, headers, Full::new(body.into()));
        let (head, body) = response.await.into_parts();
        let body = timeout(PROMPT, body.collect()).await.unwrap().unwrap();
        Answer {
            status: head.status.as_u16(),
            headers: head.headers,
            body: body.to_bytes(),
        }
    }

    /// Makes a unary call.
    pub(super) async fn post(
        &self,
        path: &str,
        headers: &[(&str, &str)],
        body: impl Into<Bytes>,
    ) -> Answer {
        self.ask("POST", path, headers, body).await
    }

    /// Makes a unary call in JSON that succeeds.
    pub(super) async fn call(&self, path: &str, message: &Value) -> Value {
        let answer = self.post(path, &[JSON], message.to_string()).await;
        assert_eq!(answer.status, 200, "{answer:?}");
        assert_eq!(answer.header("content-type"), "application/json");
        answer.json()
    }

    /// Makes a call of a method without side effects.
    pub(super) async fn get(&self, path: &str, query: &str) -> Answer {
        let path = format!("{path}?{query}");
        self.ask("GET", &path, &[], "").await
    }

    /// Sends a request of this method without a body.
    pub(super) async fn bare(&self, method: &str, path: &str, headers: &[(&str, &str)]) -> Answer {
        self.ask(method, path, headers, "").await
    }

    /// Opens a stream of answers in JSON.
    pub(super) async fn stream(&self, path: &str, message: &Value) -> Messages {
        let body = Full::new(wrap(message));
        Messages::of(self.open("POST", path, &[STREAM], body).await)
    }
}

/// Returns a message of a stream.
pub(super) fn wrap(message: &Value) -> Bytes {
    let message = message.to_string();
    let length = u32::try_from(message.len()).unwrap();
    [&[0], &length.to_be_bytes()[..], message.as_bytes()]
        .concat()
        .into()
}

/// Returns the flags and the contents of each frame.
pub(super) fn frames(mut body: Bytes) -> Vec<(u8, Bytes)> {
    let mut frames = Vec::new();
    while body.has_remaining() {
        let (flags, length) = (body.get_u8(), body.get_u32());
        frames.push((flags, body.split_to(length as usize)));
    }
    frames
}

/// Messages of a stream in JSON.
#[derive(Debug)]
pub(super) struct Messages {
    body: Incoming,
    read: BytesMut,
}

impl Messages {
    pub(super) fn of(response: Response<Incoming>) -> Self {
        assert_eq!(response.status(), 200);
        assert_eq!(response.headers()["content-type"], STREAM.1);
        Self {
            body: response.into_body(),
            read: BytesMut::new(),
        }
    }

    /// Returns the next message, and whether it is the last one.
    pub(super) async fn next(&mut self, limit: Duration) -> (bool, Value) {
        let next = timeout(limit, async {
            loop {
                if let Some(&[flags, a, b, c, d]) = self.read.first_chunk() {
                    let length = u32::from_be_bytes([a, b, c, d]) as usize;
                    if self.read.len() >= 5 + length {
                        self.read.advance(5);
                        let message = self.read.split_to(length);
                        return (flags == 2, serde_json::from_slice(&message).unwrap());
                    }
                }
                let frame = self.body.frame().await.expect("the stream goes on");
                let data = frame.unwrap().into_data().unwrap();
                self.read.extend_from_slice(&data);
            }
        });
        next.await.expect("a message comes in time")
    }

    /// Returns the next message of the method.
    pub(super) async fn message(&mut self) -> Value {
        let (is_last, message) = self.next(PROMPT).await;
        assert!(!is_last, "{message}");
        message
    }

    /// Returns the end of the stream, after which nothing comes.
    pub(super) async fn end(&mut self) -> Value {
        let (is_last, message) = self.next(PROMPT).await;
        assert!(is_last, "{message}");
        assert!(self.body.frame().await.is_none());
        message
    }
}

//! Client of WebSockets, whose sessions beat only if a test says so.

use std::{net::SocketAddr, time::Duration};

use futures_util::{SinkExt, StreamExt};
use leasehold_tests::{
    http::{self, SESSION},
    raw::PROMPT,
};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpStream,
    time::timeout,
};
use tokio_tungstenite::{
    WebSocketStream, client_async,
    tungstenite::{
        Error, Message,
        client::IntoClientRequest,
        handshake::client::Response,
        http::HeaderName,
        protocol::{CloseFrame, frame::coding::CloseCode},
    },
};

/// Connection of any kind.
pub(super) trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

/// WebSocket of one call.
pub(super) struct Socket {
    pub(super) socket: WebSocketStream<Box<dyn Stream>>,
    /// Number of the last request.
    requests: u64,
    /// Number of the last heartbeat.
    beats: u64,
}

/// Returns the address of an endpoint.
pub(super) fn address(endpoint: &str) -> SocketAddr {
    let (_, address) = endpoint.split_once("://").unwrap();
    address.parse().unwrap()
}

/// Asks for a WebSocket on this connection.
pub(super) async fn ask(
    stream: impl Stream + 'static,
    path: &str,
    headers: &[(&'static str, &str)],
) -> Result<(Socket, Response), Error> {
    let mut request = format!("ws://localhost{path}").into_client_request()?;
    for (name, value) in headers {
        let name = HeaderName::from_static(name);
        request.headers_mut().insert(name, value.parse().unwrap());
    }
    let stream: Box<dyn Stream> = Box::new(stream);
    let asked = timeout(PROMPT, client_async(request, stream));
    let (socket, response) = asked.await.expect("an answer comes in time")?;
    let socket = Socket {
        socket,
        requests: 0,
        beats: 0,
    };
    Ok((socket, response))
}

/// Asks for a session at this address.
pub(super) async fn dial(
    address: SocketAddr,
    headers: &[(&'static str, &str)],
) -> Result<(Socket, Response), Error> {
    let stream = TcpStream::connect(address).await.unwrap();
    ask(stream, SESSION, headers).await
}

impl Socket {
    /// Opens a session with this TTL.
    pub(super) async fn open(address: SocketAddr, ttl: Duration) -> Self {
        Self::open_with(address, json!({"ttl": seconds(ttl)})).await
    }

    pub(super) async fn open_with(address: SocketAddr, open: Value) -> Self {
        let (mut socket, _) = dial(address, &[]).await.unwrap();
        socket.say_open(open).await;
        socket
    }

    pub(super) async fn say_open(&mut self, open: Value) {
        let opened = self.ask(json!({"open": open})).await;
        assert!(opened["opened"]["sessionId"].is_string(), "{opened}");
    }

    /// Sends a request under the next number, which it returns.
    pub(super) async fn say(&mut self, mut request: Value) -> String {
        self.requests += 1;
        let id = self.requests.to_string();
        request["requestId"] = json!(id);
        self.text(request.to_string()).await;
        id
    }

    pub(super) async fn text(&mut self, text: impl Into<String>) {
        self.try_text(text).await.unwrap();
    }

    pub(super) async fn try_text(&mut self, text: impl Into<String>) -> Result<(), Error> {
        self.socket.send(Message::text(text.into())).await
    }

    /// Returns what comes next; pings are answered on the way.
    pub(super) async fn message(&mut self, limit: Duration) -> Message {
        let next = timeout(limit, async {
            loop {
                match self.socket.next().await {
                    Some(Ok(Message::Ping(_) | Message::Pong(_))) => {}
                    other => return other.expect("the WebSocket goes on").unwrap(),
                }
            }
        });
        next.await.expect("a message comes in time")
    }

    pub(super) async fn next(&mut self, limit: Duration) -> Value {
        let message = self.message(limit).await;
        serde_json::from_str(message.to_text().unwrap()).unwrap()
    }

    /// Sends a request, and returns its answer.
    pub(super) async fn ask(&mut self, request: Value) -> Value {
        let id = self.say(request).await;
        self.answer(&id, PROMPT).await
    }

    /// Returns the next answer to this request.
    pub(super) async fn answer(&mut self, id: &str, limit: Duration) -> Value {
        loop {
            let answer = self.next(limit).await;
            assert!(answer.get("end").is_none(), "{answer}");
            if answer["requestId"] == id {
                return answer;
            }
        }
    }

    /// Takes a lock that is free.
    pub(super) async fn acquire(&mut self, name: &str) -> Value {
        let granted = self.ask(json!({"acquire": {"name": name}})).await;
        granted_lock(&granted, name)
    }

    /// Waits in line for a lock. Returns the number of the request.
    pub(super) async fn queue(&mut self, name: &str) -> String {
        let id = self.say(json!({"acquire": {"name": name}})).await;
        let queued = self.answer(&id, PROMPT).await;
        assert_eq!(queued["queued"]["position"], "1", "{queued}");
        id
    }

    /// Returns the lock of this request once it is granted.
    pub(super) async fn granted(&mut self, id: &str, name: &str, limit: Duration) -> Value {
        granted_lock(&self.answer(id, limit).await, name)
    }

    pub(super) async fn beat(&mut self) {
        self.beats += 1;
        let sequence = self.beats.to_string();
        let beat = self.ask(json!({"heartbeat": {"sequence": sequence}})).await;
        assert_eq!(beat["heartbeat"]["ackedHeartbeat"], sequence, "{beat}");
    }

    /// Returns the end of the call and the close frame after it; what comes before is skipped.
    pub(super) async fn end(&mut self, limit: Duration) -> (Value, CloseFrame) {
        let end = loop {
            let mut message = self.next(limit).await;
            if let Some(end) = message.get_mut("end") {
                break end.take();
            }
        };
        let Message::Close(Some(close)) = self.message(limit).await else {
            panic!("no close frame after {end}");
        };
        (end, close)
    }

    /// Checks that the call ends with this code and reason, and how the WebSocket is closed.
    pub(super) async fn fails(&mut self, code: &str, reason: &str, close: CloseCode) {
        let (end, frame) = self.end(PROMPT).await;
        assert_eq!(end["error"]["code"], code, "{end}");
        assert_eq!(http::reason(&end["error"]), reason, "{end}");
        assert_eq!((frame.code, frame.reason.as_str()), (close, code));
    }
}

fn granted_lock(granted: &Value, name: &str) -> Value {
    let lock = &granted["granted"]["locks"][0];
    assert_eq!(lock["name"], name, "{granted}");
    lock.clone()
}

/// Returns a duration as JSON has it.
pub(super) fn seconds(duration: Duration) -> String {
    format!("{}s", duration.as_secs_f64())
}

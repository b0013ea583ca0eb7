//! Task of one WebSocket: it carries the messages of one call in both directions.

use std::{fmt, pin::pin, sync::Arc, time::Duration};

use bytes::{Bytes, BytesMut};
use futures_util::{
    FutureExt, Sink, SinkExt, Stream, StreamExt,
    stream::{SplitSink, SplitStream},
};
use http_body_util::BodyDataStream;
use serde::Deserialize;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    sync::oneshot,
    time::{Instant, sleep, timeout},
};
use tokio_tungstenite::{
    WebSocketStream,
    tungstenite::{
        Error, Message,
        error::ProtocolError,
        protocol::{CloseFrame, Role, WebSocketConfig, frame::coding::CloseCode},
    },
};
use tonic::{
    Status,
    body::Body,
    codegen::{
        Service, StdError,
        http::{Request, Response},
    },
};
use tower::ServiceExt;

use super::{
    super::{
        answer,
        call::{Call, Schema},
        envelope::{self, END_OF_STREAM},
        error::shown,
        request::RequestBody,
    },
    answering::Answering,
    requests::{self, Requests},
};
use crate::listener::{ConnectionHandle, Transport};

/// WebSocket of a call.
type Socket = Answering<Box<dyn Transport>>;

/// Bytes that a WebSocket buffers of what it reads. Sessions send little messages.
const READ_BUFFER: usize = 4 * 1024;
/// Longest time for each step of an orderly end: of the call, of the client's answer to the close frame, and of its connection.
const PATIENCE: Duration = Duration::from_millis(500);

/// Settings of WebSockets.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct Settings {
    /// Most bytes of a message.
    pub(in super::super) limit: usize,
    /// Time of silence after which a client is pinged. The listener ends a connection that stays silent.
    pub(in super::super) ping: Duration,
}

/// Way in which a client's messages ended.
enum Ending {
    /// By a close frame of the client.
    Closed,
    /// By something that the client must not send. The call is told why, and tells the client.
    Refused,
    /// With the connection.
    Broken,
}

/// Serves a call over a connection, once HTTP has let go of it. The task ends with the call or the connection. If it is dropped, the
/// call fails as with a broken connection.
pub(in super::super) async fn serve<S, B>(
    (handle, connection): (ConnectionHandle, oneshot::Receiver<Box<dyn Transport>>),
    call: Call,
    inner: S,
    request: Request<()>,
    schema: Arc<Schema>,
    settings: Settings,
) where
    S: Service<Request<Body>, Response = Response<B>>,
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<StdError> + fmt::Display,
{
    // Without an answer that reached the client's socket, the connection just ends.
    let Ok(connection) = connection.await else {
        return;
    };
    let config = WebSocketConfig::default()
        .read_buffer_size(READ_BUFFER)
        .write_buffer_size(0)
        .max_message_size(Some(settings.limit))
        .max_frame_size(Some(settings.limit));
    let socket = WebSocketStream::from_raw_socket(connection, Role::Server, Some(config)).await;
    let socket = Answering::new(socket);
    let (requests, received) = requests::queue();
    let received = RequestBody::new(Body::new(received), call.clone(), settings.limit);
    let request = request.map(|()| Body::new(received));
    let answers = async move {
        let response = match inner.oneshot(request).await {
            Ok(response) => answer::stream(call, response, None, &schema),
            Err(_) => {
                let failed = Status::internal("the service failed");
                answer::refused(&call, &failed, &schema)
            }
        };
        BodyDataStream::new(response.into_body())
    };
    let (mut sink, mut stream) = socket.split();
    let is_broken = {
        let reading = pin!(receive(&mut stream, &requests));
        let writing = pin!(send(
            answers.flatten_stream(),
            &mut sink,
            &handle,
            settings.ping
        ));
        tokio::select! {
            biased;
            is_broken = carry(reading, writing) => is_broken,
            // Also while the call takes no messages, and while nothing can be sent.
            _ = handle.ended() => true,
        }
    };
    if !is_broken {
        close(sink, stream).await;
    }
}

/// Carries messages both ways until the call or the connection has ended. Returns whether it was the connection.
async fn carry(
    mut reading: impl Future<Output = Ending> + Unpin,
    mut writing: impl Future<Output = ()> + Unpin,
) -> bool {
    tokio::select! {
        biased;
        ending = &mut reading => match ending {
            Ending::Broken => true,
            // The call ends by itself, with what it still says.
            Ending::Closed | Ending::Refused => {
                let _ = timeout(PATIENCE, writing).await;
                false
            }
        },
        () = &mut writing => {
            let ending = timeout(PATIENCE, reading).await;
            matches!(ending, Ok(Ending::Broken))
        }
    }
}

/// Reads the client's messages to their end. The library answers pings, one at a time.
async fn receive(stream: &mut SplitStream<Socket>, requests: &Requests) -> Ending {
    while let Some(message) = stream.next().await {
        let refused = match message {
            Ok(Message::Text(text)) => {
                requests.send(text.into()).await;
                continue;
            }
            Ok(Message::Close(_)) => {
                requests.end(Ok(()));
                // The next step sends the answer to it.
                continue;
            }
            Ok(Message::Ping(_) | Message::Pong(_) | Message::Frame(_)) => continue,
            Ok(Message::Binary(_)) => {
                Status::invalid_argument("it is binary; messages are JSON, as text")
            }
            // As tonic says it of gRPC's messages.
            Err(Error::Capacity(_)) => Status::out_of_range("the message is too large"),
            Err(Error::Protocol(ProtocolError::ResetWithoutClosingHandshake)) => {
                return Ending::Broken;
            }
            Err(error @ (Error::Protocol(_) | Error::Utf8(_))) => {
                Status::invalid_argument(shown(&error))
            }
            Err(_) => return Ending::Broken,
        };
        requests.end(Err(refused));
        return Ending::Refused;
    }
    Ending::Closed
}

/// Sends the answers and the end of the call, and pings a client that says nothing. It takes an answer only once the one before has
/// gone out: the call finds out by that which client does not read.
async fn send<E>(
    answers: impl Stream<Item = Result<Bytes, E>>,
    sink: &mut SplitSink<Socket, Message>,
    handle: &ConnectionHandle,
    ping: Duration,
) {
    let mut answers = pin!(answers);
    let mut pinged = Instant::now();
    let mut is_open = true;
    loop {
        let silence = handle.idle_for().min(pinged.elapsed());
        let messages = tokio::select! {
            biased;
            () = sleep(ping.saturating_sub(silence)) => {
                if silence < ping {
                    continue;
                }
                pinged = Instant::now();
                vec![Message::Ping(Bytes::new())]
            }
            answer = answers.next() => match answer {
                Some(Ok(answer)) => messages(answer),
                Some(Err(_)) | None => return,
            },
        };
        // The rest of a call is read, so that it ends by itself.
        if is_open {
            is_open = sent(sink, messages).await;
        }
    }
}

async fn sent<S: Sink<Message> + Unpin>(sink: &mut S, messages: Vec<Message>) -> bool {
    for message in messages {
        if sink.send(message).await.is_err() {
            return false;
        }
    }
    true
}

/// Returns the messages of a WebSocket for an answer in its envelope.
pub(super) fn messages(answer: Bytes) -> Vec<Message> {
    // The layer's own envelopes are complete.
    let Ok(Some((flags, json))) = envelope::take(&mut BytesMut::from(answer), usize::MAX) else {
        return Vec::new();
    };
    let json = String::from_utf8_lossy(&json).into_owned();
    if flags != END_OF_STREAM {
        return vec![Message::text(json)];
    }
    let end = Message::text(format!(r#"{{"end":{json}}}"#));
    vec![end, Message::Close(Some(close_frame(&json)))]
}

/// Part of the end of a call that decides how the WebSocket is closed.
#[derive(Deserialize)]
struct End {
    error: Option<Failure>,
}

#[derive(Deserialize)]
struct Failure {
    code: String,
}

/// Returns the close frame after the end of a call.
fn close_frame(end: &str) -> CloseFrame {
    let end = serde_json::from_str::<End>(end).ok();
    let failure = end.and_then(|end| end.error).map(|failure| failure.code);
    let code = match failure.as_deref() {
        None => CloseCode::Normal,
        Some("unavailable") => CloseCode::Away,
        Some("internal" | "unknown" | "data_loss") => CloseCode::Error,
        Some(_) => CloseCode::Policy,
    };
    CloseFrame {
        code,
        reason: failure.unwrap_or_default().into(),
    }
}

/// Closes a connection after all that was said, and reads what still comes: a close with unread data is a reset, and the client would
/// miss the last messages.
async fn close(sink: SplitSink<Socket, Message>, stream: SplitStream<Socket>) {
    // They are halves of one.
    let Ok(socket) = stream.reunite(sink) else {
        return;
    };
    let mut connection = socket.into_inner();
    let ended = async {
        connection.shutdown().await?;
        let mut unread = [0; 1024];
        while connection.read(&mut unread).await? > 0 {}
        std::io::Result::Ok(())
    };
    // A client that does neither is left to the kernel.
    let _ = timeout(PATIENCE, ended).await;
}

//! Handshakes, the queue of messages, and the bound on pongs; calls over real connections are in the suite `connect`.

use std::pin::pin;

use bytes::Bytes;
use futures_util::{FutureExt, StreamExt};
use http_body_util::BodyExt;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, duplex},
    task::unconstrained,
};
use tokio_tungstenite::{
    WebSocketStream,
    tungstenite::{Message, protocol::Role},
};
use tonic::{
    Status,
    body::Body,
    codegen::http::{Request, header, request::Parts},
};

use super::{
    answering::Answering,
    requests::{Received, queue},
    socket::messages,
    upgrade::{Upgrade, is_asked},
};
use crate::{
    connect::{
        call::Schema,
        envelope::{self, END_OF_STREAM},
    },
    services::descriptors,
};

const SESSION: &str = "/leasehold.v1.LockService/Session";

fn handshake(path: &str, more: &[(&str, &str)]) -> Parts {
    let mut request = Request::get(path)
        .header("host", "h")
        .header("connection", "keep-alive, Upgrade")
        .header("upgrade", "websocket")
        .header("sec-websocket-version", "13")
        .header("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ==");
    for (name, value) in more {
        request = request.header(*name, *value);
    }
    request.body(()).unwrap().into_parts().0
}

#[test]
fn a_handshake_is_answered_as_the_standard_says() {
    let schema = Schema::new(descriptors().unwrap());
    let mut head = handshake(SESSION, &[]);
    assert!(is_asked(&head, &Body::empty()));
    let upgrade = Upgrade::read(&mut head, &schema).unwrap().unwrap();
    let answer = upgrade.answer();
    assert_eq!(answer.status(), 101);
    // The example of RFC 6455.
    let accept = &answer.headers()["sec-websocket-accept"];
    assert_eq!(accept, "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
    assert!(!answer.headers().contains_key("sec-websocket-protocol"));
    let mut unary = handshake("/leasehold.v1.LockService/Acquire", &[]);
    assert!(Upgrade::read(&mut unary, &schema).is_none());
}

#[test]
fn the_call_gets_the_token_and_nothing_of_the_handshake() {
    let schema = Schema::new(descriptors().unwrap());
    let more = [
        ("sec-websocket-protocol", "leasehold.bearer.bGhfdA"),
        ("sec-websocket-protocol", "leasehold.v1"),
        ("sec-websocket-extensions", "permessage-deflate"),
        ("traceparent", "t"),
    ];
    let mut head = handshake(SESSION, &more);
    let upgrade = Upgrade::read(&mut head, &schema).unwrap().unwrap();
    let token = &head.headers[header::AUTHORIZATION];
    assert_eq!(token, "Bearer lh_t");
    assert!(token.is_sensitive());
    let mut names: Vec<_> = head.headers.keys().map(|name| name.as_str()).collect();
    names.sort_unstable();
    assert_eq!(
        names,
        ["authorization", "content-type", "te", "traceparent"]
    );
    let answer = upgrade.answer();
    assert_eq!(answer.headers()["sec-websocket-protocol"], "leasehold.v1");
    assert!(!answer.headers().contains_key("sec-websocket-extensions"));
}

/// Returns the messages until the body's end, and that.
async fn read(received: Received) -> (Vec<Bytes>, Option<Status>) {
    let mut received = pin!(received);
    let mut messages = Vec::new();
    while let Some(frame) = received.frame().await {
        match frame {
            Ok(frame) => messages.push(frame.into_data().unwrap()),
            Err(status) => return (messages, Some(status)),
        }
    }
    (messages, None)
}

#[tokio::test]
async fn only_an_end_that_the_client_meant_ends_its_requests_in_order() {
    let message = || Bytes::from_static(b"{}");
    let (requests, received) = queue();
    requests.send(message()).await;
    requests.end(Ok(()));
    let (messages, error) = read(received).await;
    assert_eq!(messages, [envelope::wrap(0, b"{}")]);
    assert!(error.is_none());

    let (requests, received) = queue();
    requests.send(message()).await;
    requests.end(Err(Status::invalid_argument("binary")));
    let (messages, error) = read(received).await;
    assert_eq!((messages.len(), error.unwrap().message()), (1, "binary"));

    let (requests, received) = queue();
    drop(requests);
    let (messages, error) = read(received).await;
    assert_eq!(messages.len(), 0);
    assert_eq!(error.unwrap().code(), tonic::Code::Unavailable);
}

#[tokio::test]
async fn messages_wait_for_the_call_in_a_bounded_queue() {
    let (requests, received) = queue();
    let mut sent = 0;
    // As small as they can be, and one that is larger than all of the queue.
    while requests.send(Bytes::new()).now_or_never().is_some() {
        sent += 1;
        assert!(sent < 100_000);
    }
    let large = Bytes::from(vec![b' '; 1 << 20]);
    let last = async {
        requests.send(large).await;
        requests.end(Ok(()));
    };
    let ((messages, error), ()) = tokio::join!(read(received), last);
    assert_eq!((messages.len(), error.is_none()), (sent + 1, true));
}

#[tokio::test]
async fn pings_are_not_read_while_their_answers_are_not() {
    // A whole number of pings and of their answers.
    const ROOM: usize = 6000;
    let (server, mut client) = duplex(ROOM);
    let socket = WebSocketStream::from_raw_socket(server, Role::Server, None).await;
    let mut socket = Answering::new(socket);
    // Masked with zeros.
    let ping = [0x89, 0x80, 0, 0, 0, 0];
    let mut pings = 0;
    loop {
        while unconstrained(client.write_all(&ping))
            .now_or_never()
            .is_some()
        {}
        match unconstrained(socket.next()).now_or_never() {
            Some(message) => assert!(message.unwrap().unwrap().is_ping()),
            None => break,
        }
        pings += 1;
        assert!(pings < ROOM, "the answers are kept without a bound");
    }
    let mut answers = vec![0; ROOM];
    client.read_exact(&mut answers).await.unwrap();
    assert!(unconstrained(socket.next()).now_or_never().is_some());
}

#[test]
fn an_end_is_no_message_of_a_stream() {
    let pool = descriptors().unwrap();
    for method in pool
        .services()
        .flat_map(|service| service.methods().collect::<Vec<_>>())
    {
        let output = method.output();
        assert!(output.get_field_by_json_name("end").is_none(), "{output:?}");
    }
    let text = |message: &Message| message.to_text().unwrap().to_owned();
    let said = messages(envelope::wrap(0, b"{}"));
    assert_eq!((said.len(), &*text(&said[0])), (1, "{}"));
    for (end, code, reason) in [
        ("{}", 1000, ""),
        (r#"{"error":{"code":"unavailable"}}"#, 1001, "unavailable"),
        (r#"{"error":{"code":"internal"}}"#, 1011, "internal"),
        (
            r#"{"error":{"code":"unauthenticated"}}"#,
            1008,
            "unauthenticated",
        ),
    ] {
        let said = messages(envelope::wrap(END_OF_STREAM, end.as_bytes()));
        assert_eq!(text(&said[0]), format!(r#"{{"end":{end}}}"#));
        let Message::Close(Some(frame)) = &said[1] else {
            unreachable!("{said:?}");
        };
        assert_eq!(u16::from(frame.code), code);
        assert_eq!(frame.reason.as_str(), reason);
    }
}

//! Streams that break the protocol: they end with the documented status, and do not disturb others.

use std::time::{Duration, Instant};

use leasehold_proto::v1::{
    SessionHeartbeat, SessionOpen, SessionRequest, SessionResponse,
    lock_service_client::LockServiceClient, session_request::Request, session_response::Response,
};
use leasehold_tests::{
    Coordinator, RawSession,
    raw::{self, PROMPT, acquire_request, connect, exclusive, parse, wire},
    raw_bytes::RawBytes,
};
use prost::Message;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};
use tonic::{Code, Status, Streaming, codegen::http::uri::PathAndQuery};

const TTL: Duration = Duration::from_secs(30);

fn assert_not_open(status: &Status, what: &str) {
    assert_eq!(
        status.code(),
        Code::FailedPrecondition,
        "{what}: {status:?}"
    );
    assert_eq!(raw::reason(status), "NOT_OPEN", "{what}");
}

/// Returns a holder whose lock must stay held whatever other clients do.
async fn holder(coordinator: &Coordinator) -> RawSession {
    let mut session = RawSession::open(&coordinator.endpoint(), TTL).await;
    session.acquire("held").await;
    session
}

async fn assert_held(mut holder: RawSession) {
    holder.heartbeat().await;
    let id = holder.ask("held", Some(Duration::ZERO)).await;
    let answer = holder.answer(id, PROMPT).await;
    assert!(matches!(answer, Response::NotGranted(_)), "{answer:?}");
    holder.close().await;
}

#[tokio::test]
async fn a_stream_that_does_not_begin_with_open_is_ended() {
    let coordinator = Coordinator::in_process();
    let holder = holder(&coordinator).await;
    for request in [
        Request::Heartbeat(SessionHeartbeat { sequence: 1 }),
        Request::Acquire(exclusive("free")),
    ] {
        let channel = connect(&coordinator.endpoint()).await;
        let mut session = RawSession::stream(channel).await.unwrap();
        session.send(request.clone()).await;
        let status = session.end(PROMPT).await.unwrap_err();
        assert_not_open(&status, &format!("{request:?} first"));
    }
    assert_held(holder).await;
}

#[tokio::test]
async fn a_second_open_is_refused_and_changes_nothing() {
    let coordinator = Coordinator::in_process();
    let holder = holder(&coordinator).await;
    let mut session = RawSession::open(&coordinator.endpoint(), TTL).await;
    let held = session.acquire("second open").await;
    let id = session.send(Request::Open(SessionOpen::default())).await;
    let failure = session.refusal(id, PROMPT).await;
    assert_eq!(failure.code, Code::FailedPrecondition as i32, "{failure:?}");
    assert_eq!(failure.reason, "ALREADY_OPEN", "{failure:?}");
    assert!(session.release(&held.lock).await);
    session.close().await;
    assert_held(holder).await;
}

#[tokio::test]
async fn a_request_id_still_in_flight_is_refused_and_its_acquire_left_alone() {
    let coordinator = Coordinator::in_process();
    let mut holder = holder(&coordinator).await;
    let mut session = RawSession::open(&coordinator.endpoint(), TTL).await;
    let waiting = session.ask("held", None).await;
    session.queued(waiting).await;
    let again = Request::Acquire(exclusive("free"));
    session.send_as(waiting, again).await;
    let failure = session.refusal(waiting, PROMPT).await;
    assert_eq!(failure.code, Code::InvalidArgument as i32, "{failure:?}");
    assert_eq!(failure.reason, "REQUEST_ID_IN_USE", "{failure:?}");
    holder.half_close();
    session.granted(waiting, PROMPT).await;
}

#[tokio::test]
async fn an_acquire_without_a_request_id_is_refused_and_takes_nothing() {
    let coordinator = Coordinator::in_process();
    let mut session = RawSession::open(&coordinator.endpoint(), TTL).await;
    let held = session.acquire("before").await;
    let acquire = Request::Acquire(exclusive("free"));
    session.send_as(0, acquire).await;
    let failure = session.refusal(0, PROMPT).await;
    assert_eq!(failure.code, Code::InvalidArgument as i32, "{failure:?}");
    assert_eq!(failure.reason, "INVALID_FIELD", "{failure:?}");
    assert_eq!(failure.field_violations[0].field, "request_id");
    // The lock is free, and the session goes on.
    session.acquire("free").await;
    assert!(session.release(&held.lock).await);
    session.close().await;
}

#[tokio::test]
async fn a_heartbeat_may_have_no_request_id_and_its_sequence_may_have_gaps() {
    let coordinator = Coordinator::in_process();
    let mut session = RawSession::open(&coordinator.endpoint(), TTL).await;
    for sequence in [1000, 2000] {
        let heartbeat = SessionHeartbeat { sequence };
        session.send_as(0, Request::Heartbeat(heartbeat)).await;
        match session.answer(0, PROMPT).await {
            Response::Heartbeat(ack) => assert_eq!(ack.acked_heartbeat, sequence),
            other => panic!("a heartbeat was answered by {other:?}"),
        }
    }
    let again = SessionHeartbeat { sequence: 2000 };
    session.send_as(7, Request::Heartbeat(again)).await;
    let failure = session.refusal(7, PROMPT).await;
    assert_eq!(failure.field_violations[0].field, "heartbeat.sequence");
    session.close().await;
}

/// Returns the status with which a stream ends, whatever it says before.
async fn end(mut answers: Streaming<Vec<u8>>) -> Status {
    let end = tokio::time::timeout(PROMPT, async {
        loop {
            match answers.message().await {
                Ok(Some(_)) => {}
                end => return end,
            }
        }
    });
    end.await.unwrap().expect_err("garbage ends the stream")
}

#[tokio::test]
async fn bytes_that_are_no_message_end_their_stream_only() {
    let coordinator = Coordinator::in_process();
    let mut holder = holder(&coordinator).await;
    let channel = connect(&coordinator.endpoint()).await;
    let mut beside = RawSession::open_on(channel.clone(), TTL).await;
    let kept = beside.acquire("beside").await;

    let open = SessionRequest {
        request_id: 1,
        request: Some(Request::Open(SessionOpen::default())),
        ..SessionRequest::default()
    };
    let session = PathAndQuery::from_static("/leasehold.v1.LockService/Session");
    for garbage in [
        vec![0xff; 64],
        vec![0x0a, 0x7f],
        b"GET / HTTP/1.1\r\n".to_vec(),
    ] {
        let messages = tokio_stream::iter([open.encode_to_vec(), garbage.clone()]);
        let mut client = tonic::client::Grpc::new(channel.clone());
        client.ready().await.unwrap();
        let request = tonic::Request::new(messages);
        let response = client.streaming(request, session.clone(), RawBytes).await;
        let status = end(response.unwrap().into_inner()).await;
        assert!(
            [Code::InvalidArgument, Code::Internal].contains(&status.code()),
            "{garbage:?}: {status:?}"
        );
    }
    let mut unary = tonic::client::Grpc::new(channel);
    unary.ready().await.unwrap();
    let acquire = PathAndQuery::from_static("/leasehold.v1.LockService/Acquire");
    let request = tonic::Request::new(vec![0xff; 64]);
    let status = unary.unary(request, acquire, RawBytes).await.unwrap_err();
    assert!(
        [Code::InvalidArgument, Code::Internal].contains(&status.code()),
        "{status:?}"
    );

    beside.heartbeat().await;
    assert!(beside.release(&kept.lock).await);
    holder.heartbeat().await;
    assert_held(holder).await;
}

/// Ends a stream that holds a lock with a message that breaks the protocol. The stream's end is the coordinator's doing, and
/// its client may not have heard of it: nobody else may have the lock before what the client was promised has passed.
async fn ends_and_keeps_its_lock(coordinator: &Coordinator, name: &str, last: Vec<u8>) -> Status {
    let ttl = Duration::from_secs(2);
    let channel = connect(&coordinator.endpoint()).await;
    let request = |request_id, request| {
        let request = SessionRequest {
            request_id,
            request: Some(request),
            ..SessionRequest::default()
        };
        request.encode_to_vec()
    };
    let open = SessionOpen {
        ttl: wire(ttl),
        ..SessionOpen::default()
    };
    let (messages, stream) = tokio::sync::mpsc::channel(4);
    // Every promise is counted from here: this is heartbeat 0, and there is no other.
    let sent = Instant::now();
    let first = [
        request(1, Request::Open(open)),
        request(2, Request::Acquire(exclusive(name))),
    ];
    for message in first {
        messages.send(message).await.unwrap();
    }
    let mut client = tonic::client::Grpc::new(channel);
    client.ready().await.unwrap();
    let stream = tokio_stream::wrappers::ReceiverStream::new(stream);
    let session = PathAndQuery::from_static("/leasehold.v1.LockService/Session");
    let answers = client.streaming(tonic::Request::new(stream), session, RawBytes);
    let mut answers = answers.await.unwrap().into_inner();
    let good_until = loop {
        let answer = answers.message().await.unwrap().unwrap();
        let answer = SessionResponse::decode(&*answer).unwrap();
        if let Some(Response::Granted(granted)) = answer.response {
            break sent + parse(granted.valid_for);
        }
    };
    let mut next = RawSession::open(&coordinator.endpoint(), TTL).await;
    let waits = next.ask(name, None).await;
    assert_eq!(next.queued(waits).await, 1);
    messages.send(last).await.unwrap();
    let status = end(answers).await;
    next.granted(waits, ttl + PROMPT).await;
    assert!(Instant::now() >= good_until, "it was granted too early");
    next.close().await;
    status
}

#[tokio::test]
async fn a_holder_that_sends_garbage_keeps_its_lock_until_its_last_promise_has_passed() {
    let coordinator = Coordinator::in_process();
    let status = ends_and_keeps_its_lock(&coordinator, "garbage", vec![0xff; 64]).await;
    assert!(
        [Code::InvalidArgument, Code::Internal].contains(&status.code()),
        "{status:?}"
    );
}

#[tokio::test]
async fn a_holder_that_sends_too_much_keeps_its_lock_until_its_last_promise_has_passed() {
    let coordinator = Coordinator::in_process();
    // Twice `max-message-size`: no more than that, because the heartbeat is due while it is sent.
    let status = ends_and_keeps_its_lock(&coordinator, "large", vec![0; 4 << 20]).await;
    assert_eq!(status.code(), Code::ResourceExhausted, "{status:?}");
}

#[tokio::test]
async fn bytes_that_are_no_http_close_their_connection_only() {
    let coordinator = Coordinator::in_process();
    let holder = holder(&coordinator).await;
    let address = coordinator
        .endpoint()
        .trim_start_matches("http://")
        .to_owned();
    for garbage in [&b"HELO there\r\n\r\n"[..], &[0; 4096], &[0xff; 100]] {
        let mut stream = TcpStream::connect(&address).await.unwrap();
        stream.write_all(garbage).await.unwrap();
        let mut answer = Vec::new();
        // A reset ends it as well.
        let _ = tokio::time::timeout(PROMPT, stream.read_to_end(&mut answer))
            .await
            .expect("the connection is closed");
    }
    assert_held(holder).await;
}

#[tokio::test]
async fn a_message_that_is_too_large_ends_its_stream_only() {
    let coordinator = Coordinator::in_process();
    let holder = holder(&coordinator).await;
    let mut client = LockServiceClient::new(connect(&coordinator.endpoint()).await);
    let request = acquire_request(&"n".repeat(64 << 20));
    let status = client.acquire(request).await.unwrap_err();
    assert_eq!(status.code(), Code::ResourceExhausted, "{status:?}");
    assert_held(holder).await;
}

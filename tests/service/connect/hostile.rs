//! Requests that are meant to harm: each gets a clear error, and others lose nothing.

use std::io::Write;

use flate2::{Compression, write::GzEncoder};
use leasehold_tests::{
    Coordinator, RawSession,
    http::{ACQUIRE, BOTH, HEALTH, Http, JSON, LARGEST, Messages, STREAM, WATCH, reason, wrap},
};
use serde_json::json;

#[tokio::test]
async fn names_and_messages_that_are_too_large_get_a_clear_error() {
    let coordinator = Coordinator::in_process();
    let ttl = std::time::Duration::from_secs(60);
    let mut session = RawSession::open(&coordinator.endpoint(), ttl).await;
    let held = session.acquire("held").await;
    for version in BOTH {
        let http = Http::of(&coordinator, version);
        let name = "n".repeat(LARGEST);
        let answer = http
            .post(ACQUIRE, &[JSON], json!({"name": name}).to_string())
            .await;
        assert_eq!(
            (answer.status, &*answer.reason()),
            (429, "MESSAGE_TOO_LARGE")
        );
        // A name that is too long, in a message that is not.
        let name = &name[..LARGEST / 2];
        let answer = http
            .post(ACQUIRE, &[JSON], json!({"name": name}).to_string())
            .await;
        assert_eq!((answer.status, &*answer.reason()), (400, "INVALID_FIELD"));
    }
    session.heartbeat().await;
    assert!(session.release(&held.lock).await);
}

#[tokio::test]
async fn health_has_smaller_messages_in_every_protocol() {
    let coordinator = Coordinator::in_process();
    let named = |length| json!({"service": "s".repeat(length)}).to_string();
    let zipped = |message: &str| {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
        encoder.write_all(message.as_bytes()).unwrap();
        encoder.finish().unwrap()
    };
    let gzip = [JSON, ("content-encoding", "gzip")];
    for version in BOTH {
        let http = Http::of(&coordinator, version);
        // As far as it may go, it is read.
        let answer = http.post(HEALTH, &gzip, zipped(&named(60_000))).await;
        assert_eq!(answer.json()["code"], "not_found");
        // Everybody may ask for it: a few bytes must not unpack to as much as others may send.
        let answer = http.post(HEALTH, &gzip, zipped(&named(70_000))).await;
        assert_eq!(answer.json()["code"], "resource_exhausted");
        let answer = http.post(HEALTH, &[JSON], named(70_000)).await;
        assert_eq!(answer.json()["code"], "resource_exhausted");
    }
}

#[tokio::test]
async fn the_limits_of_callers_are_those_of_grpc() {
    let coordinator = Coordinator::in_process_with(["--max-requests-per-second", "5"]);
    for version in BOTH {
        let http = Http::of(&coordinator, version);
        let mut refused = 0;
        for _ in 0..10 {
            let answer = http.post(ACQUIRE, &[JSON], r#"{"name":"a"}"#).await;
            if answer.status == 429 {
                assert_eq!(answer.reason(), "RATE_LIMITED");
                refused += 1;
            }
        }
        assert!(refused > 0);
        let end = http.stream(WATCH, &json!({})).await;
        drop(end);
    }
}

#[tokio::test]
async fn a_stream_of_garbage_ends_with_an_error() {
    let coordinator = Coordinator::in_process();
    for version in BOTH {
        let http = Http::of(&coordinator, version);
        let mut end = http.stream(WATCH, &json!({"prefx": "a"})).await;
        let end = end.end().await;
        assert_eq!(reason(&end["error"]), "UNKNOWN_REQUEST");
        let large = wrap(&json!({"prefix": "p".repeat(LARGEST)}));
        let headers = [STREAM];
        let body = http_body_util::Full::new(large);
        let response = http.open("POST", WATCH, &headers, body).await;
        let end = Messages::of(response).end().await;
        assert_eq!(reason(&end["error"]), "MESSAGE_TOO_LARGE");
    }
}

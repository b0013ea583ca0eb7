//! HTTP/1 connections: time for requests, and the end of those that nobody uses.

use std::time::{Duration, Instant};

use leasehold_tests::{
    Coordinator,
    http::{ACQUIRE, BOTH, Http, JSON, Version},
    raw::PROMPT,
};
use serde_json::json;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::{sleep, timeout},
};

/// Time for the first request.
const HANDSHAKE: Duration = Duration::from_millis(600);
/// Time for which a connection may be unused: twice this.
const KEEPALIVE: Duration = Duration::from_millis(300);

fn coordinator() -> Coordinator {
    coordinator_that_keeps(KEEPALIVE)
}

/// Returns one whose connections may be unused for twice this time.
fn coordinator_that_keeps(keepalive: Duration) -> Coordinator {
    let millis = |duration: Duration| format!("{}ms", duration.as_millis());
    Coordinator::in_process_with([
        "--handshake-timeout",
        &millis(HANDSHAKE),
        "--keepalive-interval",
        &millis(keepalive),
        "--keepalive-timeout",
        &millis(keepalive),
    ])
}

/// Returns a request to acquire, with this body.
fn request(body: &str) -> String {
    let length = body.len();
    format!(
        "POST {ACQUIRE} HTTP/1.1\r\nhost: h\r\ncontent-type: {}\r\ncontent-length: {length}\r\n\r\n{body}",
        JSON.1
    )
}

async fn dial(http: &Http) -> TcpStream {
    TcpStream::connect(http.address()).await.unwrap()
}

/// Reads one answer with a body of JSON.
async fn answer(stream: &mut TcpStream) -> String {
    let mut read = Vec::new();
    timeout(PROMPT, async {
        // The end of JSON, or of a line of text.
        let is_whole = |read: &[u8]| match read {
            [.., b'}'] => true,
            [.., last, b'\n'] => *last != b'\r',
            _ => false,
        };
        while !is_whole(&read) {
            assert!(stream.read_buf(&mut read).await.unwrap() > 0, "{read:?}");
        }
    })
    .await
    .unwrap();
    String::from_utf8(read).unwrap()
}

/// Sends the bytes one by one until the connection ends. Returns when that was, and whatever was answered.
async fn trickle(mut stream: TcpStream, bytes: &[u8]) -> (Duration, Vec<u8>) {
    let begun = Instant::now();
    let (mut reader, mut writer) = stream.split();
    let mut answer = Vec::new();
    let reading = reader.read_to_end(&mut answer);
    let writing = async {
        for byte in bytes {
            if writer.write_all(&[*byte]).await.is_err() {
                break;
            }
            sleep(Duration::from_millis(20)).await;
        }
        std::future::pending::<()>().await;
    };
    let ended = timeout(PROMPT, async {
        tokio::select! {
            // A reset ends it too.
            _ = reading => {}
            () = writing => {}
        }
    });
    ended.await.expect("the connection is closed");
    (begun.elapsed(), answer)
}

#[tokio::test]
async fn the_head_of_a_request_must_come_in_time() {
    let coordinator = coordinator();
    let http = Http::of(&coordinator, Version::One);
    let slow = request("").replace("host: h", &format!("host: {}", "h".repeat(1000)));
    let (took, answered) = trickle(dial(&http).await, slow.as_bytes()).await;
    assert!(answered.is_empty());
    assert!(took >= HANDSHAKE, "{took:?}");
    // A connection that has been used is no different.
    let mut used = dial(&http).await;
    used.write_all(request(r#"{"name":"a"}"#).as_bytes())
        .await
        .unwrap();
    assert!(answer(&mut used).await.starts_with("HTTP/1.1 200"));
    let (_, answered) = trickle(used, slow.as_bytes()).await;
    assert!(answered.is_empty());
}

#[tokio::test]
async fn a_body_must_come_in_time() {
    let coordinator = coordinator();
    let http = Http::of(&coordinator, Version::One);
    let body = json!({"name": "n".repeat(500)}).to_string();
    let request = request(&body);
    let (head, body) = request.split_once("\r\n\r\n").unwrap();
    let mut stream = dial(&http).await;
    stream
        .write_all(format!("{head}\r\n\r\n").as_bytes())
        .await
        .unwrap();
    let (_, answered) = trickle(stream, body.as_bytes()).await;
    let answered = String::from_utf8(answered).unwrap();
    assert!(answered.starts_with("HTTP/1.1 504"), "{answered}");
    assert!(answered.contains("REQUEST_TIMEOUT"), "{answered}");
}

#[tokio::test]
async fn a_refused_request_is_read_to_its_end_and_its_connection_kept() {
    let coordinator = Coordinator::in_process();
    let http = Http::of(&coordinator, Version::One);
    let refused = request(r#"{"name":"a"}"#).replace(JSON.1, "text/plain");
    let (head, body) = refused.split_once("\r\n\r\n").unwrap();
    let mut stream = dial(&http).await;
    stream
        .write_all(format!("{head}\r\n\r\n").as_bytes())
        .await
        .unwrap();
    // Its head is enough to refuse it, and a client that still writes would miss the answer.
    let early = timeout(KEEPALIVE, stream.readable()).await;
    assert!(early.is_err(), "answered before its end");
    stream.write_all(body.as_bytes()).await.unwrap();
    assert!(answer(&mut stream).await.starts_with("HTTP/1.1 415"));
    stream
        .write_all(request(r#"{"name":"a"}"#).as_bytes())
        .await
        .unwrap();
    assert!(answer(&mut stream).await.starts_with("HTTP/1.1 200"));
}

#[tokio::test]
async fn a_connection_that_nobody_uses_is_closed() {
    let keepalive = Duration::from_secs(2);
    let coordinator = coordinator_that_keeps(keepalive);
    let http = Http::of(&coordinator, Version::One);
    let mut stream = dial(&http).await;
    for number in 0..3 {
        let body = json!({"name": format!("{number}")}).to_string();
        stream.write_all(request(&body).as_bytes()).await.unwrap();
        assert!(answer(&mut stream).await.starts_with("HTTP/1.1 200"));
        // It is kept for the next request.
        sleep(keepalive / 2).await;
    }
    let read = timeout(PROMPT, stream.read(&mut [0])).await.unwrap();
    assert_eq!(read.unwrap(), 0, "closed, without a reset");
    let metrics = coordinator.metrics().await;
    assert!(metrics.sum("leasehold_connections_silent_total") < 0.1);
}

#[tokio::test]
async fn a_call_may_wait_for_longer_than_a_connection_may_be_silent() {
    let coordinator = coordinator();
    for version in BOTH {
        let http = Http::of(&coordinator, version);
        let name = format!("{version:?}");
        http.call(ACQUIRE, &json!({"name": name})).await;
        let begun = Instant::now();
        let waited = http
            .call(ACQUIRE, &json!({"name": name, "wait": "2s"}))
            .await;
        assert_eq!(waited["outcome"], "ACQUIRE_OUTCOME_TIMED_OUT");
        assert!(begun.elapsed() >= Duration::from_secs(2));
    }
}

#[tokio::test]
async fn requests_may_follow_one_another_without_a_pause() {
    let coordinator = Coordinator::in_process();
    let http = Http::of(&coordinator, Version::One);
    let mut stream = dial(&http).await;
    let bodies = (0..100).map(|number| json!({"name": format!("{number}")}).to_string());
    let requests: String = bodies.map(|body| request(&body)).collect();
    stream.write_all(requests.as_bytes()).await.unwrap();
    let mut read = String::new();
    while read.matches("ACQUIRE_OUTCOME_GRANTED").count() < 100 {
        read += &answer(&mut stream).await;
    }
    assert_eq!(read.matches("HTTP/1.1 200").count(), 100);
}

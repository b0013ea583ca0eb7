//! Malformed messages, and messages that are too large.

use std::{net::SocketAddr, time::Duration};

use leasehold_proto::v1::{AcquireRequest, SessionOpen, SessionRequest, session_request::Request};
use prost::Message;
use rand::{RngCore, SeedableRng, rngs::StdRng};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    task::JoinSet,
};

use crate::{
    http2::{
        self, CONTINUATION, DATA, END_HEADERS, END_STREAM, HEADERS, PING, SETTINGS, WINDOW_UPDATE,
        frame,
    },
    ready,
    tally::Tally,
};

/// Connections at a time, and how long each rests after it was closed.
const GARBAGE: (usize, Duration) = (16, Duration::from_millis(20));
const HUGE: (usize, Duration) = (8, Duration::from_millis(50));
/// Longest time to wait for an answer. The server answers a malformed connection by its end, and a malformed call by the call's
/// end.
const ANSWER: Duration = Duration::from_millis(300);
/// The largest message that is taken in.
const LARGEST: usize = 2 * 1024 * 1024;

const SESSION: &str = "/leasehold.v1.LockService/Session";
const ACQUIRE: &str = "/leasehold.v1.LockService/Acquire";

pub(crate) async fn garbage(server: SocketAddr, tally: Tally) -> anyhow::Result<()> {
    over_and_over(server, GARBAGE, garbled, tally).await
}

pub(crate) async fn huge(server: SocketAddr, tally: Tally) -> anyhow::Result<()> {
    over_and_over(server, HUGE, oversized, tally).await
}

async fn over_and_over(
    server: SocketAddr,
    (connections, rest): (usize, Duration),
    what: fn(usize) -> Vec<u8>,
    tally: Tally,
) -> anyhow::Result<()> {
    let mut clients = JoinSet::new();
    for client in 0..connections {
        let tally = tally.clone();
        clients.spawn(async move {
            for number in client.. {
                if let Ok(mut stream) = http2::connect(server, None).await {
                    let bytes = what(number);
                    tally.one("connections");
                    tally.add("bytes", bytes.len() as u64);
                    let (mut read, mut write) = stream.split();
                    let reading = async {
                        let mut sink = vec![0; 16 * 1024];
                        while matches!(read.read(&mut sink).await, Ok(length) if length > 0) {}
                    };
                    let writing = async {
                        // Cut short where the coordinator has had enough, or stops reading.
                        let _ = write.write_all(&bytes).await;
                        std::future::pending::<()>().await;
                    };
                    let both = async {
                        tokio::select! {
                            () = reading => tally.one("closed_by_coordinator"),
                            () = writing => {}
                        }
                    };
                    let _ = tokio::time::timeout(ANSWER, both).await;
                }
                tokio::time::sleep(rest).await;
            }
        });
    }
    ready();
    clients.join_all().await;
    Ok(())
}

/// Returns a call with these bytes for its message, or messages.
fn call(path: &str, body: &[u8]) -> Vec<u8> {
    let block = http2::headers(path, &[]);
    let mut bytes = http2::beginning(&[]);
    bytes.extend(frame(HEADERS, END_HEADERS, 1, &block));
    for chunk in body.chunks(16 * 1024) {
        bytes.extend(frame(DATA, 0, 1, chunk));
    }
    bytes
}

fn open() -> Vec<u8> {
    let message = SessionRequest {
        request_id: 1,
        request: Some(Request::Open(SessionOpen::default())),
        ..SessionRequest::default()
    };
    http2::honest(&message.encode_to_vec())
}

/// Bytes by chance, the same for the same number.
fn random(number: usize, length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    StdRng::seed_from_u64(number as u64).fill_bytes(&mut bytes);
    bytes
}

/// Returns a malformed request, by number.
fn garbled(number: usize) -> Vec<u8> {
    let random = |length| random(number, length);
    let begun = || http2::beginning(&[]);
    let after = |bytes: Vec<u8>| [begun(), bytes].concat();
    match number % 16 {
        // No HTTP/2 at all.
        0 => random(4096),
        1 => b"GET / HTTP/1.1\r\nhost: coordinator\r\n\r\n".to_vec(),
        // Frames that make no sense.
        2 => after(random(4096)),
        3 => after(frame(0xfa, 0xff, 77, &random(1000)).repeat(100)),
        4 => after(frame(DATA, 0, 1, b"no stream")),
        5 => after(frame(
            HEADERS,
            END_HEADERS,
            2,
            &http2::headers(ACQUIRE, &[]),
        )),
        6 => after(frame(HEADERS, END_HEADERS, 1, &random(500))),
        7 => after(frame(SETTINGS, 0, 0, &[0; 5])),
        8 => after(frame(WINDOW_UPDATE, 0, 0, &http2::HUGE.to_be_bytes()).repeat(2)),
        // More answers than questions.
        9 => after(
            [frame(PING, 0, 0, &[1; 8]), frame(SETTINGS, 0, 0, &[])]
                .concat()
                .repeat(500),
        ),
        // Protobuf that is none, alone and behind an `open`.
        10 => call(ACQUIRE, &http2::honest(&random(300))),
        11 => call(SESSION, &[open(), http2::honest(&random(300))].concat()),
        // Lengths that lie, and flags.
        12 => call(
            SESSION,
            &[open(), http2::message(0, u32::MAX, b"x")].concat(),
        ),
        13 => call(ACQUIRE, &http2::message(1, 10, &random(10))),
        14 => call(SESSION, &[open(), http2::message(7, 3, b"abc")].concat()),
        _ => call("/leasehold.v1.LockService/NoSuchCall", &open()),
    }
}

/// Returns an oversized request, by number.
fn oversized(number: usize) -> Vec<u8> {
    match number % 5 {
        // Headers of a megabyte, in one block that does not end.
        0 => {
            let value = "h".repeat(16_000);
            let block = http2::headers(ACQUIRE, &[("x-large", &value)]);
            let mut bytes = http2::beginning(&[]);
            bytes.extend(frame(HEADERS, 0, 1, &block));
            let mut more = vec![0, 1, b'x', 127, 0xff, 0x7a];
            more.resize(16_000, b'y');
            bytes.extend(frame(CONTINUATION, 0, 1, &more).repeat(64));
            bytes
        }
        // As large as a message may be, and one byte more.
        1 => call(ACQUIRE, &message_of(LARGEST)),
        2 => call(SESSION, &[open(), message_of(LARGEST + 1)].concat()),
        // Said to be as large as it may be, on a hundred calls at once, and never ended.
        3 => {
            let block = http2::headers(ACQUIRE, &[]);
            let mut bytes = http2::beginning(&[]);
            let largest = u32::try_from(LARGEST).unwrap_or(u32::MAX);
            for id in (1..).step_by(2).take(100) {
                bytes.extend(frame(HEADERS, END_HEADERS, id, &block));
                let beginning = http2::message(0, largest, &[b'x'; 10_000]);
                bytes.extend(frame(DATA, 0, id, &beginning));
            }
            bytes
        }
        // A name of a megabyte.
        _ => {
            let acquire = AcquireRequest {
                name: "n".repeat(1024 * 1024),
                ..AcquireRequest::default()
            };
            let mut bytes = call(ACQUIRE, &http2::honest(&acquire.encode_to_vec()));
            bytes.extend(frame(DATA, END_STREAM, 1, &[]));
            bytes
        }
    }
}

/// Returns a message of this many bytes, all of it an unknown field.
fn message_of(length: usize) -> Vec<u8> {
    // Field 1000, with a length of four bytes.
    let mut bytes = vec![0xc2, 0x3e];
    let mut left = length - 6;
    for _ in 0..3 {
        bytes.push((left % 128) as u8 | 128);
        left /= 128;
    }
    bytes.push((left % 128) as u8);
    bytes.resize(length, b'z');
    http2::honest(&bytes)
}

//! Clients that send their requests a byte at a time.

use std::{net::SocketAddr, time::Duration};

use leasehold_proto::v1::AcquireRequest;
use prost::Message;
use tokio::{net::TcpStream, task::JoinSet};

use crate::{
    http2::{self, CONTINUATION, DATA, END_HEADERS, HEADERS, frame},
    ready,
    tally::Tally,
};

/// Number of connections of each kind.
const EACH: usize = 250;
/// A byte comes so often.
const BYTE: Duration = Duration::from_millis(500);

/// Part of the protocol that a client sends slowly.
#[derive(Clone, Copy)]
enum Slowly {
    Preface,
    Headers,
    Continuations,
    Message,
}

/// Trickles bytes on a thousand connections: one part the preface, one the headers of a call, one endless headers, in a
/// CONTINUATION frame for each byte, and one the message of a call.
pub(crate) async fn trickle(server: SocketAddr, tally: Tally) -> anyhow::Result<()> {
    let mut clients = JoinSet::new();
    for number in 0..4 * EACH {
        let slowly = match number % 4 {
            0 => Slowly::Preface,
            1 => Slowly::Headers,
            2 => Slowly::Continuations,
            _ => Slowly::Message,
        };
        let tally = tally.clone();
        clients.spawn(async move {
            loop {
                if let Ok(mut stream) = http2::connect(server, None).await {
                    tally.one("connections");
                    say(&mut stream, slowly, &tally).await;
                    tally.one("closed_by_coordinator");
                }
                tokio::time::sleep(BYTE).await;
            }
        });
        if number % 4 == 0 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
    ready();
    clients.join_all().await;
    Ok(())
}

async fn say(stream: &mut TcpStream, slowly: Slowly, tally: &Tally) {
    let block = http2::headers("/leasehold.v1.LockService/Acquire", &[]);
    let all = match slowly {
        Slowly::Preface => http2::beginning(&[]),
        Slowly::Headers => {
            http2::write(stream, &http2::beginning(&[])).await;
            frame(HEADERS, END_HEADERS, 1, &block)
        }
        Slowly::Continuations => {
            http2::write(stream, &http2::beginning(&[])).await;
            http2::write(stream, &frame(HEADERS, 0, 1, &block)).await;
            // A header of two hundred bytes, begun and never ended.
            let mut bytes = vec![0, 1, b'x', 127, 73];
            bytes.resize(200, b'y');
            let frames = bytes.iter().map(|byte| frame(CONTINUATION, 0, 1, &[*byte]));
            for frame in frames {
                if !crawl(stream, &frame, tally).await {
                    return;
                }
            }
            return;
        }
        Slowly::Message => {
            http2::write(stream, &http2::beginning(&[])).await;
            http2::write(stream, &frame(HEADERS, END_HEADERS, 1, &block)).await;
            let acquire = AcquireRequest {
                name: "abuse/slow/".repeat(30),
                ..AcquireRequest::default()
            };
            let message = http2::honest(&acquire.encode_to_vec());
            for byte in message {
                if !crawl(stream, &frame(DATA, 0, 1, &[byte]), tally).await {
                    return;
                }
            }
            return;
        }
    };
    for byte in all {
        if !crawl(stream, &[byte], tally).await {
            return;
        }
    }
    // It never says more.
    http2::closed_within(stream, Duration::from_secs(3600)).await;
}

/// Says a little, and rests; false if the coordinator has closed.
async fn crawl(stream: &mut TcpStream, bytes: &[u8], tally: &Tally) -> bool {
    tally.add("bytes", bytes.len() as u64);
    http2::write(stream, bytes).await && !http2::closed_within(stream, BYTE).await
}

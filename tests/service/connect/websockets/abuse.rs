//! Messages and frames that are meant to harm: each ends its own session at most.

use std::time::Duration;

use leasehold_tests::{
    Coordinator,
    http::{ACQUIRE, Http, Version},
    raw::PROMPT,
};
use serde_json::json;
use tokio::io::AsyncWriteExt;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;

use super::client::{Socket, address};

const TTL: Duration = Duration::from_secs(30);
/// Most bytes of a message, by default.
const LARGEST: usize = 2 << 20;

/// First bytes of frames.
const TEXT: u8 = 0x81;
const BINARY: u8 = 0x82;
const PING: u8 = 0x89;
const FIRST_FRAGMENT: u8 = 0x01;
const FRAGMENT: u8 = 0x00;
/// A text frame that claims to be compressed.
const COMPRESSED: u8 = 0xC1;

/// Returns a frame of a client with a mask that changes nothing.
fn frame(first: u8, payload: &[u8]) -> Vec<u8> {
    let length = u8::try_from(payload.len()).unwrap();
    assert!(length < 126);
    [&[first, 0x80 | length, 0, 0, 0, 0], payload].concat()
}

impl Socket {
    async fn raw(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        self.socket.get_mut().write_all(bytes).await
    }
}

#[tokio::test]
async fn what_is_not_a_message_ends_its_session_and_releases_nothing() {
    let coordinator = Coordinator::in_process();
    let address = address(&coordinator.endpoint());
    let http = Http::of(&coordinator, Version::One);
    let mut beside = Socket::open(address, TTL).await;
    let deep = "[".repeat(60) + &"]".repeat(60);
    let unmasked = [&[TEXT, 2][..], b"{}"].concat();
    let sent = [
        frame(TEXT, b""),
        frame(TEXT, b"\x00\x01"),
        frame(TEXT, b"{\"acqire\": {}}"),
        frame(TEXT, b"{\"close\": {}, \"close\": {}}"),
        frame(TEXT, b"{\"acquire\": {\"name\": \"b\", \"nmae\": 1}}"),
        frame(TEXT, deep.as_bytes()),
        frame(TEXT, b"\xff\xfe"),
        frame(BINARY, b"\x08\x01"),
        frame(COMPRESSED, b"{}"),
        frame(0x83, b"an opcode that is not in use"),
        frame(FRAGMENT, b"{}"),
        unmasked,
    ];
    for (number, bytes) in sent.iter().enumerate() {
        let name = format!("{number}");
        let mut session = Socket::open(address, TTL).await;
        session.acquire(&name).await;
        session.raw(bytes).await.unwrap();
        session
            .fails("invalid_argument", "UNKNOWN_REQUEST", CloseCode::Policy)
            .await;
        // The client may yet believe in its lock.
        let asked = http.call(ACQUIRE, &json!({"name": name})).await;
        assert_eq!(asked["outcome"], "ACQUIRE_OUTCOME_BUSY", "{bytes:?}");
    }
    beside.acquire("beside").await;
}

#[tokio::test]
async fn a_message_that_is_too_large_is_refused() {
    let coordinator = Coordinator::in_process();
    let address = address(&coordinator.endpoint());
    let mut session = Socket::open(address, TTL).await;
    // The largest that is read is refused for its name only.
    let name = "n".repeat(LARGEST - 100);
    let refused = session.ask(json!({"acquire": {"name": name}})).await;
    assert_eq!(refused["error"]["reason"], "INVALID_FIELD");
    session.text("x".repeat(LARGEST + 1)).await;
    session
        .fails("resource_exhausted", "MESSAGE_TOO_LARGE", CloseCode::Policy)
        .await;
    // In fragments, too.
    let mut session = Socket::open(address, TTL).await;
    let fragment = frame(FRAGMENT, &[b' '; 120]);
    let fragments = fragment.repeat(LARGEST / 120 + 1);
    session.raw(&frame(FIRST_FRAGMENT, b"{")).await.unwrap();
    session.raw(&fragments).await.unwrap();
    session
        .fails("resource_exhausted", "MESSAGE_TOO_LARGE", CloseCode::Policy)
        .await;
}

/// Acquires and releases a lock beside a flood.
async fn beside(session: &mut Socket, name: &str) {
    let lock = session.acquire(name).await;
    let release = json!({"release": {"name": name, "ownerId": lock["ownerId"]}});
    session.ask(release).await;
}

#[tokio::test]
async fn a_message_in_endless_fragments_keeps_no_lock() {
    let coordinator = Coordinator::in_process();
    let address = address(&coordinator.endpoint());
    let ttl = Duration::from_secs(1);
    let mut endless = Socket::open(address, ttl).await;
    let mut waiter = Socket::open(address, TTL).await;
    let mut other = Socket::open(address, TTL).await;
    endless.acquire("a").await;
    let id = waiter.queue("a").await;
    endless.raw(&frame(FIRST_FRAGMENT, b"{")).await.unwrap();
    let fragments = frame(FRAGMENT, b"").repeat(1000);
    let flood = async {
        // Until the coordinator ends it, if it does.
        while endless.raw(&fragments).await.is_ok() {
            tokio::task::yield_now().await;
        }
        std::future::pending::<()>().await;
    };
    let lives = async {
        beside(&mut other, "b").await;
        waiter.granted(&id, "a", PROMPT).await;
        beside(&mut other, "b").await;
    };
    tokio::select! {
        () = flood => {}
        () = lives => {}
    }
}

#[tokio::test]
async fn a_flood_of_pings_delays_nobody_else() {
    let coordinator = Coordinator::in_process();
    let address = address(&coordinator.endpoint());
    let mut flooding = Socket::open(address, TTL).await;
    let mut other = Socket::open(address, TTL).await;
    // Their answers find room at a client that reads later.
    let pings = frame(PING, b"x").repeat(20_000);
    let others = async {
        for number in 0..10 {
            beside(&mut other, &format!("{number}")).await;
        }
    };
    let (flooded, ()) = tokio::join!(flooding.raw(&pings), others);
    flooded.unwrap();
    flooding.beat().await;
}

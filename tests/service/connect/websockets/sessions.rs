//! Sessions that hold locks, hand them on, and end.

use std::time::{Duration, Instant};

use leasehold_tests::{
    Coordinator,
    http::{ACQUIRE, Http, Version},
    raw::PROMPT,
};
use serde_json::json;
use tokio::time::sleep;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;

use super::client::{Socket, address, ask, dial, seconds};

const TTL: Duration = Duration::from_secs(30);
const SHORT: Duration = Duration::from_secs(1);
const CAMPAIGN: &str = "/leasehold.v1.ElectionService/Campaign";

#[tokio::test]
async fn a_session_that_says_close_ends_in_order() {
    let coordinator = Coordinator::in_process();
    let mut session = Socket::open(address(&coordinator.endpoint()), TTL).await;
    session.acquire("a").await;
    let closed = session.ask(json!({"close": {}})).await;
    assert_eq!(closed["closed"], json!({}));
    let (end, close) = session.end(PROMPT).await;
    assert_eq!(end, json!({}));
    assert_eq!(close.code, CloseCode::Normal);
    let http = Http::of(&coordinator, Version::One);
    let granted = http.call(ACQUIRE, &json!({"name": "a"})).await;
    assert_eq!(granted["outcome"], "ACQUIRE_OUTCOME_GRANTED");
}

/// Way in which a client leaves.
#[derive(Clone, Copy, Debug)]
enum Leaving {
    CloseFrame,
    EndOfConnection,
}

/// Returns how long it takes until the next client is granted the lock of one that leaves.
async fn handed_on(grace: Option<Duration>, leaving: Leaving) -> Duration {
    let coordinator = Coordinator::in_process();
    let mut open = json!({"ttl": seconds(TTL)});
    if let Some(grace) = grace {
        open["disconnectGrace"] = json!(seconds(grace));
    }
    let mut holder = Socket::open_with(address(&coordinator.endpoint()), open).await;
    let mut waiter = Socket::open(address(&coordinator.endpoint()), TTL).await;
    holder.acquire("a").await;
    let id = waiter.queue("a").await;
    let left = Instant::now();
    match leaving {
        Leaving::CloseFrame => {
            holder.socket.close(None).await.unwrap();
            let message = holder.message(PROMPT).await;
            assert!(message.is_close(), "{message:?}");
        }
        Leaving::EndOfConnection => drop(holder),
    }
    waiter.granted(&id, "a", PROMPT).await;
    left.elapsed()
}

#[tokio::test]
async fn a_client_that_leaves_releases_its_locks_at_once_or_after_the_grace_that_it_asked_for() {
    for leaving in [Leaving::CloseFrame, Leaving::EndOfConnection] {
        handed_on(None, leaving).await;
        let took = handed_on(Some(SHORT), leaving).await;
        assert!(took >= SHORT, "{leaving:?} {took:?}");
    }
}

#[tokio::test]
async fn what_a_client_says_last_counts() {
    let coordinator = Coordinator::in_process();
    let address = address(&coordinator.endpoint());
    let mut holder = Socket::open(address, TTL).await;
    let mut waiter = Socket::open(address, TTL).await;
    let delay = seconds(TTL);
    let acquire = json!({"acquire": {"name": "a", "lockDelay": delay}});
    let granted = holder.ask(acquire).await;
    let owner = &granted["granted"]["locks"][0]["ownerId"];
    let id = waiter.queue("a").await;
    let release = json!({"release": {"name": "a", "ownerId": owner}});
    holder.say(release).await;
    // The end of the connection alone would be unclean.
    drop(holder);
    waiter.granted(&id, "a", PROMPT).await;
}

#[tokio::test]
async fn a_session_resumes_on_another_websocket() {
    let coordinator = Coordinator::in_process();
    let open = json!({"ttl": seconds(TTL), "disconnectGrace": seconds(TTL)});
    let mut first = Socket::open_with(address(&coordinator.endpoint()), open).await;
    let lock = first.acquire("a").await;
    drop(first);
    let next = "AAECAwQFBgcICQoLDA0ODw==";
    let resume = json!({
        "ttl": seconds(TTL),
        "resume": [{
            "name": "a",
            "ownerId": lock["ownerId"],
            "nextOwnerId": next,
            "hold": {"fencingToken": lock["fencingToken"], "holdCount": 1},
        }],
    });
    let (mut second, _) = dial(address(&coordinator.endpoint()), &[]).await.unwrap();
    let opened = second.ask(json!({"open": resume})).await;
    assert_eq!(opened["opened"]["resumed"][0]["ownerId"], next, "{opened}");
    let release = json!({"release": {"name": "a", "ownerId": next}});
    assert_eq!(second.ask(release).await["released"]["released"], true);
}

#[tokio::test]
async fn heartbeats_keep_a_lock_and_pongs_do_not() {
    let coordinator = Coordinator::in_process_with([
        "--keepalive-interval",
        "100ms",
        "--keepalive-timeout",
        "5s",
    ]);
    let mut holder = Socket::open(address(&coordinator.endpoint()), SHORT).await;
    let mut waiter = Socket::open(address(&coordinator.endpoint()), TTL).await;
    holder.acquire("a").await;
    let id = waiter.queue("a").await;
    let begun = Instant::now();
    while begun.elapsed() < SHORT * 2 {
        holder.beat().await;
        sleep(SHORT / 5).await;
    }
    // From here on it only answers pings.
    let pongs = async {
        let lost = holder.next(PROMPT).await;
        assert_eq!(lost["lost"]["locks"][0]["name"], "a", "{lost}");
        holder
    };
    tokio::join!(pongs, waiter.granted(&id, "a", PROMPT));
}

#[tokio::test]
async fn a_candidate_campaigns() {
    let coordinator = Coordinator::in_process();
    let stream = tokio::net::TcpStream::connect(address(&coordinator.endpoint()));
    let (mut candidate, _) = ask(stream.await.unwrap(), CAMPAIGN, &[]).await.unwrap();
    let campaign = json!({"campaign": {"election": "e", "ttl": seconds(TTL)}});
    candidate.text(campaign.to_string()).await;
    assert!(candidate.next(PROMPT).await.get("campaigning").is_some());
    assert!(candidate.next(PROMPT).await.get("elected").is_some());
    candidate.text(r#"{"resign": {}}"#).await;
    assert!(candidate.next(PROMPT).await.get("resigned").is_some());
    let (end, close) = candidate.end(PROMPT).await;
    assert_eq!((end, close.code), (json!({}), CloseCode::Normal));
}

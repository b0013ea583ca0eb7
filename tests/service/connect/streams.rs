//! Streams of answers, and sessions over HTTP/2.

use std::time::Duration;

use bytes::Bytes;
use http_body_util::StreamBody;
use hyper::body::Frame;
use leasehold_tests::{
    Coordinator, RawCandidate,
    http::{
        ACQUIRE, BOTH, Http, LARGEST, Messages, OBSERVE, RELEASE, SESSION, STREAM, Version, WATCH,
        reason, wrap,
    },
    raw::{PROMPT, connect},
    wait,
};
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio_stream::{StreamExt, wrappers::ReceiverStream};

const TTL: Duration = Duration::from_secs(10);

#[tokio::test]
async fn changes_of_locks_are_watched() {
    let coordinator = Coordinator::in_process();
    for version in BOTH {
        let http = Http::of(&coordinator, version);
        let prefix = format!("{version:?}/");
        let mut watch = http.stream(WATCH, &json!({"prefix": prefix})).await;
        assert_eq!(watch.message().await, json!({"ready": {}}));
        let name = format!("{prefix}a");
        let granted = http.call(ACQUIRE, &json!({"name": name})).await;
        let event = watch.message().await;
        assert_eq!(event["event"]["kind"], "LOCK_EVENT_KIND_GRANTED");
        assert_eq!(event["event"]["fencingToken"], granted["fencingToken"]);
        let owned = json!({"name": name, "ownerId": granted["ownerId"]});
        http.call(RELEASE, &owned).await;
        let event = watch.message().await;
        assert_eq!(event["event"]["kind"], "LOCK_EVENT_KIND_RELEASED");
    }
}

#[tokio::test]
async fn an_election_is_observed() {
    let coordinator = Coordinator::in_process();
    for version in BOTH {
        let http = Http::of(&coordinator, version);
        let election = format!("{version:?}");
        let mut observed = http.stream(OBSERVE, &json!({"election": election})).await;
        assert_eq!(observed.message().await, json!({}), "nobody leads");
        let channel = connect(&coordinator.endpoint()).await;
        let mut candidate = RawCandidate::campaign(channel, &election, b"me", TTL).await;
        let term = candidate.elected(PROMPT).await;
        let seen = observed.message().await;
        assert_eq!(seen["leader"]["fencingToken"], term.token.to_string());
    }
}

#[tokio::test]
async fn a_watcher_that_goes_away_makes_room() {
    let coordinator = Coordinator::in_process_with(["--max-watchers", "1"]);
    for version in BOTH {
        let http = Http::of(&coordinator, version);
        let open = async || http.stream(WATCH, &json!({})).await;
        let place = |mut watch: Messages| async move {
            let (is_last, message) = watch.next(PROMPT).await;
            if is_last { Err(message) } else { Ok(watch) }
        };
        let watch = wait::until("a place", PROMPT, || async { place(open().await).await }).await;
        let refused = open().await.end().await;
        assert_eq!(refused["error"]["code"], "resource_exhausted");
        assert_eq!(reason(&refused["error"]), "TOO_MANY_WATCHERS");
        drop(watch);
        wait::until("the place", PROMPT, || async { place(open().await).await }).await;
    }
}

/// A session in JSON, over HTTP/2.
struct Session {
    requests: mpsc::Sender<Bytes>,
    answers: Messages,
}

impl Session {
    async fn open(http: &Http) -> Self {
        let (requests, messages) = mpsc::channel(4);
        let messages = ReceiverStream::new(messages);
        let frames = messages.map(|message| Ok::<_, std::io::Error>(Frame::data(message)));
        let open = json!({"requestId": "1", "open": {"ttl": "30s"}});
        requests.send(wrap(&open)).await.unwrap();
        let body = StreamBody::new(frames);
        let mut answers = Messages::of(http.open("POST", SESSION, &[STREAM], body).await);
        let opened = answers.message().await;
        assert_eq!(opened["opened"]["ttl"], "30s", "{opened}");
        Self { requests, answers }
    }

    async fn ask(&mut self, message: Value) -> Value {
        self.requests.send(wrap(&message)).await.unwrap();
        self.answers.message().await
    }
}

#[tokio::test]
async fn a_session_in_json_holds_locks_until_its_stream_ends() {
    let coordinator = Coordinator::in_process();
    let http = Http::of(&coordinator, Version::Two);
    let mut session = Session::open(&http).await;
    let acquire = json!({"requestId": "2", "acquire": {"name": "a"}});
    let granted = session.ask(acquire).await;
    assert_eq!(granted["granted"]["locks"][0]["name"], "a", "{granted}");
    let beat = json!({"requestId": "3", "heartbeat": {"sequence": "1"}});
    assert_eq!(session.ask(beat).await["heartbeat"]["ackedHeartbeat"], "1");
    // The lock is free as soon as its client is gone.
    let waits = tokio::spawn({
        let http = http.clone();
        async move {
            http.call(ACQUIRE, &json!({"name": "a", "wait": "20s"}))
                .await
        }
    });
    drop(session);
    let granted = tokio::time::timeout(PROMPT, waits).await.unwrap().unwrap();
    assert_eq!(granted["outcome"], "ACQUIRE_OUTCOME_GRANTED");
}

#[tokio::test]
async fn a_message_that_cannot_be_read_ends_its_session_only() {
    let coordinator = Coordinator::in_process();
    let http = Http::of(&coordinator, Version::Two);
    let mut session = Session::open(&http).await;
    let mut beside = Session::open(&http).await;
    session
        .requests
        .send(wrap(&json!({"acqire": {}})))
        .await
        .unwrap();
    let end = session.answers.end().await;
    assert_eq!(end["error"]["code"], "invalid_argument", "{end}");
    let mut session = Session::open(&http).await;
    let name = "n".repeat(LARGEST);
    let large = json!({"requestId": "2", "acquire": {"name": name}});
    session.requests.send(wrap(&large)).await.unwrap();
    let end = session.answers.end().await;
    assert_eq!(reason(&end["error"]), "MESSAGE_TOO_LARGE", "{end}");
    let acquire = json!({"requestId": "2", "acquire": {"name": "b"}});
    assert_eq!(
        beside.ask(acquire).await["granted"]["locks"][0]["name"],
        "b"
    );
}

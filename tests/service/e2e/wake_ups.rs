//! Wake-ups as hints: one that comes late, twice or from a stranger takes nothing from a holder.

use std::time::{Duration, Instant};

use futures_util::StreamExt;
use leasehold_proto::v1::{
    AcquireOutcome, AcquireRequest, AcquireResponse, GetLockRequest, Holder,
    admin_service_client::AdminServiceClient, lock_service_client::LockServiceClient,
};
use leasehold_tests::{
    Coordinator, CoordinatorProcess, RawSession, RedisServer,
    raw::{PROMPT, parse, wire},
    wait,
};
use redis::aio::MultiplexedConnection;
use tokio::time::timeout;

const NAME: &str = "woken";
const KEY: &str = "lock:woken";
const TTL: Duration = Duration::from_secs(4);
const LONG: Duration = Duration::from_secs(30);

/// A hold of the unary call at one coordinator, which another handed to it.
struct HandedOn {
    redis: RedisServer,
    /// The coordinator at which it is held.
    coordinator: CoordinatorProcess,
    _other: CoordinatorProcess,
    /// The message that was published at its grant.
    published: (String, Vec<u8>),
    response: AcquireResponse,
    /// Before it was granted.
    earliest: Instant,
}

async fn holder_of(coordinator: &CoordinatorProcess, name: &str) -> Option<Holder> {
    let mut admin = AdminServiceClient::new(coordinator.channel().await);
    let name = name.to_owned();
    let response = admin.get_lock(GetLockRequest { name }).await.unwrap();
    response.into_inner().lock.unwrap().holders.pop()
}

async fn waiters_of(coordinator: &CoordinatorProcess, name: &str, count: u64) {
    let admin = AdminServiceClient::new(coordinator.channel().await);
    wait::until("the waiters to be queued", PROMPT, || {
        let (mut admin, name) = (admin.clone(), name.to_owned());
        async move {
            let response = admin.get_lock(GetLockRequest { name }).await.unwrap();
            match response.into_inner().lock.unwrap().waiter_count {
                now if now == count => Ok(()),
                other => Err(other),
            }
        }
    })
    .await;
}

/// Publishes by hand; every coordinator that listens on the channel has it in its socket when this returns.
async fn publish(redis: &mut MultiplexedConnection, channel: &str, payload: &[u8]) {
    let mut publish = redis::cmd("PUBLISH");
    publish.arg(channel).arg(payload);
    let heard: u32 = publish.query_async(redis).await.unwrap();
    assert_eq!(heard, 1, "one coordinator listens on {channel}");
}

/// Waits until Redis has noticed that nobody listens to a pattern any more.
async fn no_patterns(redis: &RedisServer) {
    let redis = redis.async_connection().await;
    wait::until("the listener to be gone", PROMPT, || {
        let mut redis = redis.clone();
        async move {
            let mut ask = redis::cmd("PUBSUB");
            match ask
                .arg("NUMPAT")
                .query_async::<u32>(&mut redis)
                .await
                .unwrap()
            {
                0 => Ok(()),
                listeners => Err(listeners),
            }
        }
    })
    .await;
}

fn payload(kind: u8, owner_id: &[u8], token: i64, key: &str) -> Vec<u8> {
    let token = format!("{token:020}");
    [&[kind], owner_id, token.as_bytes(), key.as_bytes()].concat()
}

async fn handed_on() -> HandedOn {
    let redis = RedisServer::start();
    let coordinator = Coordinator::process().store(redis.url()).start();
    let other = Coordinator::process().store(redis.url()).start();
    let mut first = RawSession::open(&other.endpoint(), LONG).await;
    let held = first.acquire(NAME).await;
    let mut client = LockServiceClient::new(coordinator.channel().await);
    let request = AcquireRequest {
        name: NAME.to_owned(),
        ttl: wire(TTL),
        wait: wire(PROMPT),
        ..AcquireRequest::default()
    };
    let acquire = tokio::spawn(async move { client.acquire(request).await });
    waiters_of(&other, NAME, 1).await;

    let mut listening = redis.client().get_async_pubsub().await.unwrap();
    listening.psubscribe("lh:wake:*").await.unwrap();
    let earliest = Instant::now();
    assert!(first.release(&held.lock).await);
    let response = acquire.await.unwrap().unwrap().into_inner();
    assert_eq!(response.outcome(), AcquireOutcome::Granted);
    let heard = timeout(PROMPT, listening.on_message().next()).await;
    let message = heard.unwrap().expect("the hand-off was published");
    drop(listening);
    no_patterns(&redis).await;
    let published = (
        message.get_channel_name().to_owned(),
        message.get_payload_bytes().to_vec(),
    );
    HandedOn {
        redis,
        coordinator,
        _other: other,
        published,
        response,
        earliest,
    }
}

/// Publishes all of `payloads` again and again, and asserts that the hold lasts for its TTL.
async fn lasts_in_spite_of(handed_on: HandedOn, payloads: &[Vec<u8>]) {
    let mut redis = handed_on.redis.async_connection().await;
    let holder = holder_of(&handed_on.coordinator, NAME).await.unwrap();
    let channel = format!("lh:wake:{}", holder.coordinator);
    let told = parse(handed_on.response.ttl);
    assert!(told > TTL / 2, "{told:?}");
    let (mut value, mut life) = (redis::cmd("GET"), redis::cmd("PTTL"));
    value.arg(KEY);
    life.arg(KEY);
    let mut last = i64::MAX;
    let gone = loop {
        for payload in payloads {
            publish(&mut redis, &channel, payload).await;
        }
        let value: Option<Vec<u8>> = value.query_async(&mut redis).await.unwrap();
        match value {
            Some(value) => assert_eq!(value, handed_on.response.owner_id),
            None => break Instant::now(),
        }
        // Nor do they renew it.
        let left: i64 = life.query_async(&mut redis).await.unwrap();
        assert!(left <= last, "{last} ms were left, and then {left}");
        last = left;
        assert!(handed_on.earliest.elapsed() < 2 * TTL, "it never ends");
        tokio::time::sleep(Duration::from_millis(20)).await;
    };
    let lasted = gone - handed_on.earliest;
    assert!(lasted >= TTL, "it was granted for {TTL:?}: {lasted:?}");
}

#[tokio::test]
async fn a_repeated_wake_up_does_not_end_the_hold_that_it_told_of() {
    let handed_on = handed_on().await;
    let (channel, published) = handed_on.published.clone();
    // What is made by hand here is what coordinators say to each other.
    let holder = holder_of(&handed_on.coordinator, NAME).await.unwrap();
    assert_eq!(channel, format!("lh:wake:{}", holder.coordinator));
    let token = handed_on.response.fencing_token;
    let expected = payload(b'U', &handed_on.response.owner_id, token, KEY);
    assert_eq!(published[1..], expected[1..]);
    lasts_in_spite_of(handed_on, &[published]).await;
}

#[tokio::test]
async fn a_forged_wake_up_does_not_end_or_shorten_a_unary_hold() {
    let handed_on = handed_on().await;
    let (owner_id, token) = (
        &handed_on.response.owner_id,
        handed_on.response.fencing_token,
    );
    let forged = [
        payload(b'G', owner_id, token, KEY),
        payload(b'U', owner_id, token, KEY),
        // Of another grant, and of another name.
        payload(b'G', owner_id, token - 1, KEY),
        payload(b'G', owner_id, token, "lock:another"),
    ];
    lasts_in_spite_of(handed_on, &forged).await;
}

#[tokio::test]
async fn a_forged_wake_up_does_not_end_or_shorten_a_hold_of_a_session() {
    let redis = RedisServer::start();
    let coordinator = Coordinator::process().store(redis.url()).start();
    let mut session = RawSession::open(&coordinator.endpoint(), TTL).await;
    session.keep_alive(TTL / 8);
    let held = session.acquire(NAME).await;
    let holder = holder_of(&coordinator, NAME).await.unwrap();
    let channel = format!("lh:wake:{}", holder.coordinator);
    let mut connection = redis.async_connection().await;
    let began = Instant::now();
    let mut life = redis::cmd("PTTL");
    life.arg(KEY);
    let first: i64 = life.query_async(&mut connection).await.unwrap();
    // Until it has been renewed, with what came before long seen to.
    let mut last = i64::MAX;
    loop {
        for kind in [b'G', b'U'] {
            for token in [held.lock.fencing_token, held.lock.fencing_token - 1] {
                let forged = payload(kind, &held.lock.owner_id, token, KEY);
                publish(&mut connection, &channel, &forged).await;
            }
        }
        let now: i64 = life.query_async(&mut connection).await.unwrap();
        assert!(now > 0, "gone after {:?}", began.elapsed());
        if now > last {
            break;
        }
        // Milliseconds of the clock here and in Redis do not begin together.
        let least = first - i64::try_from(began.elapsed().as_millis()).unwrap() - 2;
        assert!(now >= least, "{now} ms are left of {first}");
        last = now;
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    session.heartbeat().await;
    let unasked = session.unread_unasked();
    assert!(unasked.is_empty(), "{unasked:?}");
    assert!(session.release(&held.lock).await);
}

//! Wake-ups as hints: one that comes twice or from a stranger takes nothing from a holder.

use std::time::Duration;

use futures_util::StreamExt;
use leasehold_proto::v1::AcquireOutcome;
use leasehold_tests::{
    Site,
    raw::{PROMPT, acquire_request, wire},
};
use redis::aio::MultiplexedConnection;
use tokio::time::timeout;

const NAME: &str = "woken";
const KEY: &str = "lock:woken";
const TTL: Duration = Duration::from_secs(30);
/// Rounds of wake-ups, each followed by a wait: enough for a coordinator to look at the hold if it is misled.
const ROUNDS: usize = 30;

/// Publishes by hand; every coordinator that listens on the channel has it in its socket when this returns.
async fn publish(redis: &mut MultiplexedConnection, channel: &str, payload: &[u8]) {
    let mut publish = redis::cmd("PUBLISH");
    publish.arg(channel).arg(payload);
    let heard: u32 = publish.query_async(redis).await.unwrap();
    assert!(heard > 0, "a coordinator listens on {channel}");
}

fn payload(kind: u8, owner_id: &[u8], token: i64, key: &str) -> Vec<u8> {
    let token = format!("{token:020}");
    [&[kind], owner_id, token.as_bytes(), key.as_bytes()].concat()
}

/// Wake-ups that tell of a grant and of a unary grant, of this one, of another grant, and of another name.
fn forged(owner_id: &[u8], token: i64) -> Vec<Vec<u8>> {
    let mut forged = Vec::new();
    for kind in [b'G', b'U'] {
        for (token, key) in [(token, KEY), (token - 1, KEY), (token, "lock:another")] {
            forged.push(payload(kind, owner_id, token, key));
        }
    }
    forged
}

/// Returns the channel of the coordinator at which the lock is held.
async fn channel(site: &Site) -> String {
    let view = site.view(0, NAME).await;
    format!("lh:wake:{}", view.holders[0].coordinator)
}

/// Returns a time by Redis's clock at which the key has not expired: the two questions are a little apart.
async fn lasts_until(site: &Site) -> Duration {
    let now = site.time().await;
    now + site.expires_in(NAME).await
}

/// Returns a time by Redis's clock at which the key has expired. A millisecond is what Redis rounds by.
async fn has_ended_at(site: &Site) -> Duration {
    let left = site.expires_in(NAME).await;
    assert!(!left.is_zero(), "it is gone");
    site.time().await + left + Duration::from_millis(1)
}

async fn owner(redis: &mut MultiplexedConnection) -> Option<Vec<u8>> {
    let mut get = redis::cmd("GET");
    get.arg(KEY).query_async(redis).await.unwrap()
}

#[tokio::test]
async fn a_repeated_or_forged_wake_up_does_not_end_shorten_or_renew_a_unary_hold() {
    let site = Site::redis(2).await;
    let mut first = site.session(1).await;
    let held = first.acquire(NAME).await;
    let mut client = site.unary(0);
    let mut request = acquire_request(NAME);
    (request.ttl, request.wait) = (wire(TTL), wire(PROMPT));
    let acquire = tokio::spawn(async move { client.acquire(request).await });
    site.waiting(1, NAME, 1).await;
    let redis = site.server();
    let mut listening = redis.client().get_async_pubsub().await.unwrap();
    listening.psubscribe("lh:wake:*").await.unwrap();
    assert!(first.release(&held.lock).await);
    let granted = acquire.await.unwrap().unwrap().into_inner();
    assert_eq!(granted.outcome(), AcquireOutcome::Granted);
    let heard = timeout(PROMPT, listening.on_message().next()).await;
    let message = heard.unwrap().expect("the hand-off was published");
    let published = message.get_payload_bytes().to_vec();
    drop(listening);

    // What is made by hand here is what coordinators say to each other.
    let channel = channel(&site).await;
    assert_eq!(message.get_channel_name(), channel);
    let mut payloads = forged(&granted.owner_id, granted.fencing_token);
    let expected = payload(b'U', &granted.owner_id, granted.fencing_token, KEY);
    assert_eq!(published[1..], expected[1..]);
    payloads.push(published);
    let mut redis = site.plain().await;
    let before = [lasts_until(&site).await, has_ended_at(&site).await];
    for _ in 0..ROUNDS {
        for payload in &payloads {
            publish(&mut redis, &channel, payload).await;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(owner(&mut redis).await, Some(granted.owner_id));
    let after = [has_ended_at(&site).await, lasts_until(&site).await];
    assert!(after[0] >= before[0], "shortened: {before:?} {after:?}");
    assert!(after[1] <= before[1], "renewed: {before:?} {after:?}");
}

#[tokio::test]
async fn a_forged_wake_up_does_not_end_or_shorten_a_hold_of_a_session() {
    let site = Site::redis(1).await;
    let mut session = site.session_of(0, Duration::from_secs(4)).await;
    let held = session.acquire(NAME).await.lock;
    let channel = channel(&site).await;
    let mut redis = site.plain().await;
    let before = lasts_until(&site).await;
    // Until it has been renewed, with what came before long seen to.
    let mut last = Duration::MAX;
    loop {
        for payload in forged(&held.owner_id, held.fencing_token) {
            publish(&mut redis, &channel, &payload).await;
        }
        let left = site.expires_in(NAME).await;
        if left > last {
            break;
        }
        let now = has_ended_at(&site).await;
        assert!(now >= before, "shortened: {before:?} {now:?}");
        last = left;
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    session.heartbeat().await;
    let unasked = session.unread_unasked();
    assert!(unasked.is_empty(), "{unasked:?}");
    assert!(session.release(&held).await);
}

//! One subscription for each coordinator, however many names are waited for (redisson #3577 and #5046 ran out of theirs).

use std::time::Duration;

use leasehold_tests::{Coordinator, RawSession, RedisServer, raw::PROMPT};
use redis::aio::MultiplexedConnection;

const NAMES: usize = 50;
const TTL: Duration = Duration::from_secs(10);

/// Returns the channels with listeners, and the number of listening connections.
async fn subscriptions(redis: &mut MultiplexedConnection) -> (Vec<String>, usize) {
    let mut channels = redis::cmd("PUBSUB");
    channels.arg("CHANNELS");
    let mut channels: Vec<String> = channels.query_async(redis).await.unwrap();
    channels.sort_unstable();
    let mut clients = redis::cmd("CLIENT");
    clients.arg("LIST").arg("TYPE").arg("PUBSUB");
    let clients: String = clients.query_async(redis).await.unwrap();
    (channels, clients.lines().count())
}

#[tokio::test(flavor = "multi_thread")]
async fn waiting_for_many_names_takes_no_more_subscriptions_than_waiting_for_none() {
    let redis = RedisServer::start();
    let mut connection = redis.async_connection().await;
    let options = Coordinator::process().store(redis.url());
    let coordinators = [options.clone().start(), options.start()];
    let mut sessions = Vec::new();
    for coordinator in &coordinators {
        let mut session = RawSession::open(&coordinator.endpoint(), TTL).await;
        session.keep_alive(TTL / 5);
        // Once it has granted something, its links to Redis are up.
        let first = session.acquire("first").await.lock;
        assert!(session.release(&first).await);
        sessions.push(session);
    }
    let before = subscriptions(&mut connection).await;
    assert_eq!((before.0.len(), before.1), (2, 2), "{before:?}");

    let [holder, waiter] = &mut sessions[..] else {
        unreachable!("there are two");
    };
    let (mut held, mut asked) = (Vec::new(), Vec::new());
    for number in 0..NAMES {
        let name = format!("waited/{number}");
        held.push(holder.acquire(&name).await.lock);
        let id = waiter.ask(&name, None).await;
        assert_eq!(waiter.queued(id).await, 1);
        asked.push(id);
    }
    assert_eq!(subscriptions(&mut connection).await, before);
    // And they are enough.
    for (lock, id) in held.iter().zip(asked) {
        assert!(holder.release(lock).await);
        let granted = waiter.granted(id, PROMPT).await.lock;
        assert!(granted.fencing_token > lock.fencing_token);
        assert!(waiter.release(&granted).await);
    }
    assert_eq!(subscriptions(&mut connection).await, before);
    for session in sessions {
        session.close().await;
    }
}

use std::time::{Duration, Instant};

use futures_util::StreamExt;
use redis::{AsyncConnectionConfig, Client, RedisResult, Script, aio::MultiplexedConnection};
use tokio::time::timeout;

use super::{Call, Listening, Loss, RedisProxy, WakeUps};
use crate::{RedisServer, wait};

const LIMIT: Duration = Duration::from_secs(5);

async fn connect(proxy: &RedisProxy) -> MultiplexedConnection {
    let client = Client::open(format!("redis://{}", proxy.address())).unwrap();
    let config = AsyncConnectionConfig::new().set_response_timeout(Some(LIMIT / 10));
    let opened = client.get_multiplexed_async_connection_with_config(&config);
    let mut connection = opened.await.unwrap();
    let loaded = script().prepare_invoke().load_async(&mut connection).await;
    loaded.unwrap();
    connection
}

fn script() -> Script {
    Script::new("return redis.call('INCR', KEYS[1])")
}

/// Counts in Redis how often it was called for `key`.
async fn call(connection: &mut MultiplexedConnection, key: &str) -> RedisResult<u64> {
    script().key(key).invoke_async(connection).await
}

async fn called(redis: &RedisServer, key: &str) -> Option<u64> {
    let mut connection = redis.async_connection().await;
    let mut get = redis::cmd("GET");
    get.arg(key).query_async(&mut connection).await.unwrap()
}

async fn is(what: &str, probe: impl Fn() -> bool) {
    wait::until(what, LIMIT, || async {
        if probe() { Ok(()) } else { Err("not yet") }
    })
    .await;
}

#[tokio::test]
async fn one_call_or_its_reply_is_lost() {
    let redis = RedisServer::start();
    let proxy = RedisProxy::start(redis.address()).await;
    for (round, (loss, carried_out)) in [
        (Loss::ReplyCut, true),
        (Loss::ReplyHeld, true),
        (Loss::RequestCut, false),
        (Loss::RequestLate, false),
    ]
    .into_iter()
    .enumerate()
    {
        let (key, lost) = (format!("call/{round}"), round as u64 + 1);
        let mut connection = connect(&proxy).await;
        call(&mut connection, "other").await.unwrap();
        is("it to be set up", || proxy.ready() == 1).await;
        proxy.lose(Call::With(key.clone().into_bytes()), loss);
        call(&mut connection, "other").await.unwrap();
        assert_eq!(proxy.counts().lost, lost - 1);
        call(&mut connection, &key).await.unwrap_err();
        is("the loss", || proxy.counts().lost == lost).await;
        assert_eq!(called(&redis, &key).await, carried_out.then_some(1));
        assert_eq!(proxy.ready(), 0);
        drop(connection);
        is("the connection's end", || proxy.broken() == 0).await;
        let late = loss == Loss::RequestLate;
        assert_eq!(called(&redis, &key).await, carried_out.then_some(1));
        proxy.deliver();
        is("the delivery", || proxy.counts().late == u64::from(late)).await;
        assert_eq!(
            called(&redis, &key).await,
            (carried_out || late).then_some(1)
        );
    }
}

#[tokio::test]
async fn a_late_reply_passes_after_its_time_and_losses_queue_up() {
    let redis = RedisServer::start();
    let proxy = RedisProxy::start(redis.address()).await;
    let mut connection = connect(&proxy).await;
    let late = Loss::ReplyAfter(LIMIT / 25);
    for _ in 0..2 {
        proxy.lose(Call::Next, late);
    }
    for count in 1..=2 {
        let began = Instant::now();
        assert_eq!(call(&mut connection, "late").await.unwrap(), count);
        assert!(began.elapsed() >= LIMIT / 25);
        assert_eq!(proxy.counts().lost, count);
        assert_eq!((proxy.broken(), proxy.ready()), (0, 1));
    }
    call(&mut connection, "late").await.unwrap();
    assert_eq!(proxy.counts().lost, 2);
}

#[tokio::test]
async fn wake_ups_are_dropped_and_subscriptions_broken() {
    let redis = RedisServer::start();
    let proxy = RedisProxy::start(redis.address()).await;
    let client = Client::open(format!("redis://{}/?protocol=resp3", proxy.address())).unwrap();
    let mut direct = redis.async_connection().await;
    let mut publish = async |text: &str| -> u32 {
        let mut publish = redis::cmd("PUBLISH");
        publish.arg("lh:wake:here").arg(text);
        publish.query_async(&mut direct).await.unwrap()
    };
    let listen = async || {
        let mut listener = client.get_async_pubsub().await.unwrap();
        listener.subscribe("lh:wake:here").await.map(|()| listener)
    };

    let mut listener = listen().await.unwrap();
    proxy.set_wake_ups(WakeUps::DropNext);
    for text in ["one", "two"] {
        assert_eq!(publish(text).await, 1);
    }
    let heard = timeout(LIMIT, listener.on_message().next()).await.unwrap();
    assert_eq!(heard.unwrap().get_payload_bytes(), b"two");
    assert_eq!((proxy.counts().not_woken, proxy.counts().woken), (1, 1));

    proxy.silence_subscription();
    is("silence", || proxy.counts().silenced == 1).await;
    assert_eq!(publish("three").await, 1);
    is("what is not heard", || proxy.counts().not_woken == 2).await;
    let mut other = listen().await.unwrap();
    assert_eq!(publish("four").await, 2);
    let heard = timeout(LIMIT, other.on_message().next()).await.unwrap();
    assert_eq!(heard.unwrap().get_payload_bytes(), b"four");

    proxy.cut_subscription();
    is("both cut", || proxy.counts().cut == 2).await;
    assert!(
        timeout(LIMIT, other.on_message().next())
            .await
            .unwrap()
            .is_none()
    );
    proxy.set_listening(Listening::Cut);
    assert!(listen().await.is_err());
    proxy.set_listening(Listening::Works);
    let _listener = listen().await.unwrap();
    assert_eq!(proxy.subscribed(), 1);
}

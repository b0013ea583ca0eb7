//! Grants whose reply comes so late that their time is over.

use std::time::Duration;

use leasehold_tests::{
    Coordinator, RawSession, RedisProxy, RedisServer,
    alone::alone,
    redis_proxy::{Call, Loss},
};

/// The time of a grant, and when Redis's reply to the acquire comes.
const TTL: Duration = Duration::from_secs(1);
const DELAY: Duration = Duration::from_secs(2);
const LIMIT: Duration = Duration::from_secs(20);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_grant_that_comes_after_its_ttl_is_refused() {
    let _alone = alone().await;
    let redis = RedisServer::start();
    let proxy = RedisProxy::start(redis.address()).await;
    let coordinator = Coordinator::process()
        .store(redis.url_through(proxy.address()))
        // Redis does not take too long for this.
        .arguments(["--store-timeout=30s", "--min-ttl=1s"])
        .start();
    let mut session = RawSession::open(&coordinator.endpoint(), TTL).await;
    // The lease itself goes on: it holds nothing that Redis would have to be asked about.
    session.keep_alive(TTL / 10);
    proxy.lose(Call::With(b"lock:late".to_vec()), Loss::ReplyAfter(DELAY));
    let id = session.ask("late", None).await;
    let refusal = session.refusal(id, LIMIT).await;
    assert_eq!(refusal.reason, "STORE_INDETERMINATE", "{refusal:?}");
    assert!(refusal.message.contains("came so late"), "{refusal:?}");
    assert_eq!(proxy.counts().lost, 1);
    // It is free, and the session goes on.
    let granted = session.acquire("late").await;
    assert!(session.release(&granted.lock).await);
    assert!(session.unread_unasked().is_empty());
    session.close().await;
}

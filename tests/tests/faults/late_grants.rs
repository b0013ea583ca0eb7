//! Grants whose reply comes so late that their time is over.

use std::time::Duration;

use leasehold_tests::{
    RawSession,
    alone::alone,
    redis_proxy::{Call, Loss},
};

use crate::late_replies::Site;

/// The time of a grant, and when Redis's reply to the acquire comes.
const TTL: Duration = Duration::from_secs(1);
const DELAY: Duration = Duration::from_secs(2);
const LIMIT: Duration = Duration::from_secs(20);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_grant_that_comes_after_its_ttl_is_refused() {
    let _alone = alone().await;
    let site = Site::start().await;
    let mut session = RawSession::open(&site.coordinator.endpoint(), TTL).await;
    // The lease itself goes on: it holds nothing that Redis would have to be asked about.
    session.keep_alive(TTL / 10);
    let call = Call::With(b"lock:late".to_vec());
    site.proxy.lose(call, Loss::ReplyAfter(DELAY));
    let id = session.ask("late", None).await;
    let refusal = session.refusal(id, LIMIT).await;
    assert_eq!(refusal.reason, "STORE_INDETERMINATE", "{refusal:?}");
    assert!(refusal.message.contains("came so late"), "{refusal:?}");
    assert_eq!(site.proxy.counts().lost, 1);
    // It is free, and the session goes on.
    let granted = session.acquire("late").await;
    assert!(session.release(&granted.lock).await);
    assert!(session.unread_unasked().is_empty());
    session.close().await;
}

//! Masters whose replies come late: a grant and a renewal count from when they were sent.

use std::time::Duration;

use leasehold_core::command::{Op, Reply};
use leasehold_store::{Stamped, Store, clock};
use leasehold_tests::{
    Masters, RedisProxy,
    redis_proxy::{Call, Loss},
};

use crate::quorum::site::{LONG, UNHURRIED, long, owner, proxied, renew_for, try_run};

const DELAY: Duration = Duration::from_millis(500);

/// Carries out an operation to whose last question every master replies late.
async fn delayed(store: &Store, proxies: &[RedisProxy], last: &[u8], op: Op) -> Stamped {
    for proxy in proxies {
        proxy.lose(Call::With(last.to_vec()), Loss::ReplyAfter(DELAY));
    }
    let before = clock::now();
    let stamped = try_run(store, op).await.unwrap();
    // The replies came that much later than what they answer was sent.
    assert!(stamped.sent_at.after(DELAY) <= clock::now());
    assert!(before <= stamped.sent_at);
    stamped
}

#[tokio::test]
async fn a_grant_by_the_masters_counts_from_its_sending() {
    let masters = Masters::start(3).bootstrapped();
    let (store, proxies) = proxied(&masters, UNHURRIED).await;
    // The first that names the client is the second round, in which a grant is written back.
    let granted = delayed(&store, &proxies, b"client", Op::Acquire(long(1))).await;
    assert!(matches!(granted.executed.reply, Reply::Granted { .. }));
    let renewal = renew_for(LONG, 1);
    let renewed = delayed(&store, &proxies, owner(1).as_bytes(), renewal).await;
    assert_eq!(renewed.executed.reply, Reply::Renewed);
    for proxy in &proxies {
        assert_eq!(proxy.counts().lost, 2);
    }
}

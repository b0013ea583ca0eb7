//! Grants and renewals on which a majority agrees so late that their time is over.

use std::time::Duration;

use leasehold_core::command::{Acquire, Op, Reply};
use leasehold_store::StoreError;
use leasehold_tests::{
    Masters,
    redis_proxy::{Call, Loss},
};

use crate::quorum::site::{
    LONG, UNHURRIED, acquire, all_hold, owner, proxied, renew_for, take, try_run,
};

/// The TTL of what is granted too late, and by how much more than that the masters' replies are delayed.
const TTL: Duration = Duration::from_millis(500);
const DELAY: Duration = Duration::from_millis(1_500);

#[tokio::test]
async fn a_grant_on_which_masters_agreed_after_its_ttl_is_refused_and_taken_back() {
    let masters = Masters::start(3).bootstrapped();
    let (store, proxies) = proxied(&masters, UNHURRIED).await;
    for proxy in &proxies {
        // The first that names the client is the second round, in which a grant is written back. It is carried out.
        let write_back = Call::With(b"client".to_vec());
        proxy.lose(write_back, Loss::ReplyAfter(DELAY));
    }
    let short = Acquire {
        ttl: TTL,
        // What is left of it is there for long enough to be seen.
        lock_delay: LONG,
        ..acquire(1)
    };
    let refused = try_run(&store, Op::Acquire(short)).await;
    let Err(StoreError::Unavailable { reason }) = refused else {
        panic!("not refused: {refused:?}")
    };
    assert!(
        reason.contains("took longer to agree than the TTL"),
        "{reason}"
    );
    let lost: Vec<u64> = proxies.iter().map(|proxy| proxy.counts().lost).collect();
    assert_eq!(lost, [1, 1, 1]);
    // Nothing of it stands in the way of others.
    all_hold(&masters, None).await;
    take(&store, acquire(2)).await;
    all_hold(&masters, Some(2)).await;
}

#[tokio::test]
async fn a_renewal_on_which_masters_agreed_after_its_ttl_is_not_certain() {
    let masters = Masters::start(3).bootstrapped();
    let (store, proxies) = proxied(&masters, UNHURRIED).await;
    take(&store, acquire(1)).await;
    // The masters say at once that they have it, and their answers are old when they are heard.
    for proxy in &proxies {
        let renewal = Call::With(owner(1).as_bytes().to_vec());
        proxy.lose(renewal, Loss::ReplyAfter(DELAY));
    }
    let late = try_run(&store, renew_for(TTL, 1)).await;
    let Err(StoreError::Indeterminate { reason }) = late else {
        panic!("not refused: {late:?}")
    };
    assert!(
        reason.contains("took longer to agree than the TTL"),
        "{reason}"
    );
    // By then it has expired everywhere.
    let lost = try_run(&store, renew_for(TTL, 1)).await.unwrap();
    assert!(matches!(lost.executed.reply, Reply::Lost(_)), "{lost:?}");
}

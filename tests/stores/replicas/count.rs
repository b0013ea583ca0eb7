//! The number of replicas that acknowledged: a `WAIT` that ends with too few of them is no acknowledgement, however soon it
//! ends.

use std::time::Duration;

use leasehold_tests::{raw::PROMPT, wait};

use crate::replicas::site::Site;

#[tokio::test(flavor = "multi_thread")]
async fn a_wait_that_ends_early_with_too_few_replicas_grants_nothing() {
    let site = Site::start(2);
    let mut session = site.session(0).await;
    let before = session.acquire("counted").await.lock;
    assert!(session.release(&before).await);
    site.stop_a_replica();
    let id = session.ask("counted", Some(Duration::ZERO)).await;
    // Redis answers a WAIT that is unblocked as it does one whose time is over: with the replicas counted so far.
    wait::until("a WAIT to be unblocked", PROMPT, || site.unblock_a_wait()).await;
    let refusal = session.refusal(id, PROMPT).await;
    assert_eq!(refusal.reason, "NOT_REPLICATED", "{refusal:?}");
    wait::until("the grant to be taken back", PROMPT, || async {
        site.left_at_the_master("counted").await.map_or(Ok(()), Err)
    })
    .await;
    site.let_it_go_on();
    session.close().await;
}

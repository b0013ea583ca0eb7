//! Tokens that are raised when a hold ends.

use std::time::Duration;

use leasehold_core::command::Op;
use leasehold_store::StoreError;
use leasehold_tests::{
    Masters,
    redis_proxy::{Call, Loss},
    wait,
};
use redis::Commands;

use crate::quorum::site::{
    PROMPT, UNHURRIED, long, proxied, release, released, run, store, take, try_run,
};

#[tokio::test]
async fn a_release_raises_the_token_where_nothing_was_known_of_the_hold() {
    let masters = Masters::start(3).bootstrapped();
    let store = store(&masters, "here").await;
    take(&store, long(1)).await;
    let lacking = masters.server(2);
    let known = || -> Vec<String> { lacking.connection().keys("*lock:x").unwrap() };
    wait::until("the last master to have the hold", PROMPT, || async {
        if known().len() > 1 {
            Ok(())
        } else {
            Err(known())
        }
    })
    .await;
    let _: u32 = lacking.connection().del(known()).unwrap();
    assert_eq!(run(&store, release(1)).await.reply, released(true));
    wait::until("the last master to know of a token", PROMPT, || async {
        if known().is_empty() { Err(()) } else { Ok(()) }
    })
    .await;
}

#[tokio::test]
async fn a_force_after_which_no_majority_has_the_new_token_is_not_said_to_be_done() {
    let masters = Masters::start(3).bootstrapped();
    let (store, proxies) = proxied(&masters, UNHURRIED).await;
    take(&store, long(1)).await;
    for proxy in &proxies[..2] {
        let of_the_lock = || Call::With(b"lock:x".to_vec());
        // The first round is carried out, and the second does not get there.
        proxy.lose(of_the_lock(), Loss::ReplyAfter(Duration::ZERO));
        proxy.lose(of_the_lock(), Loss::RequestCut);
    }
    let forced = try_run(&store, Op::ForceRelease).await;
    assert!(
        matches!(forced, Err(StoreError::Indeterminate { .. })),
        "{forced:?}"
    );
}

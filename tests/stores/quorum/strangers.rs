//! Keys on some masters that hold something other than a lock, and masters that don't answer every question.

use leasehold_core::command::Op;
use leasehold_store::{StoreError, open};
use leasehold_tests::{
    Masters,
    redis_proxy::{Call, Loss},
};
use redis::Commands;

use crate::quorum::site::{PATIENCE, acquire, down_for, options, proxied, take, try_run, up};

fn add_stranger(masters: &Masters, index: usize) {
    let mut connection = masters.server(index).connection();
    let added: u8 = connection.hset("lock:x", "of", "a stranger").unwrap();
    assert_eq!(added, 1);
}

#[tokio::test]
async fn one_key_that_is_no_lock_is_not_the_error_of_an_undecided_write_back() {
    let masters = Masters::start(3).bootstrapped();
    let (store, proxies) = proxied(&masters, PATIENCE).await;
    add_stranger(&masters, 0);
    // The first call that names the client is the second round, in which a grant is written back.
    proxies[2].lose(Call::With(b"client".to_vec()), Loss::RequestCut);
    let undecided = try_run(&store, Op::Acquire(acquire(1))).await;
    let Err(StoreError::Unavailable { reason }) = undecided else {
        panic!("{undecided:?}")
    };
    assert!(reason.contains("not a lock"), "{reason}");
}

#[tokio::test]
async fn keys_that_are_no_locks_on_a_majority_are_the_error() {
    let masters = Masters::start(3).bootstrapped();
    let (store, _proxies) = proxied(&masters, PATIENCE).await;
    add_stranger(&masters, 0);
    add_stranger(&masters, 1);
    let refused = try_run(&store, Op::Acquire(acquire(1))).await;
    assert!(
        matches!(refused, Err(StoreError::WrongType { .. })),
        "{refused:?}"
    );
}

#[tokio::test]
async fn masters_vote_as_soon_as_the_user_may_ask_info() {
    let masters = Masters::start(3).bootstrapped();
    let allow = |rule: &str| {
        for server in masters.servers() {
            let mut acl = redis::cmd("ACL");
            acl.arg("SETUSER").arg("default").arg(rule);
            let () = acl.query(&mut server.connection()).unwrap();
        }
    };
    allow("-info");
    let (store, _) = open(options(&masters, "here")).unwrap();
    down_for(&store, "let the user of the store URL ask INFO").await;
    allow("+info");
    up(&store).await;
    take(&store, acquire(1)).await;
}

//! Failed attempts that are tried again before their remains are taken back.

use std::time::Duration;

use leasehold_core::{
    command::{Acquire, Op, Reply},
    id::FencingToken,
};
use leasehold_store::Store;
use leasehold_tests::{
    Masters,
    redis_proxy::{Call, Loss},
    wait,
};
use redis::Commands;

use crate::{
    quorum::site::{
        LONG, PATIENCE, PROMPT, acquire, all_hold, key, long, owner, proxied, renew_for, run,
        store, take, try_run,
    },
    store::command,
};

/// Returns the newest token that a master knows of the lock `x`.
fn token(masters: &Masters, place: usize) -> i64 {
    let mut connection = masters.server(place).connection();
    let records: Vec<String> = connection.keys("lh:*:token:lock:x").unwrap();
    let record: Vec<u8> = connection.get(&records[0]).unwrap();
    i64::from_be_bytes(record[..8].try_into().unwrap())
}

/// Waits until enough masters answer again, whose connections were cut, to grant an acquire; gives its token.
async fn granted(store: &Store, acquire: Acquire) -> FencingToken {
    let granted = wait::until("it to be granted", PROMPT, || async {
        match try_run(store, Op::Acquire(acquire.clone())).await {
            Ok(stamped) => Ok(stamped.executed.reply),
            Err(error) => Err(error.to_string()),
        }
    })
    .await;
    let Reply::Granted { token, .. } = granted else {
        panic!("not granted: {granted:?}")
    };
    token
}

#[tokio::test]
async fn a_grant_of_a_later_try_is_not_undone_with_an_earlier_one() {
    let masters = Masters::start(3).bootstrapped();
    let (store, proxies) = proxied(&masters, PATIENCE).await;
    for proxy in &proxies {
        // It is written back everywhere, and nobody learns of it.
        proxy.lose(Call::With(b"client".to_vec()), Loss::ReplyCut);
        // What undoes that does not come at first; then it does: it is the only one that names us and such a token.
        let undo = Call::With(b"here\r\n$16\r\n".to_vec());
        proxy.lose(undo.clone(), Loss::RequestCut);
        proxy.lose(undo, Loss::ReplyAfter(Duration::ZERO));
    }
    let waits = Acquire {
        wait: true,
        ..long(1)
    };
    let failed = try_run(&store, Op::Acquire(waits.clone())).await;
    assert!(failed.is_err(), "{failed:?}");
    let written = token(&masters, 0);
    let again = Acquire {
        again: true,
        ..waits
    };
    let token = granted(&store, again).await;
    assert!(token.get() > written, "{token:?} is to be undone");
    wait::until("the first try to be undone", PROMPT, || async {
        let lost: Vec<u64> = proxies.iter().map(|proxy| proxy.counts().lost).collect();
        // One that was not reached at first has nothing to undo.
        let undone = lost.iter().filter(|lost| **lost == 3).count();
        if undone >= 2 { Ok(()) } else { Err(lost) }
    })
    .await;
    // What a try that came to nothing left may be taken back at one of them.
    let of_it = Some(owner(1).as_bytes().to_vec());
    let found: Vec<_> = masters.servers().iter().map(key).collect();
    let number = found.iter().filter(|found| **found == of_it).count();
    assert!(number >= 2, "{found:?}");
}

#[tokio::test]
async fn an_acquire_that_is_sent_again_leaves_a_longer_end_as_it_is() {
    let masters = Masters::start(3).bootstrapped();
    let store = store(&masters, "here").await;
    let token = take(&store, acquire(1)).await;
    let renewed = run(&store, renew_for(LONG * 10, 1)).await.reply;
    assert_eq!(renewed, Reply::Renewed);
    let again = Acquire {
        again: true,
        ..acquire(1)
    };
    assert_eq!(take(&store, again).await, token);
    for server in masters.servers() {
        let left: u64 = server.connection().pttl("lock:x").unwrap();
        // The test takes no longer than what is missing.
        assert!(Duration::from_millis(left) > LONG * 9, "{left} ms");
    }
}

/// A late request that takes an earlier try back spares a later one only if that one's token is larger.
#[tokio::test]
async fn a_later_try_has_a_larger_token_than_one_that_no_master_knows() {
    let masters = Masters::start(3).bootstrapped();
    let (store, proxies) = proxied(&masters, PATIENCE).await;
    for proxy in &proxies {
        // No master is told the token: only what writes it back has the client's name.
        proxy.lose(Call::With(b"client".to_vec()), Loss::RequestCut);
    }
    let far = store_time(&masters) + 60_000_000;
    let mut ahead = command("here", "x", Op::Acquire(acquire(1)));
    ahead.caller.floor = FencingToken::new(far);
    let failed = store.execute(ahead).await;
    assert!(failed.is_err(), "{failed:?}");
    all_hold(&masters, None).await;
    let again = Acquire {
        again: true,
        ..acquire(1)
    };
    let token = granted(&store, again).await;
    assert!(token.get() > far, "{token} may be that of the try before");
}

/// Returns the time of the first master (µs).
fn store_time(masters: &Masters) -> i64 {
    let (seconds, micros): (i64, i64) = redis::cmd("TIME")
        .query(&mut masters.server(0).connection())
        .unwrap();
    seconds * 1_000_000 + micros
}

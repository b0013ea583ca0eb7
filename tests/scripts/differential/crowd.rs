//! Coordinator that dies with more waiters than a script removes at once.

use std::time::Duration;

use leasehold_core::{
    command::{Op, PLACES_KEPT, Reply},
    mode::Mode,
};
use leasehold_tests::RedisServer;

use crate::differential::pair::{Pair, acquire, owner, release, resume};

/// More than are removed with one operation, and with a few.
const DEAD: u16 = 2_000;
/// They live.
const LIVING: u16 = 20;

#[tokio::test(flavor = "multi_thread")]
async fn a_dead_crowd_is_skipped_then_forgotten_and_never_comes_back() {
    let redis = RedisServer::start();
    let mut pair = Pair::new(&redis, "crowded").await;
    pair.run("living", acquire(0, Mode::Exclusive)).await;
    for number in 1..=DEAD {
        pair.run("dead", acquire(number, Mode::Exclusive)).await;
    }
    let living = DEAD + 1..=DEAD + LIVING;
    for number in living.clone() {
        pair.run("living", acquire(number, Mode::Exclusive)).await;
    }
    pair.run("living", Op::View { waiters: 10 }).await;

    // Taken for dead, and skipped.
    tokio::time::sleep(Duration::from_millis(2_200)).await;
    pair.run("living", release(0)).await;
    pair.run("living", Op::View { waiters: 1_000 }).await;

    // It has lost its places. Not all of them can have been removed when it comes back and joins again, partly with the same
    // owner ids.
    for _ in 0..PLACES_KEPT.as_secs() {
        tokio::time::sleep(Duration::from_secs(1)).await;
        pair.run("living", Op::Refresh { oldest: None }).await;
    }
    let oldest = Some(owner(DEAD - 1));
    pair.run("dead", Op::Refresh { oldest }).await;
    let returned = [3, DEAD - 1, DEAD + LIVING + 1, DEAD];
    for number in returned {
        pair.run("dead", acquire(number, Mode::Exclusive)).await;
        pair.run("living", Op::View { waiters: 1_000 }).await;
    }
    pair.run("dead", release(5)).await;
    for number in living.chain(returned) {
        pair.run("dead", release(number)).await;
        pair.run("dead", Op::View { waiters: 1_000 }).await;
    }

    let left: Vec<String> = redis::cmd("KEYS")
        .arg("*")
        .query_async(&mut redis.async_connection().await)
        .await
        .unwrap();
    assert!(left.iter().all(|key| key.contains(":token:")), "{left:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dead_crowd_does_not_come_back_with_a_place_that_was_before_it() {
    let redis = RedisServer::start();
    let mut pair = Pair::new(&redis, "crowded").await;
    pair.run("living", acquire(0, Mode::Exclusive)).await;
    let before = DEAD + 1..=DEAD + LIVING;
    for number in before.clone() {
        pair.run("living", acquire(number, Mode::Exclusive)).await;
    }
    for number in 1..=DEAD {
        pair.run("dead", acquire(number, Mode::Exclusive)).await;
        // That may take longer than the places of the living are kept by themselves.
        if number % 100 == 0 {
            pair.run("living", Op::Refresh { oldest: None }).await;
        }
    }
    for _ in 0..PLACES_KEPT.as_secs() {
        tokio::time::sleep(Duration::from_secs(1)).await;
        pair.run("living", Op::Refresh { oldest: None }).await;
    }
    tokio::time::sleep(Duration::from_millis(200)).await;

    // It takes over places that are before those which it lost, of which not all can have been removed: first a later one,
    // then an earlier one, and then its own.
    pair.run("dead", acquire(3, Mode::Exclusive)).await;
    for (from, next) in [
        (DEAD + 9, 9_009),
        (DEAD + 5, 9_005),
        (9_009, 8_009),
        (9_005, 8_005),
    ] {
        let reply = pair.run("dead", resume(&[from], next)).await;
        assert!(matches!(reply, Reply::ResumedWait { .. }), "{reply:?}");
        let seen = pair.run("living", Op::View { waiters: 1_000 }).await;
        let is_right =
            matches!(&seen, Reply::Seen(view) if view.waiter_count == u64::from(LIVING) + 1);
        assert!(is_right, "{seen:?}");
    }
    pair.run("living", release(0)).await;
    for number in before.chain([8_005, 8_009, 3]) {
        pair.run("dead", release(number)).await;
    }
    let left = pair.run("living", Op::View { waiters: 1_000 }).await;
    assert!(
        matches!(&left, Reply::Seen(view) if (view.waiter_count, view.holder_count) == (0, 0)),
        "{left:?}"
    );
}

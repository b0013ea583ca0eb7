//! Coordinator that dies with more waiters than a script removes at once.

use std::time::Duration;

use leasehold_core::{
    command::{DEAD_AFTER, Op, PLACES_KEPT, Reply},
    mode::Mode,
};

use crate::{
    common::{acquire, owner, release, resume},
    differential::{pair::Pair, server::Server},
};

/// More than are removed with one operation, and with a few.
const DEAD: u16 = 2_000;
/// They live.
const LIVING: u16 = 20;
/// Waiters to be seen, where those that are dead would be in the way.
const WAITERS: usize = 1_000;

/// Has the coordinators' waiters join the queue of a lock that is held.
async fn queue(server: &Server, joining: [(&str, std::ops::RangeInclusive<u16>); 2]) -> Pair {
    let mut pair = Pair::new(server, "crowded").await;
    pair.run("living", acquire(0, Mode::Exclusive)).await;
    for (coordinator, numbers) in joining {
        for number in numbers {
            let acquire = acquire(number, Mode::Exclusive);
            pair.run(coordinator, acquire).await;
        }
    }
    pair
}

/// Lets those who are silent lose their places.
async fn outlive(server: &mut Server, pair: &mut Pair) {
    for _ in 0..=PLACES_KEPT.as_secs() {
        server.pass(Duration::from_secs(1));
        pair.run("living", Op::Refresh { oldest: None }).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dead_crowd_is_skipped_then_forgotten_and_never_comes_back() {
    let mut server = Server::start().await;
    let living = DEAD + 1..=DEAD + LIVING;
    let mut pair = queue(&server, [("dead", 1..=DEAD), ("living", living.clone())]).await;

    // Taken for dead, and skipped.
    server.pass(DEAD_AFTER + Duration::from_millis(200));
    pair.run("living", release(0)).await;
    pair.view(WAITERS).await;

    // It has lost its places. Not all of them can have been removed when it comes back and joins again, partly with the same
    // owner ids.
    outlive(&mut server, &mut pair).await;
    let oldest = Some(owner(DEAD - 1));
    pair.run("dead", Op::Refresh { oldest }).await;
    let returned = [3, DEAD - 1, DEAD + LIVING + 1, DEAD];
    for number in returned {
        pair.run("dead", acquire(number, Mode::Exclusive)).await;
        pair.view(WAITERS).await;
    }
    pair.run("dead", release(5)).await;
    for number in living.chain(returned) {
        pair.run("dead", release(number)).await;
        pair.view(WAITERS).await;
    }
    server.nothing_but_tokens_is_left().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dead_crowd_does_not_come_back_with_a_place_that_was_before_it() {
    let mut server = Server::start().await;
    let before = DEAD + 1..=DEAD + LIVING;
    let mut pair = queue(&server, [("living", before.clone()), ("dead", 1..=DEAD)]).await;
    outlive(&mut server, &mut pair).await;

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
        let seen = pair.view(WAITERS).await;
        assert_eq!(seen.waiter_count, u64::from(LIVING) + 1);
    }
    pair.run("living", release(0)).await;
    for number in before.chain([8_005, 8_009, 3]) {
        pair.run("dead", release(number)).await;
    }
    let left = pair.view(WAITERS).await;
    assert_eq!((left.waiter_count, left.holder_count), (0, 0));
}

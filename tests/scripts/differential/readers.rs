//! More holders of one name than one operation grants it to, or shows.

use std::time::Duration;

use leasehold_core::{
    command::{Acquire, CURRENT_AT_ONCE, GRANTS_AT_ONCE, Op, Reply},
    mode::{Mode, Permits},
    view::{EDGES, HOLDERS_SHOWN},
};

use crate::{
    common::{acquire, acquiring, release, release_uncleanly, renew},
    differential::{pair::Pair, server::Server},
};

/// More than the detector of deadlocks looks at.
const READERS: u16 = 600;
/// The coordinator of all of them: what it hands on to its own waiters stands without a claim.
const HERE: &str = "here";

#[tokio::test(flavor = "multi_thread")]
async fn a_crowd_of_readers_is_let_in_some_at_a_time() {
    let server = Server::start().await;
    let mut pair = Pair::new(&server, "read").await;
    pair.run(HERE, acquire(0, Mode::Exclusive)).await;
    for number in 1..=READERS {
        pair.run(HERE, acquire(number, Mode::Shared)).await;
    }
    let last = READERS + 1;
    pair.run(HERE, acquire(last, Mode::Exclusive)).await;

    let_in(&mut pair, READERS).await;

    let view = pair.view(3).await;
    assert_eq!(view.holders.len(), HOLDERS_SHOWN);
    assert_eq!(view.holder_count, u64::from(READERS));
    let Reply::Edges(edges) = pair.run(HERE, Op::Edges).await else {
        panic!("edges are shown")
    };
    assert!(!edges.complete && edges.holders.is_empty());

    // Renewed, or released, they are no longer fresh: others are told of.
    for number in 1..=READERS - u16::try_from(EDGES).unwrap() {
        let op = match number % 3 {
            0 => release(number),
            _ => renew(number, Duration::from_secs(600)),
        };
        pair.run(HERE, op).await;
        let refreshed = pair.run(HERE, Op::Refresh { oldest: None }).await;
        assert!(
            matches!(refreshed, Reply::Refreshed { current, .. } if current.len() == CURRENT_AT_ONCE)
        );
    }
    let Reply::Forced { former, .. } = pair.run(HERE, Op::ForceRelease).await else {
        panic!("it is force-released")
    };
    assert!(former.len() > EDGES);
    pair.run(HERE, release(last)).await;
    server.nothing_but_tokens_is_left().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_crowd_shares_a_semaphore() {
    let server = Server::start().await;
    let mut pair = Pair::new(&server, "counted").await;
    let permits = |number| Mode::Semaphore(Permits::new(number, 250).unwrap());
    // One that takes all, and a crowd that waits.
    pair.run(HERE, acquire(0, permits(250))).await;
    for number in 1..=300 {
        pair.run(HERE, acquire(number, permits(1))).await;
    }
    let_in(&mut pair, 250).await;
    for number in 1..=300 {
        pair.run(HERE, release(number)).await;
        pair.view(1).await;
    }
    server.nothing_but_tokens_is_left().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_crowd_of_ghosts_hides_no_holder() {
    let server = Server::start().await;
    let mut pair = Pair::new(&server, "haunted").await;
    for number in 0..1_200 {
        let asked = Acquire {
            lock_delay: Duration::from_secs(if number % 4 == 0 { 0 } else { 60 }),
            ..acquiring(number, Mode::Shared)
        };
        pair.run(HERE, Op::Acquire(asked)).await;
    }
    // Those that have a lock-delay: they end long before the others.
    for number in (0..1_200).filter(|number| number % 4 != 0) {
        pair.run(HERE, release_uncleanly(number)).await;
    }
    let view = pair.view(0).await;
    assert_eq!((view.holders.len(), view.holder_count), (100, 300));
    assert!(view.closed_for.is_some());
    pair.run(HERE, Op::Edges).await;
    pair.run(HERE, acquire(2_000, Mode::Exclusive)).await;
    for number in (0..1_200).step_by(4) {
        pair.run(HERE, release(number)).await;
    }
    pair.view(2).await;
    pair.run(HERE, Op::ForceRelease).await;
    pair.run(HERE, release(2_000)).await;
    server.nothing_but_tokens_is_left().await;
}

/// Ends the hold that is in the way of so many, and has its waiters let in.
async fn let_in(pair: &mut Pair, expected: u16) {
    let mut let_in = 0;
    let mut more = 0;
    let mut op = release(0);
    loop {
        let done = pair.execute(HERE, op).await;
        assert!(done.handed.len() == GRANTS_AT_ONCE || !done.more);
        let_in += done.handed.len();
        more += usize::from(done.more);
        pair.view(3).await;
        pair.run(HERE, Op::Edges).await;
        if let_in >= usize::from(expected) {
            break;
        }
        op = Op::Refresh { oldest: None };
    }
    assert_eq!(let_in, usize::from(expected));
    assert!(more > 0);
}

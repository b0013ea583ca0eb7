//! Masters that do not answer: they cost no time, unless their votes are needed.

use std::time::{Duration, Instant};

use leasehold_core::command::{Acquire, Op, Reply};
use leasehold_store::StoreError;
use leasehold_tests::{Latencies, Masters};

use crate::quorum::site::{
    PATIENCE, acquire, down, release, released, run, store, take, try_run, up,
};

/// Number of locks that are taken while two masters are hung.
const TAKEN: u8 = 200;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_hung_masters_of_five_slow_nobody_down() {
    let masters = Masters::start(5).bootstrapped();
    let store = store(&masters, "here").await;
    masters.pause(1);
    masters.pause(3);
    let mut latencies = Latencies::new("acquire, 2 of 5 masters hung");
    for number in 1..=TAKEN {
        let began = Instant::now();
        take(&store, acquire(number)).await;
        latencies.record(began.elapsed());
        assert_eq!(run(&store, release(number)).await.reply, released(true));
    }
    latencies.print();
    assert!(latencies.quantile(0.99) < PATIENCE * 2);
    masters.resume(1);
    masters.resume(3);
}

#[tokio::test]
async fn a_hung_master_whose_vote_is_needed_is_waited_for_no_longer_than_its_time() {
    let masters = Masters::start(5).bootstrapped();
    let store = store(&masters, "here").await;
    for place in 0..3 {
        masters.pause(place);
    }
    let began = Instant::now();
    let refused = try_run(&store, Op::Acquire(acquire(1))).await;
    let took = began.elapsed();
    assert!(took < PATIENCE * 3, "{took:?}");
    let Err(StoreError::Unavailable { reason }) = refused else {
        panic!("not unavailable: {refused:?}")
    };
    assert!(
        reason.contains("2 of 5 masters voted, and 3 are needed"),
        "{reason}"
    );
    for place in 0..3 {
        masters.resume(place);
    }
    up(&store).await;
    // Nothing of what failed stands in the way of others.
    let waits = Acquire {
        wait: false,
        ..acquire(2)
    };
    leasehold_tests::wait::until("the lock to be free", Duration::from_secs(5), || async {
        match try_run(&store, Op::Acquire(waits.clone())).await {
            Ok(stamped) => match stamped.executed.reply {
                Reply::Granted { .. } => Ok(()),
                other => Err(format!("{other:?}")),
            },
            Err(error) => Err(error.to_string()),
        }
    })
    .await;
}

#[tokio::test]
async fn without_a_majority_nothing_is_granted_and_it_is_said_why() {
    let mut masters = Masters::start(5).bootstrapped();
    let store = store(&masters, "here").await;
    take(&store, acquire(1)).await;
    for place in 0..3 {
        masters.kill(place);
    }
    let reason = down(&store).await;
    assert!(
        reason.contains("2 of 5 masters have a vote, and 3 are needed"),
        "{reason}"
    );
    let began = Instant::now();
    let refused = try_run(&store, Op::Acquire(acquire(2))).await;
    assert!(began.elapsed() < PATIENCE * 3);
    let Err(StoreError::Unavailable { reason }) = refused else {
        panic!("not unavailable: {refused:?}")
    };
    for place in 0..3 {
        let address = masters.server(place).address().to_string();
        assert!(reason.contains(&address), "{reason}");
    }
    // It may be held all the same: whoever holds it is not told that it is lost.
    let renewed = try_run(&store, crate::quorum::site::renew(1)).await;
    assert!(
        matches!(renewed, Err(StoreError::Indeterminate { .. })),
        "{renewed:?}"
    );
}

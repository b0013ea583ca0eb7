//! Masters that do not answer: they cost no time, unless their votes are needed.

use leasehold_core::command::{Acquire, Op, Reply};
use leasehold_store::StoreError;
use leasehold_tests::Masters;
use tokio::time::timeout;

use crate::quorum::site::{
    PROMPT, UNHURRIED, acquire, down, release, released, renew, run, store, store_with, take,
    try_run, up,
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_hung_masters_of_five_slow_nobody_down() {
    let masters = Masters::start(5).bootstrapped();
    let store = store_with(&masters, "here", UNHURRIED).await;
    masters.pause(1);
    masters.pause(3);
    let cycles = async {
        for number in 1..=20 {
            take(&store, acquire(number)).await;
            assert_eq!(run(&store, release(number)).await.reply, released(true));
        }
    };
    // One that waited for a hung master would take longer.
    timeout(PROMPT, cycles).await.unwrap();
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
    let refused = timeout(PROMPT, try_run(&store, Op::Acquire(acquire(1)))).await;
    let Err(StoreError::Unavailable { reason }) = refused.unwrap() else {
        panic!("not unavailable")
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
    leasehold_tests::wait::until("the lock to be free", PROMPT, || async {
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
    let refused = timeout(PROMPT, try_run(&store, Op::Acquire(acquire(2)))).await;
    let Err(StoreError::Unavailable { reason }) = refused.unwrap() else {
        panic!("not unavailable")
    };
    for place in 0..3 {
        let address = masters.server(place).address().to_string();
        assert!(reason.contains(&address), "{reason}");
    }
    // It may be held all the same: whoever holds it is not told that it is lost.
    let renewed = try_run(&store, renew(1)).await;
    assert!(
        matches!(renewed, Err(StoreError::Indeterminate { .. })),
        "{renewed:?}"
    );
}

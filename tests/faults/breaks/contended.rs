//! Hand-off to a coordinator that is gone.

use std::time::{Duration, Instant};

use leasehold_tests::{
    Site,
    raw::{closing_for, exclusive},
};

/// Longer than the test takes.
const LOCK_DELAY: Duration = Duration::from_secs(120);
const NAME: &str = "contended";
/// Claim time of a hand-off.
const CLAIM: Duration = Duration::from_secs(3);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hand_off_to_a_dead_coordinator_costs_a_claim_time_and_no_lock_delay() {
    let mut site = Site::redis(2).await;
    let mut holder = site.session(0).await;
    let held = holder.take_one(exclusive(NAME)).await;
    let acquire = || closing_for(LOCK_DELAY, exclusive(NAME));
    let mut gone = site.session(1).await;
    gone.wait_for(acquire()).await;
    let mut waiter = site.session(0).await;
    let id = waiter.wait_for(acquire()).await;

    site.kill(1);
    let released = Instant::now();
    assert!(holder.release(&held).await);
    let granted = waiter.granted(id, LOCK_DELAY / 4).await.lock;
    let took = released.elapsed();
    assert!(took >= CLAIM, "the dead one had no chance: {took:?}");
    assert!(granted.fencing_token > held.fencing_token);
    assert!(waiter.release(&granted).await);
    for session in [holder, waiter] {
        session.close().await;
    }
    site.nothing_is_left().await;
}

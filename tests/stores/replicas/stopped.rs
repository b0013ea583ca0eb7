//! One of two replicas is stopped with SIGSTOP.

use std::time::{Duration, Instant};

use leasehold_proto::v1::LostReason;
use leasehold_tests::{
    raw::{PROMPT, exclusive},
    wait,
};
use tokio::time::timeout;

use crate::replicas::site::{REPLICA_TIMEOUT, Site, TTL};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn with_one_acknowledgement_required_no_client_notices() {
    let site = Site::start(1);
    let mut session = site.session(0).await;
    let kept = session.take_one(exclusive("kept")).await;
    session.keep_alive(TTL / 20);
    site.stop_a_replica();
    let lock = session.take_one(exclusive("taken")).await;
    assert!(session.release(&lock).await);
    // A renewal that the other replica has acknowledged.
    let before = session.heartbeat().await;
    let renewed = async {
        while session.good_until() < Some(before + TTL / 2) {
            tokio::time::sleep(TTL / 30).await;
            session.heartbeat().await;
        }
    };
    timeout(2 * PROMPT, renewed).await.unwrap();
    assert!(session.release(&kept).await);
    session.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn with_all_acknowledgements_required_nothing_is_granted_or_promised() {
    let site = Site::start(2);
    let mut session = site.session(0).await;
    let mut other = site.session(1).await;
    session.take_one(exclusive("kept")).await;
    let handed = other.take_one(exclusive("handed")).await;
    // A heartbeat renews what was renewed a sixth of the TTL ago; what replicas say to that is told after it was answered. So
    // the next one has nothing to renew, and this deadline is the last that replicas have.
    tokio::time::sleep(TTL / 6).await;
    session.heartbeat().await;
    tokio::time::sleep(REPLICA_TIMEOUT).await;
    session.heartbeat().await;
    let good_until = session.good_until().unwrap();
    site.stop_a_replica();

    let id = other.ask("refused", Some(Duration::ZERO)).await;
    let refusal = other.refusal(id, PROMPT).await;
    assert_eq!(refusal.reason, "NOT_REPLICATED", "{refusal:?}");
    // So is a waiter to whom a lock is handed on, here and at the other coordinator. Whoever releases is answered.
    let id = session.wait_for(exclusive("handed")).await;
    assert!(other.release(&handed).await);
    let refusal = session.refusal(id, PROMPT).await;
    assert_eq!(refusal.reason, "NOT_REPLICATED", "{refusal:?}");
    other.close().await;

    // Heartbeats are answered and reach the master, but what they promise does not grow.
    session.keep_alive(TTL / 30);
    wait::until("a renewal to reach the master", PROMPT, || async {
        match site.left_at_the_master("kept").await {
            Some(left) if Instant::now() + left > good_until + TTL / 4 => Ok(()),
            left => Err(left),
        }
    })
    .await;
    session.heartbeat().await;
    let told = session.good_until().unwrap();
    let slack = TTL / 100 + Duration::from_millis(50);
    assert!(told <= good_until + slack, "a promise without replicas");
    let lost = session.lost(TTL + PROMPT).await;
    let lost_at = Instant::now();
    assert_eq!(lost.len(), 1, "{lost:?}");
    assert_eq!(
        (&*lost[0].name, lost[0].reason()),
        ("kept", LostReason::Expired)
    );
    assert!(
        lost_at >= good_until,
        "{:?} too early",
        good_until - lost_at
    );

    site.let_it_go_on();
    let mut session = site.session(1).await;
    let lock = session.take_one(exclusive("again")).await;
    assert!(session.release(&lock).await);
    session.close().await;
}

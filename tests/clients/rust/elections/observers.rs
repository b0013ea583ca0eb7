//! Tests of observers of an election.

use std::time::Duration;

use leasehold_client::Client;
use leasehold_tests::{Coordinator, FaultProxy};
use tokio::time::timeout;

use super::{next, successor};
use crate::LIMIT;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_observer_outlives_its_coordinator() {
    let mut first = Coordinator::process().start();
    let endpoint = first.endpoint();
    let client = Client::connect(&endpoint).await.unwrap();
    let election = client.election("e");
    let leadership = election.campaign("before").await.unwrap();
    let mut observer = election.observe();
    let before = next(&mut observer).await;
    assert!(!before.skipped);
    first.kill();
    leadership.lost().await;

    // With its locks in memory, nothing is left of it.
    let _second = successor(&endpoint);
    let after = next(&mut observer).await;
    assert_eq!(after.leader, None);
    assert!(after.skipped);
    assert!(observer.interruption().is_none());
    let leadership = election.campaign("after").await.unwrap();
    let after = next(&mut observer).await;
    assert!(!after.skipped);
    let leader = after.leader.unwrap();
    assert_eq!(leader.fencing_token, Some(leadership.fencing_token()));
    assert!(leader.fencing_token > before.leader.unwrap().fencing_token);
}

#[tokio::test]
async fn an_observer_waits_for_a_first_coordinator() {
    let coordinator = Coordinator::in_process();
    let proxy = FaultProxy::before(&coordinator.endpoint()).await;
    proxy.set_refuse(true).await;
    let admin = leasehold_client::Admin::connect(proxy.endpoint()).unwrap();
    let mut observer = admin.observe("e");
    while observer.interruption().is_none() {
        let nothing = timeout(Duration::from_millis(20), observer.next()).await;
        assert!(nothing.is_err(), "{nothing:?}");
    }
    proxy.set_refuse(false).await;
    let change = next(&mut observer).await;
    assert!(change.leader.is_none() && !change.skipped);
}

/// Left to `make soak` by `make test`.
mod soak {
    use super::*;

    #[tokio::test]
    async fn a_connection_that_fell_silent_is_replaced() {
        let coordinator = Coordinator::in_process();
        let direct = Client::connect(coordinator.endpoint()).await.unwrap();
        let proxy = FaultProxy::before(&coordinator.endpoint()).await;
        let client = Client::connect(proxy.endpoint()).await.unwrap();
        let mut observer = client.election("e").observe();
        assert_eq!(next(&mut observer).await.leader, None);
        proxy.black_hole_present();
        let _leadership = direct.election("e").campaign("one").await.unwrap();
        // Ten seconds until it is probed, and ten more for the answer.
        let change = timeout(3 * LIMIT, observer.next()).await.unwrap();
        let change = change.unwrap().unwrap();
        assert_eq!(change.leader.unwrap().value, b"one");
        assert!(change.skipped);
    }
}

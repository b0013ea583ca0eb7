//! Tests of observers of an election.

use std::time::{Duration, SystemTime};

use leasehold_client::{Client, LeaderChange};
use leasehold_tests::{Coordinator, FaultProxy};
use tokio::time::timeout;

use super::{next, successor};
use crate::{LIMIT, coordinator_and_client};

#[tokio::test]
async fn an_unknown_election_has_no_leader_and_a_known_one_is_told_in_full() {
    let coordinator = Coordinator::in_process();
    let client = Client::builder().client_name("me");
    let client = client.connect(coordinator.endpoint()).await.unwrap();
    let election = client.election("e");
    assert_eq!(election.leader().await.unwrap(), None);
    let leadership = election.campaign(b"value \xff".to_vec()).await.unwrap();
    let leader = election.leader().await.unwrap().unwrap();
    let info = client.default_session().info().unwrap();
    assert_eq!(leader.fencing_token, Some(leadership.fencing_token()));
    assert_eq!(leader.value, b"value \xff");
    assert_eq!(leader.client_name, "me");
    assert_eq!(leader.session_id, info.session_id);
    assert_eq!(leader.coordinator, info.coordinator);
    let since = leader.elected_at.unwrap();
    assert!(SystemTime::now().duration_since(since).unwrap() < LIMIT);
    leadership.resign().await.unwrap();
    assert_eq!(election.leader().await.unwrap(), None);

    let error = client.election("bad\u{7}name").leader().await.unwrap_err();
    assert_eq!(error.field_violations()[0].field, "election");
}

#[tokio::test]
async fn an_observer_is_told_of_values_and_of_having_no_leader() {
    let (_coordinator, client) = coordinator_and_client().await;
    let election = client.election("e");
    let leadership = election.campaign("one").await.unwrap();
    let mut observer = election.observe();
    let value = |change: LeaderChange| change.leader.map(|leader| leader.value);
    assert_eq!(value(next(&mut observer).await), Some(b"one".to_vec()));
    leadership.proclaim("two").await.unwrap();
    assert_eq!(value(next(&mut observer).await), Some(b"two".to_vec()));
    leadership.resign().await.unwrap();
    assert_eq!(value(next(&mut observer).await), None);
}

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

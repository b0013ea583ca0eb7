//! Tests of observers of an election.

use std::time::{Duration, SystemTime};

use leasehold_client::{Client, LeaderChange};
use leasehold_tests::{Coordinator, FaultProxy, RedisServer, proxy::Cut};
use tokio::time::timeout;

use super::{LIMIT, next, successor};

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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn observers_at_two_coordinators_see_the_same_leaders_in_the_same_order() {
    let redis = RedisServer::start();
    let flags = ["--store".to_owned(), redis.url()];
    let coordinators = [
        Coordinator::process().arguments(flags.clone()).start(),
        Coordinator::process().arguments(flags).start(),
    ];
    let mut clients = Vec::new();
    for coordinator in &coordinators {
        clients.push(Client::connect(coordinator.endpoint()).await.unwrap());
    }
    let mut observers = Vec::new();
    for number in 0..4 {
        let mut observer = clients[number % 2].election("e").observe();
        assert_eq!(next(&mut observer).await.leader, None);
        observers.push(observer);
    }
    // Where everybody keeps up, everybody is told of everything.
    for term in 0..10 {
        let election = clients[term % 2].election("e");
        let leadership = election.campaign(term.to_string()).await.unwrap();
        for observer in &mut observers {
            let LeaderChange {
                leader, skipped, ..
            } = next(observer).await;
            let told = leader.map(|leader| (leader.fencing_token, leader.value));
            let leads = (
                Some(leadership.fencing_token()),
                term.to_string().into_bytes(),
            );
            assert_eq!((told, skipped), (Some(leads), false));
        }
        leadership.resign().await.unwrap();
        for observer in &mut observers {
            let change = next(observer).await;
            assert!(change.leader.is_none() && !change.skipped, "{change:?}");
        }
    }
    // Where nobody waits for them, some may be skipped, and none are told of in another order.
    let seen: Vec<_> = observers
        .into_iter()
        .map(|mut observer| {
            tokio::spawn(async move {
                let mut seen = Vec::new();
                loop {
                    let leader = next(&mut observer).await.leader;
                    let ends = leader.as_ref().is_some_and(|leader| leader.value == b"end");
                    seen.push(leader.and_then(|leader| leader.fencing_token));
                    if ends {
                        return seen;
                    }
                }
            })
        })
        .collect();
    let mut terms = Vec::new();
    for term in 0..50 {
        let election = clients[term % 2].election("e");
        let leadership = election.campaign("").await.unwrap();
        terms.push(leadership.fencing_token());
        leadership.resign().await.unwrap();
    }
    let last = clients[0].election("e").campaign("end").await.unwrap();
    terms.push(last.fencing_token());
    assert!(terms.is_sorted_by(|a, b| a < b));
    for observer in seen {
        let row = timeout(LIMIT, observer).await.unwrap().unwrap();
        let tokens: Vec<_> = row.iter().flatten().collect();
        assert!(tokens.is_sorted_by(|a, b| a <= b), "{row:?}");
        assert!(tokens.iter().all(|token| terms.contains(token)), "{row:?}");
        assert!(row.windows(2).all(|pair| pair[0] != pair[1]), "{row:?}");
    }
}

#[tokio::test]
async fn an_observer_is_told_of_values_and_of_having_no_leader() {
    let coordinator = Coordinator::in_process();
    let client = Client::connect(coordinator.endpoint()).await.unwrap();
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
async fn an_unchanged_leader_is_not_reported_again_after_a_broken_connection() {
    let coordinator = Coordinator::in_process();
    let direct = Client::connect(coordinator.endpoint()).await.unwrap();
    let leadership = direct.election("e").campaign("one").await.unwrap();
    let proxy = FaultProxy::before(&coordinator.endpoint()).await;
    let client = Client::connect(proxy.endpoint()).await.unwrap();
    let mut observer = client.election("e").observe();
    assert!(next(&mut observer).await.leader.is_some());
    for cut in [Cut::Fin, Cut::Rst] {
        proxy.cut(cut).await;
        let nothing = timeout(Duration::from_millis(500), observer.next()).await;
        assert!(nothing.is_err(), "{nothing:?}");
    }
    leadership.proclaim("two").await.unwrap();
    let change = next(&mut observer).await;
    assert_eq!(change.leader.unwrap().value, b"two");
    assert!(change.skipped, "there may have been others meanwhile");
}

#[tokio::test]
async fn dropping_an_observer_ends_its_call_and_one_that_is_not_read_harms_nobody() {
    let coordinator = Coordinator::in_process();
    let proxy = FaultProxy::before(&coordinator.endpoint()).await;
    let client = Client::connect(proxy.endpoint()).await.unwrap();
    let election = client.election("e");
    let leadership = election.campaign("").await.unwrap();
    let mut idle = Vec::new();
    for _ in 0..20 {
        let mut observer = election.observe();
        next(&mut observer).await;
        idle.push(observer);
    }
    let mut reader = election.observe();
    next(&mut reader).await;
    // 21 observers with 4 KiB each, time after time: far more than may lie unread.
    for number in 0..200_u32 {
        let mut value = vec![b'x'; 4_096];
        value[..4].copy_from_slice(&number.to_be_bytes());
        leadership.proclaim(value.clone()).await.unwrap();
        loop {
            let change = next(&mut reader).await;
            if change.leader.is_some_and(|leader| leader.value == value) {
                break;
            }
        }
    }
    for mut observer in idle {
        // In the end each is told the newest, whatever it skipped.
        wait_for_value(&mut observer, &199_u32.to_be_bytes()).await;
    }
}

async fn wait_for_value(observer: &mut leasehold_client::Observer, beginning: &[u8]) {
    loop {
        let leader = next(observer).await.leader.unwrap();
        if leader.value.starts_with(beginning) {
            return;
        }
    }
}

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

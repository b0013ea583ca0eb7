//! Campaigns, leadership, and the end of both.

use std::time::Duration;

use leasehold_client::{AcquireError, Client, HoldError, LostReason};
use leasehold_tests::{Coordinator, FaultProxy, proxy::Cut};
use tokio::{task::JoinSet, time::timeout};

use super::{LIMIT, candidates, deserted};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn campaigns_dropped_at_any_moment_leave_nobody_leading() {
    let coordinator = Coordinator::in_process();
    let watcher = Client::connect(coordinator.endpoint()).await.unwrap();
    let client = Client::connect(coordinator.endpoint()).await.unwrap();
    let names: Vec<_> = (0..5).map(|number| format!("e{number}")).collect();
    let mut tasks = JoinSet::new();
    for number in 0..1_000_u64 {
        let election = client.election(&*names[number as usize % names.len()]);
        tasks.spawn(async move {
            // From before it is sent to well after it is elected.
            let patience = Duration::from_micros(number * 7_919 % 5_000);
            if let Ok(elected) = timeout(patience, election.campaign("")).await {
                let resign = elected.unwrap().resign();
                timeout(Duration::from_micros(number % 300), resign)
                    .await
                    .ok();
            }
        });
    }
    tasks.join_all().await;
    for name in &names {
        deserted(&watcher, name).await;
    }
    // And it still works.
    let leadership = timeout(LIMIT, client.election(&*names[0]).campaign(""));
    assert!(leadership.await.unwrap().unwrap().is_leader());
}

#[tokio::test]
async fn a_campaign_whose_connection_is_cut_at_any_moment_leaves_at_most_its_own_leadership() {
    let coordinator = Coordinator::in_process();
    let proxy = FaultProxy::before(&coordinator.endpoint()).await;
    let watcher = Client::connect(coordinator.endpoint()).await.unwrap();
    for number in 0..20 {
        let builder = Client::builder().backoff(Duration::ZERO, Duration::from_millis(10));
        let client = builder.connect(proxy.endpoint()).await.unwrap();
        let election = client.election("e");
        let campaign = tokio::spawn(async move { election.campaign("").await });
        tokio::time::sleep(Duration::from_micros(number * 100)).await;
        proxy.cut(Cut::Rst).await;
        // Without a wait it goes on over the break; elected before it, it hears that this is over.
        let leadership = timeout(LIMIT, campaign).await.unwrap().unwrap().unwrap();
        if !leadership.is_leader() {
            assert_eq!(leadership.lost().await, LostReason::SessionEnded);
        }
        drop((leadership, client));
        deserted(&watcher, "e").await;
    }
}

#[tokio::test]
async fn a_withdrawn_candidate_is_not_elected() {
    let coordinator = Coordinator::in_process();
    let client = Client::connect(coordinator.endpoint()).await.unwrap();
    let election = client.election("e");
    let leadership = election.campaign("first").await.unwrap();
    let second = election.clone();
    let campaign = tokio::spawn(async move { second.campaign("second").await });
    candidates(&client, "e", 1).await;
    campaign.abort();
    candidates(&client, "e", 0).await;
    leadership.resign().await.unwrap();
    deserted(&client, "e").await;
}

#[tokio::test]
async fn candidates_lead_one_after_the_other_with_rising_tokens() {
    let coordinator = Coordinator::in_process();
    let first = Client::connect(coordinator.endpoint()).await.unwrap();
    let second = Client::connect(coordinator.endpoint()).await.unwrap();
    let leadership = first.election("e").campaign("first").await.unwrap();
    assert_eq!(leadership.election(), "e");
    let session = second.session().open().await.unwrap();
    let election = session.election("e");
    assert_eq!(election.name(), "e");
    let campaign = tokio::spawn(async move { election.campaign("second").await });
    candidates(&first, "e", 1).await;
    let former = leadership.fencing_token();
    // Dropping resigns.
    drop(leadership);
    let leadership = timeout(LIMIT, campaign).await.unwrap().unwrap().unwrap();
    assert!(leadership.fencing_token() > former);
    assert!(leadership.valid_for() > Duration::ZERO);
    let watch = leadership.watch();
    assert!(watch.is_leader() && watch.valid_for() > Duration::ZERO);
    leadership.resign().await.unwrap();
    assert_eq!(watch.lost().await, LostReason::Released);
}

#[tokio::test]
async fn a_deposed_leader_learns_of_it_and_has_nothing_left_to_resign() {
    let coordinator = Coordinator::in_process();
    let client = Client::connect(coordinator.endpoint()).await.unwrap();
    let leadership = client.election("e").campaign("").await.unwrap();
    client.admin().force_release("e").await.unwrap();
    let lost = timeout(LIMIT, leadership.lost()).await.unwrap();
    assert_eq!(lost, LostReason::Forced);
    assert!(!leadership.is_leader());
    assert_eq!(leadership.valid_for(), Duration::ZERO);
    let error = leadership.proclaim("still here").await.unwrap_err();
    assert!(matches!(error, HoldError::Lost { .. }), "{error:?}");
    let error = leadership.resign().await.unwrap_err();
    let HoldError::Lost { reason, .. } = error else {
        panic!("{error:?}");
    };
    assert_eq!(reason, LostReason::Forced);
}

#[tokio::test]
async fn a_value_may_have_four_kilobytes_and_no_more() {
    let coordinator = Coordinator::in_process();
    let client = Client::connect(coordinator.endpoint()).await.unwrap();
    let election = client.election("e");
    let leadership = election.campaign(vec![b'x'; 4_096]).await.unwrap();
    leadership.proclaim(vec![0xff; 4_096]).await.unwrap();
    let leader = election.leader().await.unwrap().unwrap();
    assert_eq!(leader.value, vec![0xff; 4_096]);
    leadership.proclaim(vec![b'x'; 4_097]).await.unwrap_err();
    // It was as it was.
    assert!(leadership.is_leader());
    leadership.resign().await.unwrap();
    let error = election.campaign(vec![b'x'; 4_097]).await.unwrap_err();
    let failure = error.failure().unwrap();
    assert_eq!(failure.field_violations()[0].field, "acquire.value");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_takes_part_in_a_hundred_elections_at_once() {
    let coordinator = Coordinator::in_process();
    let clients = [
        Client::connect(coordinator.endpoint()).await.unwrap(),
        Client::connect(coordinator.endpoint()).await.unwrap(),
    ];
    let mut tasks = JoinSet::new();
    for client in &clients {
        for number in 0..100 {
            let election = client.election(format!("e{number}"));
            tasks.spawn(async move {
                let leadership = election.campaign(number.to_string()).await.unwrap();
                let leader = election.leader().await.unwrap().unwrap();
                assert_eq!(leader.fencing_token, Some(leadership.fencing_token()));
                assert_eq!(leader.value, number.to_string().as_bytes());
                leadership.resign().await.unwrap();
            });
        }
    }
    timeout(LIMIT, tasks.join_all()).await.unwrap();
}

#[tokio::test]
async fn a_candidate_with_a_wait_waits_no_longer() {
    let coordinator = Coordinator::in_process();
    let client = Client::connect(coordinator.endpoint()).await.unwrap();
    let election = client.election("e");
    let _leadership = election.campaign("").await.unwrap();
    let impatient = election.wait(Duration::from_millis(50));
    let error = impatient.campaign("").await.unwrap_err();
    assert!(matches!(error, AcquireError::TimedOut { .. }), "{error:?}");
    let not_elected = impatient.run_while_leader("", |_| async {});
    let error = timeout(LIMIT, not_elected).await.unwrap().unwrap_err();
    assert!(matches!(error, AcquireError::TimedOut { .. }), "{error:?}");
}

#[tokio::test]
async fn a_lock_delay_keeps_the_next_leader_out_after_an_unclean_end() {
    let coordinator = Coordinator::in_process();
    let watcher = Client::connect(coordinator.endpoint()).await.unwrap();
    let proxy = FaultProxy::before(&coordinator.endpoint()).await;
    let client = Client::connect(proxy.endpoint()).await.unwrap();
    let election = client.election("e").lock_delay(Duration::from_secs(60));
    let leadership = election.campaign("").await.unwrap();
    proxy.cut(Cut::Rst).await;
    leadership.lost().await;
    leasehold_tests::wait::until("the election to be closed", LIMIT, || async {
        let lock = watcher.admin().get_lock("e").await.unwrap();
        match lock.closed_for {
            Some(_) => Ok(()),
            None => Err(lock),
        }
    })
    .await;
}

//! Campaigns, leadership, and the end of both.

use std::time::Duration;

use leasehold_client::{AcquireError, Client, Election};
use leasehold_tests::Coordinator;
use tokio::{task::JoinSet, time::timeout};

use super::deserted;
use crate::{LIMIT, coordinator_and_client, waiters};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn campaigns_dropped_at_any_moment_leave_nobody_leading() {
    let coordinator = Coordinator::in_process();
    let watcher = Client::connect(coordinator.endpoint()).await.unwrap();
    let client = Client::connect(coordinator.endpoint()).await.unwrap();
    let names: Vec<_> = (0..5).map(|number| format!("e{number}")).collect();
    let mut tasks = JoinSet::new();
    let mut session = client.default_session().clone();
    for number in 0..1_000_u64 {
        let at = number as usize % names.len();
        if at == 0 {
            // Each session is a candidate of each election once.
            session = client.session().open().await.unwrap();
        }
        let election = session.election(&*names[at]);
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

/// Returns whether a campaign was refused because the session is a candidate already.
async fn is_refused(election: &Election) -> bool {
    // It does not wait.
    match timeout(LIMIT, election.campaign("again")).await.unwrap() {
        Err(AcquireError::AlreadyCandidate { name }) => *name == *election.name(),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_session_is_a_candidate_of_an_election_once_and_never_waits_behind_itself() {
    let (coordinator, client) = coordinator_and_client().await;
    let other = Client::connect(coordinator.endpoint()).await.unwrap();
    let election = client.election("e");
    // While it leads.
    let leadership = election.campaign("first").await.unwrap();
    assert!(is_refused(&election).await);
    assert!(is_refused(&client.election("e")).await);
    let running = client.election("e").run_while_leader("", |_| async {});
    let error = timeout(LIMIT, running).await.unwrap().unwrap_err();
    assert!(!error.is_retryable(), "{error:?}");
    assert!(leadership.is_leader());
    assert_eq!(election.leader().await.unwrap().unwrap().value, b"first");
    // Another session of the client is another candidate, and so is another election.
    let session = client.session().open().await.unwrap();
    let second = session.election("e").wait(Duration::ZERO).campaign("");
    assert!(matches!(second.await, Err(AcquireError::Busy { .. })));
    drop(client.election("f").campaign("").await.unwrap());
    // After it has resigned, and after a loss that it has not looked at.
    leadership.resign().await.unwrap();
    let lost = election.campaign("second").await.unwrap();
    other.admin().force_release("e").await.unwrap();
    timeout(LIMIT, lost.lost()).await.unwrap();
    let leadership = timeout(LIMIT, election.campaign("third")).await;
    let leadership = leadership.unwrap().unwrap();
    drop(lost);
    assert!(is_refused(&election).await, "the third term goes on");
    // While it waits.
    drop(leadership);
    let leading = timeout(LIMIT, other.election("e").campaign("other")).await;
    let leading = leading.unwrap().unwrap();
    let waiting = election.clone();
    let campaign = tokio::spawn(async move { waiting.campaign("fourth").await });
    waiters(&other, "e", 1).await;
    assert!(is_refused(&election).await);
    assert_eq!(election.leader().await.unwrap().unwrap().value, b"other");
    // A campaign that was given up makes room at once, before the coordinator has answered.
    campaign.abort();
    assert!(campaign.await.unwrap_err().is_cancelled());
    let again = tokio::spawn(async move { election.campaign("fifth").await });
    leading.resign().await.unwrap();
    let leadership = timeout(LIMIT, again).await.unwrap().unwrap().unwrap();
    assert!(leadership.is_leader());
}

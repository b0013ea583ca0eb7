//! Life of a session: its beginning, drains, bounds and its end.

use std::time::Duration;

use leasehold_client::{AcquireError, Client, HoldError, LockState, LostReason};
use leasehold_tests::{Coordinator, wait};
use tokio::time::timeout;

use super::counted;
use crate::{LIMIT, waiters};

#[tokio::test]
async fn a_session_lives_as_long_as_its_last_guard() {
    let coordinator = Coordinator::in_process();
    let watcher = Client::connect(coordinator.endpoint()).await.unwrap();
    let client = Client::connect(coordinator.endpoint()).await.unwrap();
    let guard = client.lock("a").await.unwrap();
    drop(client);
    counted(&watcher, 1, 0).await;
    assert!(
        timeout(Duration::from_millis(200), guard.lost())
            .await
            .is_err()
    );
    drop(guard);
    wait::until("the session to be closed", LIMIT, || async {
        match watcher.admin().list_sessions().await.unwrap().len() {
            1 => Ok(()),
            sessions => Err(sessions),
        }
    })
    .await;
}

#[tokio::test]
async fn closing_tells_the_guards_and_hands_on_without_the_lock_delay() {
    let coordinator = Coordinator::in_process();
    let other = Client::connect(coordinator.endpoint()).await.unwrap();
    let client = Client::connect(coordinator.endpoint()).await.unwrap();
    let request = client.lock("a").lock_delay(Duration::from_secs(300));
    let guard = request.await.unwrap();
    let next = tokio::spawn(other.lock("a").into_future());
    waiters(&other, "a", 1).await;
    client.close().await;
    assert_eq!(guard.lost().await, LostReason::SessionClosed);
    let next = timeout(LIMIT, next).await.unwrap().unwrap().unwrap();
    assert!(next.is_held());
    let error = client.lock("a").await.unwrap_err();
    assert!(matches!(error, AcquireError::SessionClosed { .. }));
    let error = guard.release().await.unwrap_err();
    assert!(matches!(
        error,
        HoldError::Lost {
            reason: LostReason::SessionClosed,
            ..
        }
    ));
}

#[tokio::test]
async fn the_end_of_the_runtime_loses_guards_and_dropping_them_harms_nobody() {
    let coordinator = Coordinator::in_process();
    let endpoint = coordinator.endpoint();
    let guard = std::thread::spawn(move || {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let guard = runtime.block_on(async {
            let client = Client::connect(endpoint).await.unwrap();
            client.lock("a").await.unwrap()
        });
        assert!(guard.is_held());
        drop(runtime);
        assert!(!guard.is_held());
        guard
    });
    let guard = guard.join().unwrap();
    assert_eq!(guard.lost().await, LostReason::SessionEnded);
    std::thread::spawn(move || drop(guard)).join().unwrap();
}

#[tokio::test]
async fn a_guard_knows_its_end_is_warned_ahead_and_lost_before_the_next_grant() {
    let coordinator = Coordinator::in_process();
    let endpoint = coordinator.endpoint();
    let (client, other) = (Client::connect(&endpoint), Client::connect(&endpoint));
    let (client, other) = (client.await.unwrap(), other.await.unwrap());
    let max_hold = Duration::from_secs(3);
    let guard = client.lock("a").max_hold(max_hold).await.unwrap();
    let free = client.lock("b").await.unwrap();
    assert!(guard.ends_in().unwrap() <= max_hold && free.ends_in().is_none());
    let next = tokio::spawn(other.lock("a").into_future());

    let ahead = Duration::from_secs(2);
    guard.ends_soon(ahead).await;
    assert!(guard.is_held() && guard.ends_in().unwrap() <= ahead);
    assert_eq!(guard.changed().await, LockState::Lost(LostReason::MaxHold));
    let next = timeout(LIMIT, next).await.unwrap().unwrap().unwrap();
    assert!(next.fencing_token() > guard.fencing_token());
    assert!(free.is_held() && next.ends_in().is_none());
    assert_eq!(guard.ends_in(), Some(Duration::ZERO));
}

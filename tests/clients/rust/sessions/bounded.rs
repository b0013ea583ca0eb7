//! Locks that are held for no longer than a bound.

use std::time::{Duration, Instant};

use leasehold_client::{Client, LockState, LostReason};
use leasehold_tests::Coordinator;

use super::LIMIT;

#[tokio::test]
async fn a_guard_knows_its_end_is_warned_ahead_and_lost_before_the_next_grant() {
    let coordinator = Coordinator::in_process();
    let endpoint = coordinator.endpoint();
    let (client, other) = (Client::connect(&endpoint), Client::connect(&endpoint));
    let (client, other) = (client.await.unwrap(), other.await.unwrap());
    let max_hold = Duration::from_secs(2);
    let begun = Instant::now();
    let guard = client.lock("a").max_hold(max_hold).await.unwrap();
    let free = client.lock("b").await.unwrap();
    assert!(guard.ends_in().unwrap() <= max_hold && free.ends_in().is_none());
    let next = tokio::spawn(other.lock("a").into_future());

    guard.ends_soon(Duration::from_secs(1)).await;
    assert!(guard.is_held() && guard.ends_in().unwrap() <= Duration::from_secs(1));
    assert_eq!(guard.changed().await, LockState::Lost(LostReason::MaxHold));
    let lost = begun.elapsed();
    // 1 % early at most, and what the machine takes.
    assert!(lost > max_hold * 9 / 10, "{lost:?}");
    let next = tokio::time::timeout(LIMIT, next)
        .await
        .unwrap()
        .unwrap()
        .unwrap();
    assert!(begun.elapsed() >= lost);
    assert!(next.fencing_token() > guard.fencing_token());
    assert!(free.is_held() && next.ends_in().is_none());
    assert_eq!(guard.ends_in(), Some(Duration::ZERO));
}

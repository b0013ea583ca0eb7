//! Locks without a session.

use std::time::Duration;

use leasehold_client::{AcquireError, Client, HoldError};

use crate::{LIMIT, coordinator_and_client};

#[tokio::test]
async fn a_detached_lock_outlives_its_client_and_goes_on_in_another() {
    let (coordinator, client) = coordinator_and_client().await;
    let request = client.detached_lock("a").ttl(LIMIT).value("step 1");
    let lock = request.client_name("first").acquire().await.unwrap();
    assert!(lock.is_held() && lock.valid_for() < LIMIT);
    let (token, owner_id) = (lock.fencing_token(), lock.owner_id());
    assert!(!format!("{lock:?}").contains(&format!("{owner_id:?}")));
    drop(lock);
    client.close().await;

    let other = Client::connect(coordinator.endpoint()).await.unwrap();
    let view = other.admin().get_lock("a").await.unwrap();
    assert_eq!(view.fencing_token, Some(token));
    assert_eq!(view.holders[0].client_name, "first");
    assert_eq!(view.holders[0].session_id, "");
    let error = other.detached_lock("a").acquire().await.unwrap_err();
    let AcquireError::Busy { holder, .. } = error else {
        panic!("{error:?}");
    };
    assert!(holder.is_some());

    let mut taken_up = other.attach_detached_lock("a", token, owner_id);
    assert!(!taken_up.is_held());
    taken_up.set_ttl(LIMIT * 2);
    taken_up.renew().await.unwrap();
    assert!(taken_up.valid_for() > LIMIT);
    taken_up.release().await.unwrap();
    let error = taken_up.release().await.unwrap_err();
    assert!(matches!(error, HoldError::Lost { .. }), "{error:?}");
    let error = taken_up.renew().await.unwrap_err();
    assert!(matches!(error, HoldError::Lost { .. }), "{error:?}");
    assert!(!taken_up.is_held());
}

/// Its own clock says that it is over before the coordinator grants it to the next.
#[tokio::test]
async fn a_detached_lock_ends_with_its_ttl() {
    let (_coordinator, client) = coordinator_and_client().await;
    let ttl = Duration::from_secs(1);
    let lock = client.detached_lock("a").ttl(ttl).acquire().await.unwrap();
    let next = client.detached_lock("a").ttl(LIMIT).wait(LIMIT).acquire();
    let next = next.await.unwrap();
    assert!(!lock.is_held() && next.is_held());
    assert!(next.fencing_token() > lock.fencing_token());
}

#[tokio::test]
async fn a_wait_that_no_clock_can_count_is_refused() {
    let (_coordinator, client) = coordinator_and_client().await;
    let request = client.detached_lock("a").wait(Duration::MAX);
    let error = request.acquire().await.unwrap_err();
    assert!(matches!(error, AcquireError::Refused { .. }), "{error:?}");
}

#[tokio::test]
async fn detached_locks_have_every_mode_and_errors_of_their_own() {
    let (_coordinator, client) = coordinator_and_client().await;
    let permits = |permits, limit| client.detached_lock("permits").permits(permits, limit);
    for _ in 0..2 {
        let shared = client.detached_lock("shared").shared();
        shared.acquire().await.unwrap();
        permits(2, 4).acquire().await.unwrap();
    }
    let error = permits(1, 4).acquire().await.unwrap_err();
    assert!(matches!(error, AcquireError::Busy { .. }), "{error:?}");
    let error = permits(1, 5).acquire().await.unwrap_err();
    let AcquireError::LimitMismatch { limit: 4, .. } = error else {
        panic!("{error:?}");
    };
    // The limit of a new version, and one that follows it.
    for (limit, revision) in [(6, 1), (4, 0)] {
        let permit = permits(1, limit).limit_revision(revision);
        permit.acquire().await.unwrap();
    }
    let shared = client.detached_lock("shared").shared().limit_revision(1);
    let error = shared.acquire().await.unwrap_err();
    assert_eq!(error.failure().unwrap().reason(), "INVALID_FIELD");
    let error = permits(0, 4).acquire().await.unwrap_err();
    assert!(matches!(error, AcquireError::Refused { .. }), "{error:?}");
    let error = client.detached_lock("").acquire().await.unwrap_err();
    assert_eq!(error.failure().unwrap().reason(), "INVALID_FIELD");
    let delay = Duration::from_secs(60);
    let delayed = client.detached_lock("delayed").lock_delay(delay);
    delayed.acquire().await.unwrap();
    let view = client.admin().get_lock("delayed").await.unwrap();
    assert_eq!(view.lock_delay, Some(delay));
}

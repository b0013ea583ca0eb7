//! Permits: given back in part, as many as are left, and over a broken connection.

use leasehold_client::{AcquireError, Client, HoldError, LockSpec};
use leasehold_tests::{Coordinator, FaultProxy, proxy::Cut};
use tokio::time::timeout;

use crate::{LIMIT, coordinator_and_client, waiters};

#[tokio::test]
async fn permits_are_given_back_in_part_and_waiters_let_in() {
    let (_coordinator, client) = coordinator_and_client().await;
    let semaphore = client.semaphore("a", 3);
    let permit = semaphore.permits(3).await.unwrap();
    let waiting = tokio::spawn(semaphore.permits(2).into_future());
    waiters(&client, "a", 1).await;
    let token = permit.fencing_token();
    permit.keep(1).await.unwrap();
    let waiting = timeout(LIMIT, waiting).await.unwrap().unwrap().unwrap();
    assert!(permit.is_held() && waiting.is_held());
    assert_eq!((permit.permits(), permit.fencing_token()), (1, token));
    // Never more again.
    permit.keep(2).await.unwrap();
    assert_eq!(permit.permits(), 1);
    let error = permit.keep(0).await.unwrap_err();
    let HoldError::Refused { source, .. } = &error else {
        panic!("{error:?}");
    };
    assert_eq!(source.reason(), "INVALID_FIELD");
    assert_eq!(permit.permits(), 1);
    assert!(permit.is_held());
    assert_eq!(client.admin().get_lock("a").await.unwrap().permits_taken, 3);

    client.admin().force_release("a").await.unwrap();
    let error = permit.keep(1).await.unwrap_err();
    assert!(matches!(error, HoldError::Lost { .. }), "{error:?}");
}

#[tokio::test]
async fn what_is_left_of_permits_is_granted_and_counted() {
    let (_coordinator, client) = coordinator_and_client().await;
    let semaphore = client.semaphore("a", 5);
    let two = semaphore.permits(2).await.unwrap();
    let left = semaphore.permits_between(1..=5).await.unwrap();
    assert_eq!((two.permits(), left.permits()), (2, 3));
    assert_eq!(left.watch().permits(), Some(3));
    let waiting = tokio::spawn(semaphore.permits_between(2..=4).into_future());
    waiters(&client, "a", 1).await;
    let view = client.admin().get_lock("a").await.unwrap();
    let waiter = &view.waiters[0];
    assert_eq!(
        (waiter.permits, waiter.permits_at_least),
        (Some(4), Some(2))
    );
    left.keep(1).await.unwrap();
    let waited = timeout(LIMIT, waiting).await.unwrap().unwrap().unwrap();
    assert_eq!((left.permits(), waited.permits()), (1, 2));
    // The number is also known of what runs under the permits, and of each of several.
    two.release().await.unwrap();
    let request = semaphore.permits_between(1..=5);
    let permits = request.with(async |lock| lock.permits()).await.unwrap();
    assert_eq!(permits, Some(2));
    let specs = [
        LockSpec::permits("a", 5, 5).permits_at_least(1),
        LockSpec::shared("b"),
    ];
    let guards = client.lock_all(specs).await.unwrap();
    let permits: Vec<_> = guards.iter().map(|guard| guard.permits()).collect();
    assert_eq!(permits, [Some(2), None]);

    for wrong in [0..=2, std::ops::RangeInclusive::new(3, 2), 0..=0] {
        let error = semaphore.permits_between(wrong).await.unwrap_err();
        let AcquireError::Refused { source, .. } = &error else {
            panic!("{error:?}");
        };
        assert_eq!(source.reason(), "INVALID_FIELD");
    }
}

#[tokio::test]
async fn a_wait_for_permits_goes_on_over_a_broken_connection() {
    let coordinator = Coordinator::in_process();
    let proxy = FaultProxy::before(&coordinator.endpoint()).await;
    let holder = Client::connect(coordinator.endpoint()).await.unwrap();
    let all = holder.semaphore("a", 3).permits(3).await.unwrap();
    let client = Client::connect(proxy.endpoint()).await.unwrap();
    let actor = client.actor();
    let request = client.semaphore("a", 3).permits(2);
    let request = request.actor(actor).value("who");
    let waiting = tokio::spawn(request.into_future());
    waiters(&holder, "a", 1).await;
    proxy.cut(Cut::Rst).await;
    waiters(&holder, "a", 0).await;
    waiters(&holder, "a", 1).await;
    all.release().await.unwrap();
    let guard = timeout(LIMIT, waiting).await.unwrap().unwrap().unwrap();
    let view = holder.admin().get_lock("a").await.unwrap();
    assert_eq!((view.permits_taken, view.limit), (2, Some(3)));
    assert_eq!(view.holders[0].actor, Some(actor.get()));
    assert_eq!(view.holders[0].value, b"who");
    assert!(guard.is_held());
}

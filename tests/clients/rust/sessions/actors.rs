//! Actors: locks that are held more than once, and deadlocks.

use std::time::Duration;

use leasehold_client::{AcquireError, Client, LockRequest, LostReason};
use leasehold_tests::{Coordinator, FaultProxy, proxy::Cut};
use tokio::time::timeout;

use super::{LIMIT, counted, waiters};

async fn is_free(request: LockRequest) -> bool {
    request.try_acquire().await.unwrap().is_some()
}

#[tokio::test]
async fn a_lock_is_free_when_its_last_guard_is_released_in_whatever_order() {
    let coordinator = Coordinator::in_process();
    let client = Client::connect(coordinator.endpoint()).await.unwrap();
    for first in [0, 1, 2] {
        let request = client.lock("a").actor(client.actor()).reentrant();
        let mut guards = Vec::new();
        for count in 1..=3 {
            let guard = request.clone().await.unwrap();
            assert_eq!(guard.hold_count(), count);
            guards.push(guard);
        }
        assert!(
            guards
                .iter()
                .all(|guard| guard.fencing_token() == guards[0].fencing_token())
        );
        let gone = guards.remove(first);
        let watch = gone.watch();
        gone.release().await.unwrap();
        assert!(!watch.is_held());
        assert!(guards.iter().all(|guard| guard.is_held()));
        assert!(!is_free(client.lock("a")).await);
        drop(guards.pop());
        assert!(!is_free(client.lock("a")).await);
        guards.pop().unwrap().release().await.unwrap();
        assert!(is_free(client.lock("a")).await);
    }
}

#[tokio::test]
async fn actors_of_one_client_are_strangers_and_so_is_nobody() {
    let coordinator = Coordinator::in_process();
    let client = Client::connect(coordinator.endpoint()).await.unwrap();
    let one = client.lock("a").actor(client.actor()).reentrant();
    let held = one.await.unwrap();
    let other = client.lock("a").actor(client.actor()).reentrant();
    assert!(!is_free(other).await);
    assert!(!is_free(client.lock("a")).await);
    held.release().await.unwrap();
    let nobody = client.lock("a").await.unwrap();
    assert!(!is_free(client.lock("a")).await);
    drop(nobody);
    let error = client.lock("a").reentrant().await.unwrap_err();
    let violations = error.failure().unwrap().field_violations();
    assert_eq!(violations[0].field, "acquire.reentrant");
}

#[tokio::test]
async fn an_actor_does_not_wait_for_itself() {
    let coordinator = Coordinator::in_process();
    let client = Client::connect(coordinator.endpoint()).await.unwrap();
    let request = client.lock("a").actor(client.actor());
    let shared = request.clone().shared().await.unwrap();
    let error = request.clone().shared().await.unwrap_err();
    assert!(matches!(error, AcquireError::SelfDeadlock { .. }));
    let error = request.reentrant().await.unwrap_err();
    assert!(matches!(error, AcquireError::UpgradeRefused { .. }));
    assert!(shared.is_held());
}

#[tokio::test]
async fn every_guard_of_a_hold_is_lost_with_it() {
    let coordinator = Coordinator::in_process();
    let proxy = FaultProxy::before(&coordinator.endpoint()).await;
    let client = Client::connect(proxy.endpoint()).await.unwrap();
    let twice = async || {
        let request = client.lock("a").actor(client.actor()).reentrant();
        let outer = request.clone().await.unwrap();
        [outer, request.await.unwrap()]
    };
    let guards = twice().await;
    client.admin().force_release("a").await.unwrap();
    for guard in guards {
        assert_eq!(guard.lost().await, LostReason::Forced);
        assert!(guard.release().await.is_err());
    }

    let guards = twice().await;
    proxy.cut(Cut::Rst).await;
    for guard in &guards {
        assert_eq!(guard.lost().await, LostReason::SessionEnded);
    }
    // The former guards take nothing from the next ones.
    let again = client.lock("a").wait(LIMIT).await.unwrap();
    drop(guards);
    again.set_value("still ours").await.unwrap();
    again.release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reentrant_acquires_dropped_at_any_moment_count_as_often_as_they_were_granted() {
    let coordinator = Coordinator::in_process();
    let watcher = Client::connect(coordinator.endpoint()).await.unwrap();
    let client = Client::connect(coordinator.endpoint()).await.unwrap();
    let request = client.lock("a").actor(client.actor()).reentrant();
    let names = client
        .lock_all(["a", "b"])
        .actor(client.actor())
        .reentrant();
    for number in 0..300_u64 {
        let outer = request.clone().wait(LIMIT).await.unwrap();
        assert_eq!(outer.hold_count(), 1, "a count was left over");
        // From before it is sent to well after its grant.
        let patience = Duration::from_micros(number * 7_919 % 600);
        let inner = timeout(patience, request.clone()).await;
        // Whatever became of it, the outer one goes on.
        outer.set_value(number.to_string()).await.unwrap();
        assert!(outer.is_held());
        drop(inner);
        outer.release().await.unwrap();
        let both = timeout(patience, names.clone()).await;
        drop(both);
    }
    counted(&watcher, 0, 0).await;
    assert!(is_free(watcher.lock("a")).await);
}

#[tokio::test]
async fn a_deadlock_is_told_to_the_youngest_wait_alone() {
    let coordinator = Coordinator::in_process();
    let client = Client::connect(coordinator.endpoint()).await.unwrap();
    let other = Client::connect(coordinator.endpoint()).await.unwrap();
    let (one, two) = (client.actor(), other.actor());
    let a = client.lock("a").actor(one).await.unwrap();
    let b = other.lock("b").actor(two).await.unwrap();
    let older = tokio::spawn(client.lock("b").actor(one).into_future());
    waiters(&client, "b", 1).await;
    let younger = timeout(LIMIT, other.lock("a").actor(two)).await;
    let error = younger.unwrap().unwrap_err();
    let AcquireError::Deadlock { source, .. } = &error else {
        panic!("{error:?}");
    };
    assert!(error.is_retryable());
    for named in ["\"a\"", "\"b\""] {
        assert!(source.message().contains(named), "{source}");
    }
    // Nobody lost anything; who was told so gives way.
    assert!(a.is_held() && b.is_held());
    b.release().await.unwrap();
    let b = timeout(LIMIT, older).await.unwrap().unwrap().unwrap();
    assert!(a.is_held() && b.is_held());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_actor_that_gives_up_may_ask_again_at_once() {
    let coordinator = Coordinator::in_process();
    let client = Client::connect(coordinator.endpoint()).await.unwrap();
    let request = client.lock("a").actor(client.actor());
    for number in 0..300_u64 {
        // Now free, now held by somebody else: abandoned before, while and after it is granted or queued.
        let held = if number % 2 == 0 {
            Some(client.lock("a").wait(LIMIT).await.unwrap())
        } else {
            None
        };
        let patience = Duration::from_micros(number * 7_919 % 600);
        drop(timeout(patience, request.clone()).await);
        let again = tokio::spawn(request.clone().wait(LIMIT).into_future());
        drop(held);
        again.await.unwrap().unwrap().release().await.unwrap();
    }
}

//! Tests of watchers of locks.

use std::collections::BTreeSet;

use leasehold_client::{
    Client, FailureKind, LockEvent, LockEventKind, LockWatchEvent, LockWatcher,
};
use leasehold_tests::{Coordinator, FaultProxy, proxy::Cut};
use tokio::time::timeout;

use crate::{LIMIT, coordinator_and_client, waiters};

async fn next(watcher: &mut LockWatcher) -> LockWatchEvent {
    let news = timeout(LIMIT, watcher.next()).await.unwrap();
    news.unwrap().unwrap()
}

/// Returns the names of a whole snapshot.
async fn snapshot(watcher: &mut LockWatcher) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    loop {
        match next(watcher).await {
            LockWatchEvent::Lock(lock) => names.insert(lock.name),
            LockWatchEvent::Ready => return names,
            other => panic!("{other:?} in a snapshot"),
        };
    }
}

async fn event(watcher: &mut LockWatcher) -> LockEvent {
    match next(watcher).await {
        LockWatchEvent::Event(event) => event,
        other => panic!("{other:?} instead of an event"),
    }
}

#[tokio::test]
async fn a_snapshot_is_followed_by_what_happens() {
    let coordinator = Coordinator::in_process();
    let client = Client::builder().client_name("me");
    let client = client.connect(coordinator.endpoint()).await.unwrap();
    let guard = client.lock("a/1").await.unwrap();
    let _elsewhere = client.lock("b/1").await.unwrap();
    let mut watcher = client.admin().watch_locks("a/");
    assert_eq!(snapshot(&mut watcher).await, BTreeSet::from(["a/1".into()]));

    let waiting = tokio::spawn(client.lock("a/1").into_future());
    let queued = event(&mut watcher).await;
    assert_eq!(queued.kind, LockEventKind::Queued);
    assert_eq!(queued.waiter.unwrap().client_name, "me");
    waiters(&client, "a/1", 1).await;
    let former = guard.fencing_token();
    guard.release().await.unwrap();
    let released = event(&mut watcher).await;
    assert_eq!(released.kind, LockEventKind::Released);
    assert_eq!(released.fencing_token, Some(former));
    let granted = event(&mut watcher).await;
    let guard = waiting.await.unwrap().unwrap();
    assert_eq!(granted.kind, LockEventKind::Granted);
    assert_eq!(granted.name, "a/1");
    assert_eq!(granted.fencing_token, Some(guard.fencing_token()));
    guard.set_value("new").await.unwrap();
    let changed = event(&mut watcher).await;
    assert_eq!(changed.kind, LockEventKind::ValueChanged);
    assert_eq!(changed.holder.unwrap().value, b"new");
    client.admin().force_release("a/1").await.unwrap();
    assert_eq!(event(&mut watcher).await.kind, LockEventKind::Forced);
}

#[tokio::test]
async fn a_broken_connection_is_one_gap_and_a_new_snapshot() {
    let coordinator = Coordinator::in_process();
    let direct = Client::connect(coordinator.endpoint()).await.unwrap();
    let first = direct.lock("a").await.unwrap();
    let proxy = FaultProxy::before(&coordinator.endpoint()).await;
    let client = Client::connect(proxy.endpoint()).await.unwrap();
    let mut watcher = client.admin().watch_locks("");
    assert_eq!(snapshot(&mut watcher).await, BTreeSet::from(["a".into()]));
    proxy.set_refuse(true).await;
    proxy.cut(Cut::Rst).await;
    assert!(matches!(next(&mut watcher).await, LockWatchEvent::Gap(_)));
    assert!(watcher.interruption().is_some());
    first.release().await.unwrap();
    let _second = direct.lock("b").await.unwrap();
    // However many attempts it takes.
    let nothing = timeout(std::time::Duration::from_millis(500), watcher.next()).await;
    assert!(nothing.is_err(), "{nothing:?}");
    proxy.set_refuse(false).await;
    assert_eq!(snapshot(&mut watcher).await, BTreeSet::from(["b".into()]));
    assert!(watcher.interruption().is_none());
}

#[tokio::test]
async fn a_prefix_that_is_too_long_is_refused_for_good() {
    let (_coordinator, client) = coordinator_and_client().await;
    let mut watcher = client.admin().watch_locks("x".repeat(513));
    let refused = timeout(LIMIT, watcher.next()).await.unwrap().unwrap();
    assert_eq!(refused.unwrap_err().kind(), FailureKind::InvalidArgument);
    assert!(watcher.next().await.is_none());
}

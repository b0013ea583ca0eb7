//! Requests that are dropped, many at once, or about locks that are lost.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use leasehold_client::{AcquireError, Client, FencingToken, LostReason, WithLockError};
use leasehold_tests::{Coordinator, wait};
use tokio::{task::JoinSet, time::timeout};

use super::{LIMIT, counted, waiters};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn acquires_dropped_at_any_moment_leave_nothing_behind() {
    let coordinator = Coordinator::in_process();
    let watcher = Client::connect(coordinator.endpoint()).await.unwrap();
    let client = Client::connect(coordinator.endpoint()).await.unwrap();
    let mut tasks = JoinSet::new();
    for number in 0..2_000_u64 {
        let request = client.lock(format!("a{}", number % 7));
        tasks.spawn(async move {
            // From before it is sent to well after its grant.
            let patience = Duration::from_micros(number * 7_919 % 5_000);
            if let Ok(guard) = timeout(patience, request).await {
                let release = guard.unwrap().release();
                timeout(Duration::from_micros(number % 300), release)
                    .await
                    .ok();
            }
        });
    }
    tasks.join_all().await;
    counted(&watcher, 0, 0).await;
    // The session has let go of everything; the store hears of the last of it a moment later.
    wait::until("every lock to be free", LIMIT, || async {
        let mut locks = watcher.admin().list_locks("a").await.unwrap();
        locks.retain(|lock| !lock.holders.is_empty());
        if locks.is_empty() { Ok(()) } else { Err(locks) }
    })
    .await;
    // And it still works.
    let guard = client.lock("a0").try_acquire().await.unwrap();
    assert!(guard.unwrap().is_held());
}

#[tokio::test]
async fn futures_that_are_never_polled_do_what_dropping_says() {
    let coordinator = Coordinator::in_process();
    let client = Client::connect(coordinator.endpoint()).await.unwrap();
    drop(client.lock("a").into_future());
    let guard = client.lock("a").await.unwrap();
    drop(guard.release());
    let again = client.lock("a").wait(LIMIT).await.unwrap();
    drop(again);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_contenders_take_turns_with_rising_tokens() {
    let coordinator = Coordinator::in_process();
    let mut tasks = JoinSet::new();
    let busy = Arc::new(AtomicBool::new(false));
    for _ in 0..4 {
        let client = Client::connect(coordinator.endpoint()).await.unwrap();
        for _ in 0..25 {
            let (client, busy) = (client.clone(), busy.clone());
            tasks.spawn(async move {
                let mut tokens = Vec::new();
                for _ in 0..10 {
                    let guard = client.lock("a").await.unwrap();
                    assert!(!busy.swap(true, Ordering::SeqCst), "two at once");
                    tokens.push(guard.fencing_token());
                    tokio::task::yield_now().await;
                    assert!(guard.is_held());
                    busy.store(false, Ordering::SeqCst);
                    guard.release().await.unwrap();
                }
                tokens
            });
        }
    }
    let tokens = tasks.join_all().await;
    for own in &tokens {
        assert!(own.is_sorted_by(|a, b| a < b));
    }
    let mut all: Vec<FencingToken> = tokens.into_iter().flatten().collect();
    all.sort_unstable();
    all.dedup();
    assert_eq!(all.len(), 1_000);
}

#[tokio::test]
async fn one_bad_request_fails_alone_and_says_why() {
    let coordinator = Coordinator::in_process();
    let client = Client::connect(coordinator.endpoint()).await.unwrap();
    let guard = client.lock("a").await.unwrap();
    let error = client.lock("bad\u{7}name").await.unwrap_err();
    let AcquireError::Refused { source, .. } = &error else {
        panic!("{error:?}");
    };
    assert!(!error.is_retryable());
    assert_eq!(source.reason(), "INVALID_FIELD");
    assert_eq!(source.field_violations()[0].field, "acquire.name");
    let error = guard.set_value(vec![0; 5_000]).await.unwrap_err();
    assert!(!error.is_retryable());
    assert!(guard.is_held());
    guard.set_value(vec![0; 4_096]).await.unwrap();
    guard.release().await.unwrap();
}

#[tokio::test]
async fn work_is_dropped_where_it_stands_when_its_lock_is_lost() {
    struct Dropped(Arc<AtomicBool>);
    impl Drop for Dropped {
        fn drop(&mut self) {
            self.0.store(true, Ordering::SeqCst);
        }
    }

    let coordinator = Coordinator::in_process();
    let client = Client::connect(coordinator.endpoint()).await.unwrap();
    let dropped = Arc::new(AtomicBool::new(false));
    let flag = Dropped(dropped.clone());
    let runner = client.clone();
    // Spawned: the future is `Send` where the work is.
    let running = tokio::spawn(async move {
        runner
            .with_lock("a", |lock| async move {
                let _flag = flag;
                assert!(lock.is_held());
                std::future::pending::<()>().await;
            })
            .await
    });
    while client
        .admin()
        .get_lock("a")
        .await
        .unwrap()
        .holders
        .is_empty()
    {
        tokio::task::yield_now().await;
    }
    assert!(!dropped.load(Ordering::SeqCst));
    client.admin().force_release("a").await.unwrap();
    let error = timeout(LIMIT, running).await.unwrap().unwrap().unwrap_err();
    assert!(dropped.load(Ordering::SeqCst));
    assert!(matches!(
        error,
        WithLockError::Lost {
            reason: LostReason::Forced,
            ..
        }
    ));
    assert!(error.is_retryable());
}

#[tokio::test]
async fn a_cancelled_wait_gives_its_place_up() {
    let coordinator = Coordinator::in_process();
    let client = Client::connect(coordinator.endpoint()).await.unwrap();
    let guard = client.lock("a").await.unwrap();
    let waiting = tokio::spawn(client.lock("a").into_future());
    waiters(&client, "a", 1).await;
    waiting.abort();
    waiters(&client, "a", 0).await;
    assert!(guard.is_held());
}

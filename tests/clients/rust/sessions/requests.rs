//! Requests that are dropped, many at once, or about locks that are lost.

use std::{
    collections::BTreeSet,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use leasehold_client::{AcquireError, Client, HoldError, LockSpec, LostReason, WithLockError};
use leasehold_tests::{Coordinator, wait};
use tokio::{task::JoinSet, time::timeout};

use super::counted;
use crate::{LIMIT, coordinator_and_client};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn acquires_dropped_at_any_moment_leave_nothing_behind() {
    let (coordinator, client) = coordinator_and_client().await;
    let watcher = Client::connect(coordinator.endpoint()).await.unwrap();
    let mut tasks = JoinSet::new();
    for number in 0..1_000_u64 {
        let client = client.clone();
        // From before it is sent to well after its grant.
        let patience = Duration::from_micros(number * 7_919 % 5_000);
        let short = Duration::from_micros(number % 300);
        tasks.spawn(async move {
            if number % 3 == 0 {
                let names = [0, 1, 2].map(|name| format!("a{}", (number + name * number) % 7));
                let request = client.lock_all(BTreeSet::from(names));
                if let Ok(guards) = timeout(patience, request).await {
                    timeout(short, guards.unwrap().release()).await.ok();
                }
            } else if let Ok(guard) =
                timeout(patience, client.lock(format!("a{}", number % 7))).await
            {
                timeout(short, guard.unwrap().release()).await.ok();
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
    let (_coordinator, client) = coordinator_and_client().await;
    drop(client.lock("a").into_future());
    let guard = client.lock("a").await.unwrap();
    drop(guard.release());
    let again = client.lock("a").wait(LIMIT).await.unwrap();
    drop(again);
}

#[tokio::test]
async fn work_is_dropped_where_it_stands_when_its_lock_is_lost() {
    struct Dropped(Arc<AtomicBool>);
    impl Drop for Dropped {
        fn drop(&mut self) {
            self.0.store(true, Ordering::SeqCst);
        }
    }

    let (_coordinator, client) = coordinator_and_client().await;
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
    wait::until("the work to begin", LIMIT, || async {
        let lock = client.admin().get_lock("a").await.unwrap();
        (lock.holder_count == 1).then_some(()).ok_or(lock)
    })
    .await;
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
    // The session has let go of everything; the store hears of the last of it a moment later.
    let _free = watcher.lock("a").wait(LIMIT).await.unwrap();
}

#[tokio::test]
async fn a_request_beyond_all_bounds_costs_that_request_alone() {
    let (_coordinator, client) = coordinator_and_client().await;
    let kept = client.lock("kept").await.unwrap();
    let is_refused = |error: &AcquireError| {
        let AcquireError::Refused { source, .. } = error else {
            return false;
        };
        source.reason() == "INVALID_FIELD"
    };
    let large = vec![b'x'; 5_000_000];
    let long = String::from_utf8(large.clone()).unwrap();
    let many = (0..50_000).map(|number| LockSpec::exclusive(number.to_string()));
    let refused = [
        client.lock("a").value(large.clone()).await.unwrap_err(),
        client.lock(long.as_str()).await.unwrap_err(),
        client.lock("").await.unwrap_err(),
        client.lock("a\0b").await.unwrap_err(),
        client.lock_all(many).await.unwrap_err(),
        client.semaphore("s", 4).permits(0).await.unwrap_err(),
    ];
    for error in &refused {
        assert!(is_refused(error), "{error:?}");
    }
    let error = kept.set_value(large).await.unwrap_err();
    assert!(matches!(error, HoldError::Refused { .. }), "{error:?}");
    assert!(kept.is_held());
    // The stream is the same one, too.
    client.lock("a").await.unwrap().release().await.unwrap();
    assert!(kept.is_held());
}

/// A coordinator may take less than others; what it breaks off is not sent again on the next stream.
#[tokio::test]
async fn a_request_that_a_stream_broke_on_fails() {
    let coordinator = Coordinator::in_process_with(["--max-message-size=65536"]);
    let client = Client::connect(coordinator.endpoint()).await.unwrap();
    let many = (0..500).map(|number| LockSpec::exclusive(format!("{number:0>400}")));
    let error = client.lock_all(many).await.unwrap_err();
    let AcquireError::Refused { source, .. } = &error else {
        panic!("{error:?}");
    };
    assert_eq!(source.reason(), "MESSAGE_TOO_LARGE");
    client.lock("a").await.unwrap().release().await.unwrap();
}

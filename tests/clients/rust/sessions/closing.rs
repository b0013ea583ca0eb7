//! Closes: work under locks ends before anybody else gets them.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
    time::Duration,
};

use leasehold_client::{AcquireError, Client, LostReason, WithLockError};
use leasehold_tests::Coordinator;
use tokio::{sync::Notify, time::timeout};

use crate::{LIMIT, coordinator_and_client, waiters};

/// Work that notices when it is dropped, and takes its time then.
struct Inside<'a>(&'a AtomicU32);

impl<'a> Inside<'a> {
    fn begin(inside: &'a AtomicU32) -> Self {
        assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0, "two are inside");
        Self(inside)
    }
}

impl Drop for Inside<'_> {
    fn drop(&mut self) {
        // A clean-up that blocks.
        std::thread::sleep(Duration::from_millis(5));
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_is_let_in_while_the_work_of_a_closed_client_ends() {
    let (coordinator, next) = coordinator_and_client().await;
    let inside = AtomicU32::new(0);
    for _ in 0..100 {
        let client = Client::connect(coordinator.endpoint()).await.unwrap();
        let begun = Notify::new();
        let work = client.lock("a").with(async |_| {
            let _inside = Inside::begin(&inside);
            begun.notify_one();
            std::future::pending::<()>().await;
        });
        let others = async {
            begun.notified().await;
            let waiting = next.lock("a").with(async |_| drop(Inside::begin(&inside)));
            let close = async {
                waiters(&next, "a", 1).await;
                client.close().await;
            };
            tokio::join!(waiting, close).0.unwrap();
        };
        let (stopped, ()) = timeout(LIMIT, async { tokio::join!(work, others) })
            .await
            .unwrap();
        let Err(WithLockError::Lost { reason, .. }) = stopped else {
            panic!("{stopped:?}");
        };
        assert_eq!(reason, LostReason::SessionClosed);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_term_ends_before_the_next_one_when_its_client_is_closed() {
    let (coordinator, next) = coordinator_and_client().await;
    let inside = AtomicU32::new(0);
    let client = Client::connect(coordinator.endpoint()).await.unwrap();
    let begun = Notify::new();
    let election = client.election("e");
    let leads = election.run_while_leader("first", async |_| {
        let _inside = Inside::begin(&inside);
        begun.notify_one();
        std::future::pending::<()>().await;
    });
    let others = async {
        begun.notified().await;
        let second = next.election("e");
        let elected = second.run_while_leader("second", async |_| drop(Inside::begin(&inside)));
        let close = async {
            waiters(&next, "e", 1).await;
            client.close().await;
        };
        tokio::join!(elected, close).0.unwrap();
    };
    let (ended, ()) = timeout(LIMIT, async { tokio::join!(leads, others) })
        .await
        .unwrap();
    assert!(
        matches!(ended, Err(AcquireError::SessionClosed { .. })),
        "{ended:?}"
    );
}

#[tokio::test]
async fn work_may_close_its_client() {
    let (_coordinator, client) = coordinator_and_client().await;
    let work = client.lock("a").with(async |_| client.close().await);
    let stopped = timeout(LIMIT, work).await.unwrap();
    assert!(
        matches!(stopped, Err(WithLockError::Lost { .. })),
        "{stopped:?}"
    );
    let refused = client.lock("b").await.unwrap_err();
    assert!(matches!(refused, AcquireError::SessionClosed { .. }));
}

#[tokio::test(flavor = "multi_thread")]
async fn waits_end_at_once_and_work_is_waited_for_no_longer_than_is_set() {
    let coordinator = Coordinator::in_process();
    let patience = Duration::from_millis(50);
    let builder = Client::builder().close_timeout(patience);
    let client = Client::builder()
        .connect(coordinator.endpoint())
        .await
        .unwrap();
    let impatient = builder.connect(coordinator.endpoint()).await.unwrap();
    let (begun, is_over) = (Arc::new(Notify::new()), Arc::new(AtomicBool::new(false)));
    let (beginning, over) = (Arc::clone(&begun), Arc::clone(&is_over));
    let work = impatient.lock("a").with(async move |_| {
        beginning.notify_one();
        // Nothing stops it.
        while !over.load(Ordering::SeqCst) {
            std::thread::sleep(Duration::from_millis(1));
        }
    });
    let work = tokio::spawn(work);
    begun.notified().await;
    let waiting = tokio::spawn(impatient.lock("a").with(async |_| ()));
    waiters(&client, "a", 1).await;
    timeout(LIMIT, impatient.close()).await.unwrap();
    let waited = waiting.await.unwrap();
    assert!(
        matches!(
            &waited,
            Err(WithLockError::Acquire(AcquireError::SessionClosed { .. }))
        ),
        "{waited:?}"
    );
    // Handed on, although the work has not ended.
    client.lock("a").await.unwrap().release().await.unwrap();
    is_over.store(true, Ordering::SeqCst);
    let ended = work.await.unwrap();
    assert!(
        matches!(ended, Err(WithLockError::Lost { .. })),
        "{ended:?}"
    );
}

//! Shared locks, semaphores and several names at once.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use leasehold_client::{
    AcquireError, Client, HoldError, LockMode, LockSpec, LostReason, WithLockError,
};
use leasehold_tests::{Coordinator, FaultProxy, proxy::Cut, wait};
use tokio::{task::JoinSet, time::timeout};

use super::{LIMIT, counted, waiters};

#[tokio::test]
async fn readers_share_and_a_waiting_writer_holds_later_readers_up() {
    let coordinator = Coordinator::in_process();
    let client = Client::connect(coordinator.endpoint()).await.unwrap();
    let other = Client::connect(coordinator.endpoint()).await.unwrap();
    let first = client.lock("a").shared().await.unwrap();
    let second = other.lock("a").shared().try_acquire().await.unwrap();
    let second = second.unwrap();

    let writer = tokio::spawn(other.lock("a").into_future());
    waiters(&client, "a", 1).await;
    let request = client.lock("a").shared();
    assert!(request.clone().try_acquire().await.unwrap().is_none());
    let reader = tokio::spawn(request.into_future());
    waiters(&client, "a", 2).await;

    first.release().await.unwrap();
    second.release().await.unwrap();
    let writer = timeout(LIMIT, writer).await.unwrap().unwrap().unwrap();
    waiters(&client, "a", 1).await;
    writer.release().await.unwrap();
    let reader = timeout(LIMIT, reader).await.unwrap().unwrap().unwrap();
    assert!(reader.is_held());
}

#[tokio::test]
async fn a_downgrade_lets_waiting_readers_in_and_keeps_writers_out() {
    let coordinator = Coordinator::in_process();
    let client = Client::connect(coordinator.endpoint()).await.unwrap();
    let guard = client.lock("a").await.unwrap();
    let reader = tokio::spawn(client.lock("a").shared().into_future());
    waiters(&client, "a", 1).await;
    let writer = tokio::spawn(client.lock("a").into_future());
    waiters(&client, "a", 2).await;

    let token = guard.fencing_token();
    guard.downgrade().await.unwrap();
    let reader = timeout(LIMIT, reader).await.unwrap().unwrap().unwrap();
    assert!(guard.is_held() && reader.is_held());
    assert_eq!(guard.fencing_token(), token);
    waiters(&client, "a", 1).await;
    // Twice is as good as once.
    guard.downgrade().await.unwrap();
    drop(guard);
    reader.release().await.unwrap();
    let writer = timeout(LIMIT, writer).await.unwrap().unwrap().unwrap();

    client.admin().force_release("a").await.unwrap();
    let error = writer.downgrade().await.unwrap_err();
    assert!(matches!(error, HoldError::Lost { .. }), "{error:?}");
    assert!(!writer.is_held());
}

#[tokio::test]
async fn permits_are_not_downgraded_and_stay_held() {
    let coordinator = Coordinator::in_process();
    let client = Client::connect(coordinator.endpoint()).await.unwrap();
    let permit = client.semaphore("a", 2).permits(1).await.unwrap();
    let permit = permit.into_guard();
    let error = permit.downgrade().await.unwrap_err();
    let HoldError::Refused { source, .. } = &error else {
        panic!("{error:?}");
    };
    assert_eq!(source.reason(), "NOT_EXCLUSIVE");
    assert!(permit.is_held());
    permit.release().await.unwrap();
}

#[tokio::test]
async fn permits_are_given_back_in_part_and_waiters_let_in() {
    let coordinator = Coordinator::in_process();
    let client = Client::connect(coordinator.endpoint()).await.unwrap();
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
    let coordinator = Coordinator::in_process();
    let client = Client::connect(coordinator.endpoint()).await.unwrap();
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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_more_permits_are_held_than_there_are() {
    const PERMITS: u32 = 5;
    let coordinator = Coordinator::in_process();
    let taken = Arc::new(AtomicU32::new(0));
    let most = Arc::new(AtomicU32::new(0));
    let mut tasks = JoinSet::new();
    for client in 0..3_u32 {
        let session = Client::connect(coordinator.endpoint()).await.unwrap();
        for worker in 0..8_u32 {
            let semaphore = session.semaphore("a", PERMITS);
            let (taken, most) = (taken.clone(), most.clone());
            tasks.spawn(async move {
                for round in 0..20 {
                    let permits = (client + worker + round) % PERMITS + 1;
                    let guard = semaphore.permits(permits).await.unwrap();
                    let now = taken.fetch_add(permits, Ordering::SeqCst) + permits;
                    assert!(now <= PERMITS, "{now} permits taken");
                    most.fetch_max(now, Ordering::SeqCst);
                    tokio::task::yield_now().await;
                    assert!(guard.is_held());
                    taken.fetch_sub(permits, Ordering::SeqCst);
                    guard.release().await.unwrap();
                }
            });
        }
    }
    tasks.join_all().await;
    assert_eq!(most.load(Ordering::SeqCst), PERMITS);
}

#[tokio::test]
async fn semaphores_agree_on_their_limit_and_nobody_asks_for_nothing() {
    let coordinator = Coordinator::in_process();
    let client = Client::connect(coordinator.endpoint()).await.unwrap();
    let permit = client.semaphore("a", 3).permits(2).await.unwrap();
    let error = client.semaphore("a", 4).permits(1).await.unwrap_err();
    assert!(
        matches!(error, AcquireError::LimitMismatch { limit: 3, .. }),
        "{error:?}"
    );
    assert!(!error.is_retryable());
    permit.release().await.unwrap();
    let other = client
        .semaphore("a", 4)
        .permits(4)
        .try_acquire()
        .await
        .unwrap();
    assert!(other.is_some());

    for (limit, permits, field) in [
        (3, 0, "acquire.permits"),
        (3, 4, "acquire.permits"),
        (0, 1, "acquire.limit"),
        (1_000_001, 1, "acquire.limit"),
    ] {
        let error = client.semaphore("b", limit).permits(permits).await;
        let error = error.unwrap_err();
        let failure = error.failure().unwrap();
        assert_eq!(failure.reason(), "INVALID_FIELD", "{error:?}");
        assert_eq!(failure.field_violations()[0].field, field);
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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn several_names_in_any_order_never_block_one_another() {
    let coordinator = Coordinator::in_process();
    let watcher = Client::connect(coordinator.endpoint()).await.unwrap();
    let orders = [["a", "b", "c"], ["c", "b", "a"], ["b", "c", "a"]];
    let holders: Arc<[AtomicU32; 3]> = Arc::default();
    let mut tasks = JoinSet::new();
    let client = Client::connect(coordinator.endpoint()).await.unwrap();
    for worker in 0..12 {
        let (client, holders) = (client.clone(), holders.clone());
        let names = orders[worker % 3][..worker % 2 + 2].to_vec();
        tasks.spawn(async move {
            for _ in 0..10 {
                let request = client.lock_all(names.iter().copied()).wait(LIMIT);
                let guards = request.await.unwrap();
                for (guard, name) in guards.iter().zip(&names) {
                    assert_eq!(guard.name(), *name);
                    let index = usize::from(name.as_bytes()[0] - b'a');
                    assert_eq!(holders[index].fetch_add(1, Ordering::SeqCst), 0);
                }
                tokio::task::yield_now().await;
                assert!(guards.is_held());
                for name in &names {
                    let index = usize::from(name.as_bytes()[0] - b'a');
                    holders[index].fetch_sub(1, Ordering::SeqCst);
                }
                guards.release().await.unwrap();
            }
        });
    }
    tasks.join_all().await;
    counted(&watcher, 0, 0).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn several_names_dropped_at_any_moment_leave_nothing_behind() {
    let coordinator = Coordinator::in_process();
    let watcher = Client::connect(coordinator.endpoint()).await.unwrap();
    let client = Client::connect(coordinator.endpoint()).await.unwrap();
    let mut tasks = JoinSet::new();
    for number in 0..500_u64 {
        let names = [0, 1, 2].map(|name| format!("a{}", (number + name * number) % 7));
        let names = std::collections::BTreeSet::from(names);
        let request = client.lock_all(names);
        tasks.spawn(async move {
            let patience = Duration::from_micros(number * 7_919 % 5_000);
            if let Ok(guards) = timeout(patience, request).await {
                let release = guards.unwrap().release();
                timeout(Duration::from_micros(number % 300), release)
                    .await
                    .ok();
            }
        });
    }
    tasks.join_all().await;
    counted(&watcher, 0, 0).await;
    wait::until("every lock to be free", LIMIT, || async {
        let mut locks = watcher.admin().list_locks("a").await.unwrap();
        locks.retain(|lock| !lock.holders.is_empty());
        if locks.is_empty() { Ok(()) } else { Err(locks) }
    })
    .await;
}

#[tokio::test]
async fn several_names_are_lost_one_by_one() {
    let coordinator = Coordinator::in_process();
    let client = Client::connect(coordinator.endpoint()).await.unwrap();
    let guards = client.lock_all(["a", "b", "c"]).await.unwrap();
    client.admin().force_release("b").await.unwrap();
    let (name, reason) = timeout(LIMIT, guards.lost()).await.unwrap();
    assert_eq!((&*name, reason), ("b", LostReason::Forced));
    assert!(!guards.is_held());
    assert!(guards.get("a").unwrap().is_held() && guards.get("c").unwrap().is_held());
    let error = guards.release().await.unwrap_err();
    let HoldError::Lost { name, reason } = error else {
        panic!("{error:?}");
    };
    assert_eq!((&*name, reason), ("b", LostReason::Forced));
    // The others were given back all the same.
    let again = client.lock_all(["a", "b", "c"]).try_acquire().await;
    assert!(again.unwrap().is_some());
}

#[tokio::test]
async fn work_under_several_names_is_dropped_when_one_of_them_is_lost() {
    let coordinator = Coordinator::in_process();
    let client = Client::connect(coordinator.endpoint()).await.unwrap();
    let admin = client.admin();
    let outcome = client
        .lock_all(["a", "b"])
        .with(|locks| async move {
            assert!(locks.iter().all(|lock| lock.is_held()));
            admin.force_release("b").await.unwrap();
            std::future::pending::<()>().await
        })
        .await;
    let Err(WithLockError::Lost { name, reason, .. }) = outcome else {
        panic!("{outcome:?}");
    };
    assert_eq!((&*name, reason), ("b", LostReason::Forced));
    // What was not lost is given back.
    let request = client.lock("a").wait(LIMIT);
    assert!(request.await.unwrap().is_held());
}

#[tokio::test]
async fn several_names_are_held_in_a_mode_each() {
    let coordinator = Coordinator::in_process();
    let client = Client::connect(coordinator.endpoint()).await.unwrap();
    let debit = |account: &str| {
        let permit = LockSpec::permits("workers", 1, 2);
        client.lock_all([LockSpec::shared("config"), account.into(), permit])
    };
    let first = debit("account/7").await.unwrap();
    let second = debit("account/9").await.unwrap();
    assert_eq!(second.guards()[1].name(), "account/9");
    // Both read the configuration, and write nobody else's account; there is no third permit.
    let config = client.admin().get_lock("config").await.unwrap();
    assert_eq!(
        (config.mode, config.holder_count),
        (Some(LockMode::Shared), 2)
    );
    assert!(debit("account/8").try_acquire().await.unwrap().is_none());
    first.release().await.unwrap();
    assert!(debit("account/9").try_acquire().await.unwrap().is_none());
    assert!(debit("account/7").try_acquire().await.unwrap().is_some());
    // All in one mode.
    let readers = debit("account/9").shared();
    assert!(
        readers.try_acquire().await.unwrap().is_none(),
        "it is written"
    );
    let none = LockSpec::permits("workers", 0, 2);
    let error = client.lock_all([none, "a".into()]).await.unwrap_err();
    assert_eq!(error.failure().unwrap().reason(), "INVALID_FIELD");
}

#[tokio::test]
async fn several_names_must_be_some_and_different() {
    let coordinator = Coordinator::in_process();
    let client = Client::connect(coordinator.endpoint()).await.unwrap();
    let many: Vec<String> = (0..65).map(|name| format!("a{name}")).collect();
    for (names, reason) in [
        (vec![], "INVALID_FIELD"),
        (vec!["a".to_owned(), "a".to_owned()], "INVALID_FIELD"),
        (many, "TOO_MANY_NAMES"),
    ] {
        let error = client.lock_all(names).await.unwrap_err();
        assert_eq!(error.failure().unwrap().reason(), reason);
    }
    let one = client.lock_all(["a"]).await.unwrap();
    assert_eq!(one.guards().len(), 1);
}

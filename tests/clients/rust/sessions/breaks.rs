//! Effects of a broken connection on guards and waits.

use std::time::{Duration, Instant};

use leasehold_client::{AcquireError, Client, ConnectError, HoldError, LostReason};
use leasehold_tests::{Coordinator, FaultProxy, proxy::Cut};
use tokio::time::timeout;

use super::{LIMIT, waiters};

#[tokio::test]
async fn the_end_of_the_connection_loses_every_guard_at_once() {
    let coordinator = Coordinator::in_process();
    for cut in [Cut::Fin, Cut::Rst] {
        let proxy = FaultProxy::before(&coordinator.endpoint()).await;
        let client = Client::connect(proxy.endpoint()).await.unwrap();
        let guards = [
            client.lock("a").await.unwrap(),
            client.lock("b").await.unwrap(),
        ];
        let began = Instant::now();
        proxy.cut(cut).await;
        for guard in &guards {
            let lost = timeout(LIMIT, guard.lost()).await.unwrap();
            assert_eq!(lost, LostReason::SessionEnded);
            assert!(!guard.is_held());
        }
        assert!(began.elapsed() < Duration::from_secs(2));
        // Nothing is re-taken by itself; asked for anew, they come with new tokens.
        let again = client.lock("a").await.unwrap();
        assert!(again.fencing_token() > guards[0].fencing_token());
        assert!(!guards[0].is_held());
    }
}

#[tokio::test]
async fn a_wait_goes_on_over_a_broken_connection() {
    let coordinator = Coordinator::in_process();
    let proxy = FaultProxy::before(&coordinator.endpoint()).await;
    let holder = Client::connect(coordinator.endpoint()).await.unwrap();
    let guard = holder.lock("a").await.unwrap();
    let waiter = Client::connect(proxy.endpoint()).await.unwrap();
    let first = waiter.default_session().info().unwrap().session_id;
    let waiting = tokio::spawn(waiter.lock("a").wait(LIMIT).into_future());
    waiters(&holder, "a", 1).await;

    proxy.cut(Cut::Rst).await;
    waiters(&holder, "a", 0).await;
    waiters(&holder, "a", 1).await;
    let second = waiter.default_session().info().unwrap().session_id;
    assert_ne!(first, second);
    let former = guard.fencing_token();
    guard.release().await.unwrap();
    let guard = waiting.await.unwrap().unwrap();
    assert!(guard.fencing_token() > former);
    assert!(guard.is_held());
}

#[tokio::test]
async fn a_black_hole_loses_the_guard_at_its_deadline_and_for_good() {
    let coordinator = Coordinator::in_process();
    let proxy = FaultProxy::before(&coordinator.endpoint()).await;
    let ttl = Duration::from_secs(1);
    let client = Client::builder().ttl(ttl);
    let client = client.connect(proxy.endpoint()).await.unwrap();
    let guard = client.lock("a").await.unwrap();
    let left = guard.valid_for();
    assert!(left < ttl, "{left:?}");
    let other = Client::connect(coordinator.endpoint()).await.unwrap();
    let waiting = tokio::spawn(other.lock("a").wait(LIMIT).into_future());
    waiters(&other, "a", 1).await;
    proxy.black_hole();
    // The guard's own clock ends it before the coordinator can grant the lock to anybody else.
    let next = waiting.await.unwrap().unwrap();
    assert!(!guard.is_held());
    assert_eq!(guard.valid_for(), Duration::ZERO);
    assert_eq!(guard.lost().await, LostReason::Expired);
    assert!(next.fencing_token() > guard.fencing_token());
    next.release().await.unwrap();

    proxy.forward();
    let again = client.lock("a").wait(LIMIT).await.unwrap();
    assert!(again.fencing_token() > guard.fencing_token());
    assert!(!guard.is_held());
    assert_eq!(guard.lost().await, LostReason::Expired);
    // It gives back nothing that is not its own.
    drop(guard);
    again.set_value("still ours").await.unwrap();
    again.release().await.unwrap();
}

#[tokio::test]
async fn a_release_that_nobody_answers_returns_within_its_bound() {
    let bound = Duration::from_secs(10);
    let coordinator = Coordinator::in_process();
    let proxy = FaultProxy::before(&coordinator.endpoint()).await;
    let client = Client::builder().ttl(Duration::from_secs(120));
    let client = client.connect(proxy.endpoint()).await.unwrap();
    let released = client.lock("released").await.unwrap();
    let changed = client.lock("changed").await.unwrap();
    let leading = client.election("led").campaign("").await.unwrap();
    proxy.black_hole();
    let began = Instant::now();
    let asked = async { tokio::join!(released.release(), leading.resign(), changed.set_value("")) };
    // Far less than the TTL, after which the stream is given up.
    let (released, resigned, set) = timeout(3 * bound, asked).await.unwrap();
    assert!(began.elapsed() >= bound, "it is waited for so long");
    for answer in [released, resigned, set] {
        assert!(
            matches!(answer, Err(HoldError::Unconfirmed { .. })),
            "{answer:?}"
        );
    }
    assert!(changed.is_held());
}

#[tokio::test]
async fn heartbeats_keep_a_guard_for_longer_than_its_ttl() {
    let coordinator = Coordinator::in_process();
    let client = Client::builder().ttl(Duration::from_secs(1));
    let client = client.connect(coordinator.endpoint()).await.unwrap();
    let guard = client.lock("a").await.unwrap();
    assert!(timeout(Duration::from_secs(3), guard.lost()).await.is_err());
    assert!(guard.is_held());
    guard.release().await.unwrap();
}

#[tokio::test]
async fn without_a_connection_a_try_fails_and_a_wait_ends_in_time() {
    let coordinator = Coordinator::in_process();
    let proxy = FaultProxy::before(&coordinator.endpoint()).await;
    let client = Client::connect(proxy.endpoint()).await.unwrap();
    proxy.set_refuse(true).await;
    proxy.cut(Cut::Rst).await;
    let session = client.default_session();
    while session.info().is_some() {
        tokio::task::yield_now().await;
    }
    let error = client.lock("a").try_acquire().await.unwrap_err();
    let AcquireError::Unavailable { source, .. } = &error else {
        panic!("{error:?}");
    };
    assert!(matches!(
        source.as_deref(),
        Some(ConnectError::Unreachable { .. })
    ));
    assert!(error.is_retryable());

    let began = Instant::now();
    let wait = Duration::from_millis(300);
    let error = client.lock("a").wait(wait).await.unwrap_err();
    assert!(matches!(error, AcquireError::Unavailable { .. }));
    assert!(began.elapsed() >= wait);
    assert!(began.elapsed() < wait + Duration::from_secs(1));

    // A wait without an end is served once there is a coordinator again.
    let waiting = tokio::spawn(client.lock("a").into_future());
    proxy.set_refuse(false).await;
    assert!(waiting.await.unwrap().unwrap().is_held());
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

//! Sessions that move to another coordinator, with their holds and waits.

use std::time::{Duration, Instant};

use leasehold_client::{Admin, Client, LockGuard, LockState, LostReason};
use leasehold_tests::{Coordinator, CoordinatorProcess, FaultProxy, RedisServer, wait};
use tokio::{sync::watch, time::timeout};

use super::{LIMIT, waiters};

const TTL: Duration = Duration::from_secs(3);

fn two(redis: &RedisServer) -> [CoordinatorProcess; 2] {
    [(); 2].map(|()| Coordinator::process().store(redis.url()).start())
}

/// Returns the index of the endpoint at which the client's session is.
async fn place(client: &Client, endpoints: &[String]) -> usize {
    let own = client.default_session().info().unwrap().session_id;
    for (index, endpoint) in endpoints.iter().enumerate() {
        let sessions = Admin::connect(endpoint).unwrap().list_sessions().await;
        if sessions.is_ok_and(|all| all.iter().any(|session| session.session_id == own)) {
            return index;
        }
    }
    panic!("the session {own} is nowhere");
}

async fn moved(client: &Client, from: &str) {
    wait::until("the session to have moved", LIMIT, || async {
        match client.default_session().info() {
            Some(info) if info.session_id != from => Ok(()),
            info => Err(info),
        }
    })
    .await;
}

async fn stays_held(guard: &LockGuard, time: Duration) {
    assert!(timeout(time, guard.changed()).await.is_err());
    assert_eq!(guard.state(), LockState::Held);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_drain_loses_nothing_and_fails_no_acquire() {
    let redis = RedisServer::start();
    let mut coordinators = two(&redis);
    let endpoints = coordinators.each_ref().map(CoordinatorProcess::endpoint);
    let client = Client::connect(&endpoints[..]).await.unwrap();
    let at = place(&client, &endpoints).await;
    let other = Client::connect(&endpoints[1 - at]).await.unwrap();

    let guard = client.lock("a").await.unwrap();
    let me = client.actor();
    let request = client.lock("twice").actor(me).reentrant();
    let outer = request.clone().await.unwrap();
    let inner = request.clone().await.unwrap();
    let taken = other.lock("b").await.unwrap();
    let waiting = tokio::spawn(client.lock("b").into_future());
    waiters(&other, "b", 1).await;
    let behind = tokio::spawn(other.lock("b").into_future());
    waiters(&other, "b", 2).await;
    let changed = tokio::spawn(guard.changed());
    let (cycle, mut cycles) = watch::channel(0_u32);
    let busy = tokio::spawn({
        let client = client.clone();
        async move {
            loop {
                let request = client.lock(format!("busy/{}", *cycle.borrow()));
                drop(request.try_acquire().await.unwrap().unwrap());
                cycle.send_modify(|cycle| *cycle += 1);
                if client.lock("stop").try_acquire().await.unwrap().is_none() {
                    return;
                }
            }
        }
    });
    cycles.wait_for(|cycles| *cycles > 0).await.unwrap();

    let before = client.default_session().info().unwrap().session_id;
    coordinators[at].terminate();
    moved(&client, &before).await;
    // Nobody is left there, so that it need not wait until its time is up.
    let began = Instant::now();
    assert!(coordinators[at].child().wait(LIMIT).await.success());
    assert!(began.elapsed() < Duration::from_secs(4));
    let _stop = other.lock("stop").await.unwrap();
    timeout(LIMIT, busy).await.unwrap().unwrap();

    assert!(!changed.is_finished());
    guard.set_value("moved").await.unwrap();
    let view = other.admin().get_lock("a").await.unwrap();
    assert_eq!(view.fencing_token, Some(guard.fencing_token()));
    assert_eq!(view.holders[0].value, b"moved");
    guard.release().await.unwrap();
    // Its place is the one that it had.
    taken.release().await.unwrap();
    let waited = timeout(LIMIT, waiting).await.unwrap().unwrap().unwrap();
    assert!(!behind.is_finished());
    waited.release().await.unwrap();
    drop(timeout(LIMIT, behind).await.unwrap().unwrap().unwrap());
    // It is held as often as before.
    inner.release().await.unwrap();
    assert!(other.lock("twice").try_acquire().await.unwrap().is_none());
    assert_eq!(request.await.unwrap().hold_count(), 2);
    outer.release().await.unwrap();
    assert!(other.lock("twice").wait(LIMIT).await.is_ok());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn with_a_grace_the_death_of_a_coordinator_suspends() {
    let redis = RedisServer::start();
    let mut coordinators = two(&redis);
    let endpoints = coordinators.each_ref().map(CoordinatorProcess::endpoint);
    let client = Client::builder().ttl(TTL).disconnect_grace(TTL);
    let client = client.connect(&endpoints[..]).await.unwrap();
    let at = place(&client, &endpoints).await;
    let other = Client::connect(&endpoints[1 - at]).await.unwrap();
    let guard = client.lock("a").await.unwrap();
    let waiting = tokio::spawn(other.lock("a").into_future());
    waiters(&other, "a", 1).await;

    let suspended = guard.changed();
    coordinators[at].kill();
    assert_eq!(
        timeout(LIMIT, suspended).await.unwrap(),
        LockState::Suspended
    );
    let held_again = guard.changed();
    assert!(!guard.is_held() && guard.valid_for().is_zero());
    assert_eq!(timeout(LIMIT, held_again).await.unwrap(), LockState::Held);
    stays_held(&guard, 2 * TTL).await;
    assert!(!waiting.is_finished());
    let token = guard.fencing_token();
    guard.release().await.unwrap();
    let next = timeout(LIMIT, waiting).await.unwrap().unwrap().unwrap();
    assert!(next.fencing_token() > token);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn holds_released_while_suspended_are_given_back_on_the_next_stream() {
    let redis = RedisServer::start();
    let mut coordinators = two(&redis);
    let endpoints = coordinators.each_ref().map(CoordinatorProcess::endpoint);
    let client = Client::builder().ttl(TTL).disconnect_grace(TTL);
    let client = client.connect(&endpoints[..]).await.unwrap();
    let at = place(&client, &endpoints).await;
    let other = Client::connect(&endpoints[1 - at]).await.unwrap();
    let (first, second) = (client.lock("a"), client.lock("b"));
    let (first, second) = (first.await.unwrap(), second.await.unwrap());
    let suspended = first.changed();
    coordinators[at].kill();
    suspended.await;
    drop(first);
    second.release().await.unwrap();
    for name in ["a", "b"] {
        let request = other.lock(name).wait(TTL / 3);
        drop(request.await.unwrap());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_grace_the_death_of_a_coordinator_loses_at_once() {
    let redis = RedisServer::start();
    let mut coordinators = two(&redis);
    let endpoints = coordinators.each_ref().map(CoordinatorProcess::endpoint);
    let client = Client::builder().ttl(TTL);
    let client = client.connect(&endpoints[..]).await.unwrap();
    let at = place(&client, &endpoints).await;
    let guard = client.lock("a").await.unwrap();
    coordinators[at].kill();
    let began = Instant::now();
    assert_eq!(guard.lost().await, LostReason::SessionEnded);
    assert!(began.elapsed() < TTL / 3);
    // It is left to expire, and is not taken again by itself.
    let again = client.lock("a").wait(LIMIT).await.unwrap();
    assert!(again.fencing_token() > guard.fencing_token());
    assert!(!guard.is_held());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_black_hole_is_left_before_the_deadline() {
    let redis = RedisServer::start();
    let coordinators = two(&redis);
    let endpoints = coordinators.each_ref().map(CoordinatorProcess::endpoint);
    let proxies = [
        FaultProxy::before(&endpoints[0]).await,
        FaultProxy::before(&endpoints[1]).await,
    ];
    let through = proxies.each_ref().map(FaultProxy::endpoint);
    let client = Client::builder().ttl(TTL).connect(through).await.unwrap();
    let guard = client.lock("a").await.unwrap();
    let token = guard.fencing_token();
    let at = place(&client, &endpoints).await;
    let other = Client::connect(&endpoints[1 - at]).await.unwrap();
    let taken = other.lock("b").await.unwrap();
    let waiting = tokio::spawn(client.lock("b").into_future());
    waiters(&other, "b", 1).await;

    proxies[at].black_hole();
    // The coordinator's silence timer fires meanwhile.
    stays_held(&guard, 2 * TTL).await;
    assert_eq!(place(&client, &endpoints).await, 1 - at);
    // What was on its way arrives after all, and the old connection closes.
    proxies[at].forward();
    stays_held(&guard, TTL).await;
    let view = other.admin().get_lock("a").await.unwrap();
    assert_eq!(view.fencing_token, Some(token));
    taken.release().await.unwrap();
    drop(timeout(LIMIT, waiting).await.unwrap().unwrap().unwrap());
    guard.release().await.unwrap();
    assert!(other.lock("a").try_acquire().await.unwrap().is_some());
}

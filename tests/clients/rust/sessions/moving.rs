//! Sessions that move to another coordinator, with their holds and waits.

use std::time::Duration;

use leasehold_client::{Admin, Client, LockState};
use leasehold_tests::{Coordinator, CoordinatorProcess, FaultProxy, RedisServer, wait};
use tokio::time::timeout;

use crate::{LIMIT, waiters};

/// Starts two coordinators on a store. Neither ends while a session is there.
fn two(redis: &RedisServer) -> [CoordinatorProcess; 2] {
    let start = |()| {
        Coordinator::process()
            .store(redis.url())
            .arguments(["--drain-timeout", "5m"])
            .start()
    };
    [(); 2].map(start)
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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn holds_released_while_suspended_are_given_back_on_the_next_stream() {
    let redis = RedisServer::start();
    let mut coordinators = two(&redis);
    let endpoints = coordinators.each_ref().map(CoordinatorProcess::endpoint);
    // Longer than anybody waits for them.
    let (ttl, grace) = (4 * LIMIT, 4 * LIMIT);
    let client = Client::builder().ttl(ttl).disconnect_grace(grace);
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
        let request = other.lock(name).wait(LIMIT);
        drop(request.await.unwrap());
    }
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
    let ttl = Duration::from_secs(6);
    let client = Client::builder().ttl(ttl).connect(through).await.unwrap();
    let before = client.default_session().info().unwrap().session_id;
    let guard = client.lock("a").await.unwrap();
    let token = guard.fencing_token();
    let at = place(&client, &endpoints).await;
    let other = Client::connect(&endpoints[1 - at]).await.unwrap();
    let taken = other.lock("b").await.unwrap();
    let waiting = tokio::spawn(client.lock("b").into_future());
    waiters(&other, "b", 1).await;

    let changed = tokio::spawn(guard.changed());
    proxies[at].black_hole();
    moved(&client, &before).await;
    assert_eq!(place(&client, &endpoints).await, 1 - at);
    // The coordinator that was left gives the silent session up.
    wait::until("the former session to end", LIMIT, || async {
        let sessions = Admin::connect(&endpoints[at])
            .unwrap()
            .list_sessions()
            .await;
        let sessions = sessions.unwrap();
        sessions.is_empty().then_some(()).ok_or(sessions)
    })
    .await;
    // What was on its way arrives after all, and the old connection closes.
    proxies[at].forward();
    taken.set_value("seen").await.unwrap();
    assert!(!changed.is_finished());
    assert_eq!(guard.state(), LockState::Held);
    let view = other.admin().get_lock("a").await.unwrap();
    assert_eq!(view.fencing_token, Some(token));
    taken.release().await.unwrap();
    drop(timeout(LIMIT, waiting).await.unwrap().unwrap().unwrap());
    guard.release().await.unwrap();
    assert!(other.lock("a").try_acquire().await.unwrap().is_some());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_that_is_asked_to_move_and_cannot_goes_on_until_it_can() {
    let coordinator = Coordinator::in_process_with(["--max-stream-size", "65536"]);
    let proxy = FaultProxy::before(&coordinator.endpoint()).await;
    let client = Client::connect(proxy.endpoint()).await.unwrap();
    let guard = client.lock("a").await.unwrap();
    let before = client.default_session().info().unwrap().session_id;
    proxy.set_refuse(true).await;
    // Enough to be asked three times, while no connection can be made.
    for _ in 0..50 {
        let cycle = client.lock("b").value(vec![0; 4096]).wait(LIMIT);
        cycle.await.unwrap().release().await.unwrap();
    }
    assert!(guard.is_held());
    assert_eq!(client.default_session().drains_in(), None);
    assert_eq!(client.default_session().info().unwrap().session_id, before);
    proxy.set_refuse(false).await;
    moved(&client, &before).await;
    assert!(guard.is_held());
    guard.release().await.unwrap();
}

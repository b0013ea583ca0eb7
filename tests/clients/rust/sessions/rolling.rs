//! A rolling restart under many sessions.

use std::{sync::Arc, time::Duration};

use leasehold_client::{Client, LockState};
use leasehold_tests::{Coordinator, CoordinatorProcess, RedisServer, ports::free_port};
use tokio::{sync::watch, task::JoinSet};

use super::LIMIT;

const CLIENTS: usize = 100;
/// Fewer than there are clients: most of them wait.
const SHARED_NAMES: usize = 20;

/// Holds a lock of its own all the while, and takes one of those of all, again and again. Returns how often it did.
async fn works(
    number: usize,
    endpoints: Arc<[String]>,
    ready: Arc<tokio::sync::Barrier>,
    mut stop: watch::Receiver<bool>,
) -> u64 {
    let client = Client::connect(&endpoints[..]).await.unwrap();
    let own = client.lock(format!("own/{number}"));
    let own = own.await.unwrap();
    let mut changed = Box::pin(own.changed());
    ready.wait().await;
    for taken in 0.. {
        let name = format!("shared/{}", (number + taken) % SHARED_NAMES);
        let request = client.lock(name);
        tokio::select! {
            biased;
            state = &mut changed => panic!("client {number} has lost its lock: {state:?}"),
            shared = request.into_future() => {
                let shared = shared.unwrap();
                tokio::time::sleep(Duration::from_millis(2)).await;
                shared.release().await.unwrap();
            }
            _ = stop.changed() => {
                assert_eq!(own.state(), LockState::Held);
                own.release().await.unwrap();
                return taken as u64;
            }
        }
    }
    0
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rolling_restart_loses_no_lock_and_fails_no_acquire() {
    let redis = RedisServer::start();
    let addresses = [(); 3].map(|()| format!("127.0.0.1:{}", free_port()));
    let start = |address: &String| {
        Coordinator::process()
            .store(redis.url())
            .arguments(["--listen", address])
            .start()
    };
    let mut coordinators = addresses.each_ref().map(start);
    let endpoints: Arc<[String]> = coordinators
        .iter()
        .map(CoordinatorProcess::endpoint)
        .collect();
    let (stop, stopped) = watch::channel(false);
    let ready = Arc::new(tokio::sync::Barrier::new(CLIENTS + 1));
    let mut clients = JoinSet::new();
    for number in 0..CLIENTS {
        let (endpoints, ready) = (endpoints.clone(), ready.clone());
        clients.spawn(works(number, endpoints, ready, stopped.clone()));
    }
    ready.wait().await;
    for (coordinator, address) in coordinators.iter_mut().zip(&addresses) {
        coordinator.terminate();
        assert!(coordinator.child().wait(LIMIT).await.success());
        *coordinator = start(address);
    }
    stop.send_replace(true);
    let mut taken = 0;
    while let Some(done) = clients.join_next().await {
        taken += done.unwrap();
    }
    assert!(taken > CLIENTS as u64, "only {taken} locks were taken");
}

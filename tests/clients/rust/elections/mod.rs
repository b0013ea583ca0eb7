//! Elections and watching against a real coordinator, over connections that break, and against a scripted one.

mod campaigns;
mod observers;
mod run_while_leader;
mod scripted;
mod watchers;

use std::time::Duration;

use leasehold_client::{Client, LeaderChange, Observer};
use leasehold_tests::{Coordinator, CoordinatorProcess, wait};
use tokio::time::timeout;

const LIMIT: Duration = Duration::from_secs(20);

/// Waits until the lock of an election has neither holder nor waiter.
async fn deserted(client: &Client, name: &str) {
    wait::until("nobody to lead or campaign", LIMIT, || async {
        let lock = client.admin().get_lock(name).await.unwrap();
        match lock.holders.is_empty() && lock.waiter_count == 0 {
            true => Ok(()),
            false => Err(lock),
        }
    })
    .await;
}

/// Waits until that many candidates wait.
async fn candidates(client: &Client, name: &str, count: u64) {
    wait::until("the number of candidates", LIMIT, || async {
        match client.admin().get_lock(name).await.unwrap().waiter_count {
            candidates if candidates == count => Ok(()),
            candidates => Err(candidates),
        }
    })
    .await;
}

/// Returns the next change that an observer yields.
async fn next(observer: &mut Observer) -> LeaderChange {
    let change = timeout(LIMIT, observer.next()).await.unwrap();
    change.unwrap().unwrap()
}

/// Returns a coordinator in the place of one that has ended.
fn successor(of: &str) -> CoordinatorProcess {
    let address = of.trim_start_matches("http://");
    Coordinator::process()
        .arguments(["--listen", address])
        .start()
}

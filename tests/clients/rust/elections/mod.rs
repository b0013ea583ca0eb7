//! Elections and watching against a real coordinator, over connections that break.

mod campaigns;
mod observers;
mod run_while_leader;
mod watchers;

use leasehold_client::{Client, LeaderChange, Observer};
use leasehold_tests::{Coordinator, CoordinatorProcess, wait};
use tokio::time::timeout;

use crate::LIMIT;

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

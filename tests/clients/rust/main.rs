//! The Rust client against real coordinators, over connections that break. The conformance scenarios with its driver, and the unit
//! tests of its machine, show what a session does; these tests show what only this library has, and its way to the network.
#![expect(clippy::unwrap_used, clippy::panic, reason = "tests fail by panicking")]

mod elections;
mod hostile;
mod secure;
mod sessions;

use std::time::Duration;

use leasehold_client::Client;
use leasehold_tests::{Coordinator, wait};

/// Longer than anything here takes on a busy machine.
const LIMIT: Duration = Duration::from_secs(20);

/// Returns a coordinator that keeps its locks in memory, and a client of it.
async fn coordinator_and_client() -> (Coordinator, Client) {
    let coordinator = Coordinator::in_process();
    let client = Client::connect(coordinator.endpoint()).await.unwrap();
    (coordinator, client)
}

/// Waits until that many wait for a lock, or for the lead in the election of that name.
async fn waiters(client: &Client, name: &str, count: u64) {
    wait::until("the number of waiters", LIMIT, || async {
        match client.admin().get_lock(name).await.unwrap().waiter_count {
            waiters if waiters == count => Ok(()),
            waiters => Err(waiters),
        }
    })
    .await;
}

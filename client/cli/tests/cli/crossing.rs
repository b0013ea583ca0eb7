//! Signals to `run` or `elect` that arrive together with the grant that it waits for.

use leasehold_client::Client;
use leasehold_tests::{
    Coordinator, FaultProxy,
    proxy::{Direction, Flow},
    wait,
};
use tokio::time::timeout;

use super::{LIMIT, spawn_merged, until_waiters};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_grant_that_crosses_a_signal_is_given_back_without_the_lock_delay() {
    let coordinator = Coordinator::in_process();
    let client = Client::connect(coordinator.endpoint()).await.unwrap();
    let admin = client.admin();
    for tool in ["run", "elect"] {
        let held = client.lock(tool).await.unwrap();
        let token = Some(held.fencing_token());
        let proxy = FaultProxy::before(&coordinator.endpoint()).await;
        // Longer than anything here takes.
        let args = [tool, tool, "--lock-delay", "5m", "--", "true"];
        let (mut waits, _lines) = spawn_merged(&proxy.endpoint(), &args);
        until_waiters(&client, tool, 1).await;
        // It holds the lock, and does not know.
        proxy.set_flow(Direction::ToClient, Flow::Hold);
        held.release().await.unwrap();
        wait::until("it to be granted the lock", LIMIT, || async {
            match admin.get_lock(tool).await.unwrap().fencing_token {
                newest if newest > token => Ok(()),
                newest => Err(newest),
            }
        })
        .await;
        waits.terminate();
        assert_eq!(waits.wait(LIMIT).await.code(), Some(143), "{tool}");
        let next = timeout(LIMIT, client.lock(tool)).await;
        // Given back, or this would have been too long.
        next.unwrap().unwrap().release().await.unwrap();
    }
}

//! Signals to `run` or `elect` that arrive together with the grant or the end that it waits for.

use std::time::{Duration, Instant};

use leasehold_client::Client;
use leasehold_tests::{
    Coordinator, FaultProxy,
    proxy::{Cut, Direction, Flow},
    wait,
};
use tokio::time::timeout;

use super::{LIMIT, spawn_merged};

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
        wait::until("it to wait", LIMIT, || async {
            match admin.get_lock(tool).await.unwrap().waiter_count {
                1 => Ok(()),
                waiters => Err(waiters),
            }
        })
        .await;
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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_connection_nothing_is_waited_for() {
    let coordinator = Coordinator::in_process();
    let client = Client::connect(coordinator.endpoint()).await.unwrap();
    let _leadership = client.election("e").campaign("").await.unwrap();
    let proxy = FaultProxy::before(&coordinator.endpoint()).await;
    let args = ["elect", "e", "--", "true"];
    let (mut elect, mut lines) = spawn_merged(&proxy.endpoint(), &args);
    wait::until("it to wait", LIMIT, || async {
        match client.admin().get_lock("e").await.unwrap().waiter_count {
            1 => Ok(()),
            waiters => Err(waiters),
        }
    })
    .await;
    proxy.set_refuse(true).await;
    proxy.cut(Cut::Rst).await;
    lines.expect("leasehold: no connection", LIMIT).await;
    let asked = Instant::now();
    elect.terminate();
    assert_eq!(elect.wait(LIMIT).await.code(), Some(143));
    // Where there is one, an answer is waited for twice as long.
    assert!(asked.elapsed() < Duration::from_secs(1));
}

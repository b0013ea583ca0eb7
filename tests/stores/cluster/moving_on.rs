//! Waiters and watchers whose slot moves to another node.

use std::time::Duration;

use leasehold_client::{Holder, LockWatchEvent, LockWatcher};
use leasehold_tests::wait;
use tokio::{task::block_in_place, time::timeout};

use crate::cluster::site::{LIMIT, Site, names_on, slot_of};

/// Returns the channels of slots that coordinators listen to on a node.
fn slot_channels(site: &Site, node: usize) -> Vec<String> {
    redis::cmd("PUBSUB")
        .arg("SHARDCHANNELS")
        .query(&mut site.cluster.node(node).connection())
        .unwrap()
}

/// Returns the hold of the next event that concerns one, or of a lock that the watcher finds held.
async fn next_hold(watcher: &mut LockWatcher, name: &str) -> Holder {
    loop {
        let news = timeout(LIMIT, watcher.next()).await.unwrap();
        match news.unwrap().unwrap() {
            LockWatchEvent::Event(event) if event.name == name => {
                if let Some(holder) = event.holder {
                    return holder;
                }
            }
            LockWatchEvent::Lock(mut lock) if lock.name == name => return lock.holders.remove(0),
            _ => {}
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn waiters_and_watchers_follow_a_slot_to_another_node() {
    let site = Site::start().await;
    let name = names_on(0).next().unwrap();
    let slot = slot_of(&name);
    let (one, other) = (site.client(0).await, site.client(1).await);
    let mut watcher = site.client(1).await.admin().watch_locks("on 0/");
    let guard = one.lock(&*name).await.unwrap();
    let hold = next_hold(&mut watcher, &name).await;
    assert_eq!(hold.fencing_token, Some(guard.fencing_token()));
    let waiter = tokio::spawn(other.lock(&*name).into_future());
    // The holder's coordinator listens to the slot too, once it has renewed the hold.
    let listened_to = async |node| {
        wait::until("the waiter to be listened for", LIMIT, async || {
            let channels = slot_channels(&site, node);
            let mut of_coordinators = channels
                .iter()
                .filter_map(|channel| channel.split_once(":wake:"));
            let heard = of_coordinators.any(|(_, coordinator)| coordinator != hold.coordinator);
            heard.then_some(()).ok_or(channels)
        })
        .await;
    };
    listened_to(0).await;
    block_in_place(|| site.cluster.move_slot(slot, 0, 1));
    listened_to(1).await;
    guard.release().await.unwrap();
    let granted = timeout(LIMIT, waiter).await.unwrap().unwrap().unwrap();

    // A replica takes over: nobody has to be told.
    block_in_place(|| site.cluster.fail_over(site.cluster.replica_of(1).unwrap()));
    for client in [&one, &other] {
        wait::until("the coordinator to find the new master", LIMIT, || async {
            client.admin().get_lock(&name).await
        })
        .await;
    }
    let before = Some(granted.fencing_token());
    granted.release().await.unwrap();
    // The watcher may miss what happens until it follows the new master.
    let cycles = async {
        loop {
            let guard = one.lock(&*name).await.unwrap();
            tokio::time::sleep(Duration::from_millis(500)).await;
            guard.release().await.unwrap();
        }
    };
    let told = async { while next_hold(&mut watcher, &name).await.fencing_token <= before {} };
    tokio::select! {
        () = told => {}
        () = cycles => {}
    }
    site.assert_clean();
}

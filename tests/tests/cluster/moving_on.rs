//! Those who listen follow their slots.

use std::time::Duration;

use leasehold_client::{LockNews, LockWatcher};
use leasehold_tests::{report, wait};
use tokio::{task::block_in_place, time::timeout};

use crate::{
    basics::{WOKEN, slot_channels},
    site::{LIMIT, Site, names_on, slot_of, timed},
};

/// The token of the next grant that a watcher is told of, of a hold or a lock that it finds held.
async fn next_grant(watcher: &mut LockWatcher, name: &str) -> i64 {
    loop {
        match timeout(LIMIT, watcher.next())
            .await
            .unwrap()
            .unwrap()
            .unwrap()
        {
            LockNews::Event(event) if event.name == name => return event.fencing_token,
            LockNews::Lock(lock) if lock.name == name => return lock.holders[0].fencing_token,
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
    let guard = one.lock(&*name).acquire().await.unwrap();
    assert_eq!(
        next_grant(&mut watcher, &name).await,
        guard.fencing_token().get()
    );
    let waiter = tokio::spawn(other.lock(&*name).acquire());
    wait::until("the waiter to be listened for", LIMIT, || async {
        let channels = slot_channels(&site, 0);
        let heard = channels.iter().any(|channel| channel.contains(":wake:"));
        heard.then_some(()).ok_or(channels)
    })
    .await;
    block_in_place(|| site.cluster.move_slot(slot, 0, 1));
    // Whether or not the waiter's coordinator listens at the new node by now.
    let (granted, took) = timed(async {
        guard.release().await.unwrap();
        timeout(LIMIT, waiter).await.unwrap().unwrap().unwrap()
    })
    .await;
    report(format!("woken after {took:?}"));
    assert!(took < WOKEN, "{took:?}");

    // A replica takes over: nobody has to be told.
    block_in_place(|| site.cluster.fail_over(site.cluster.replica_of(1).unwrap()));
    granted.release().await.unwrap();
    let mut newest = 0;
    for _ in 0..3 {
        let guard = one.lock(&*name).acquire().await.unwrap();
        newest = guard.fencing_token().get();
        tokio::time::sleep(Duration::from_millis(500)).await;
        guard.release().await.unwrap();
    }
    while next_grant(&mut watcher, &name).await < newest {}
    site.assert_clean();
}

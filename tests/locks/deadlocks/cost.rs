//! Cost of detection where no deadlock is possible, or where it is turned off: none.

use std::time::Duration;

use futures_util::future::join_all;
use leasehold_proto::v1::{AcquireOutcome, session_response::Response};
use leasehold_tests::{
    Site,
    raw::{PROMPT, for_at_most},
    wait,
};

use crate::deadlocks::{
    client::{Client, exclusive, several},
    monitor::Monitor,
};

const SESSIONS: usize = 8;
const ROUNDS: usize = 40;
/// Number of locks that each actor holds at a time.
const HELD: usize = 3;
/// Names that are waited for, and by how many each.
const WAITED_FOR: usize = 12;
const WAITERS: usize = 4;
/// Long enough to be looked at several times.
const WAIT: Duration = Duration::from_secs(3);

async fn clients(site: &Site, count: usize) -> Vec<Client> {
    join_all((0..count).map(|at| Client::at(site, at))).await
}

/// Actors that take several locks at a time, which are free.
async fn take_what_is_free(site: &Site) {
    let work = (0..SESSIONS).map(|number| async move {
        let mut client = Client::at(site, number).await;
        for round in 0..ROUNDS {
            let actor = 1 + round as u64;
            let name = |lock: usize| format!("free/{number}/{round}/{lock}");
            let mut held = Vec::new();
            for lock in 0..HELD {
                held.extend(client.take(exclusive(actor, &name(lock))).await);
            }
            client.release(&held).await;
        }
        client.close().await;
    });
    join_all(work).await;
}

/// Actors that hold one lock each, and others that hold nothing and wait for one of these, or for that and another.
async fn wait_with_nothing(site: &Site) {
    let name = |number: usize| format!("waited-for/{number:02}");
    let mut holders = clients(site, WAITED_FOR).await;
    for (number, holder) in holders.iter_mut().enumerate() {
        holder.take(exclusive(1, &name(number))).await;
    }
    let mut waiters = clients(site, WAITED_FOR * WAITERS).await;
    let mut waits = Vec::new();
    for (number, waiter) in waiters.iter_mut().enumerate() {
        let first = number % WAITED_FOR;
        let acquire = if number.is_multiple_of(2) {
            exclusive(7, &name(first))
        } else {
            // Taken in the order of their names: the one that is not free comes first.
            let free = format!("without-anybody/{number}");
            several(7, [free.as_str(), &name(first)])
        };
        waits.push(waiter.wait_for(acquire).await);
    }
    tokio::time::sleep(WAIT).await;
    for holder in holders {
        holder.close().await;
    }
    let served = waiters.into_iter().zip(waits);
    let served = served.map(|(mut waiter, wait)| async move {
        let locks = waiter.granted_all(wait.request_id, PROMPT).await;
        waiter.release(&locks).await;
        waiter.close().await;
    });
    join_all(served).await;
}

#[tokio::test]
async fn free_names_and_waits_of_actors_that_hold_nothing_are_not_looked_at() {
    let site = Site::redis(2).await;
    let monitor = Monitor::start(site.server()).await;
    let operations = || site.sum("leasehold_store_operations_total");

    let before = operations().await;
    take_what_is_free(&site).await;
    let free = operations().await - before;
    // An acquire and a release each.
    assert_eq!(free, (SESSIONS * ROUNDS * HELD * 2) as f64);
    wait_with_nothing(&site).await;
    let asked = monitor.finish().await;
    assert!(asked.calls > 0, "{asked:?}");
    assert_eq!(asked.of_blocked, 0, "{asked:?}");

    // Somebody who does hold something shows that this would have been seen.
    let monitor = Monitor::start(site.server()).await;
    let mut clients = clients(&site, 2).await;
    clients[0].take(exclusive(1, "other")).await;
    clients[1].take(exclusive(1, "own")).await;
    clients[1].wait_for(exclusive(1, "other")).await;
    wait::until("the wait to be published", PROMPT, || async {
        let published = site.keys("lh:blocked-waits:").await;
        if published.is_empty() {
            Err(())
        } else {
            Ok(())
        }
    })
    .await;
    let asked = monitor.finish().await;
    assert!(asked.of_blocked > 0, "{asked:?}");
    for client in clients {
        client.close().await;
    }
    assert_eq!(site.sum("leasehold_deadlocks_total").await, 0.0);
    site.nothing_is_left().await;
}

#[tokio::test]
async fn without_detection_a_deadlock_stays_until_its_waits_time_out_and_nobody_is_told() {
    let site = Site::redis_with(2, &["--deadlock-detection=false"]).await;
    let monitor = Monitor::start(site.server()).await;
    let (mut one, mut other) = (Client::at(&site, 0).await, Client::at(&site, 1).await);
    one.take(exclusive(1, "x")).await;
    other.take(exclusive(1, "y")).await;
    let waits_for_y = one.wait_for(for_at_most(WAIT, exclusive(1, "y"))).await;
    let waits_for_x = other.wait_for(for_at_most(WAIT, exclusive(1, "x"))).await;
    for (client, waits) in [(&mut one, waits_for_y), (&mut other, waits_for_x)] {
        match client.outcome(waits.request_id, WAIT + PROMPT).await {
            Response::NotGranted(end) => assert_eq!(end.outcome(), AcquireOutcome::TimedOut),
            end => panic!("not timed out, but: {end:?}"),
        }
    }
    one.close().await;
    other.close().await;
    let asked = monitor.finish().await;
    assert!(asked.calls > 0, "{asked:?}");
    assert_eq!(asked.of_blocked, 0, "{asked:?}");
    assert_eq!(site.sum("leasehold_deadlocks_total").await, 0.0);
    site.nothing_is_left().await;
}

//! Cost of detection where no deadlock is possible: none.

use std::time::Duration;

use futures_util::future::join_all;
use leasehold_tests::{Site, raw::PROMPT, report};

use crate::deadlocks::{
    client::{Client, exclusive, several},
    monitor::{Monitor, PUBLISHED},
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

async fn operations(site: &Site) -> f64 {
    site.sum("leasehold_store_operations_total").await
}

/// Actors that take several locks at a time, which are free.
async fn take_what_is_free(site: &Site) {
    let clients = clients(site, SESSIONS).await;
    let work = clients
        .into_iter()
        .enumerate()
        .map(|(number, mut client)| async move {
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
    let mut held = Vec::new();
    for (number, holder) in holders.iter_mut().enumerate() {
        held.push(holder.take(exclusive(1, &name(number))).await);
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
    for (holder, locks) in holders.iter_mut().zip(&held) {
        holder.release(locks).await;
    }
    let served = waiters
        .into_iter()
        .zip(waits)
        .map(|(mut waiter, wait)| async move {
            let locks = waiter.granted_all(wait.request_id, PROMPT).await;
            waiter.release(&locks).await;
            waiter.close().await;
        });
    join_all(served).await;
    for holder in holders {
        holder.close().await;
    }
}

/// Makes an actor hold one lock and wait for another.
async fn wait_with_something(site: &Site) {
    let mut clients = clients(site, 2).await;
    let (waiter, holders) = clients.split_first_mut().unwrap();
    let holder = &mut holders[0];
    let other = holder.take(exclusive(1, PUBLISHED)).await;
    let own = waiter.take(exclusive(1, "something/own")).await;
    let wait = waiter.wait_for(exclusive(1, PUBLISHED)).await;
    tokio::time::sleep(WAIT).await;
    holder.release(&other).await;
    let other = waiter.granted_all(wait.request_id, PROMPT).await;
    waiter.release(&[own, other].concat()).await;
    for client in clients {
        client.close().await;
    }
}

#[tokio::test]
async fn free_names_and_waits_of_actors_that_hold_nothing_are_not_looked_at() {
    let (on, off) = tokio::join!(
        Site::redis(2),
        Site::redis_with(2, &["--deadlock-detection=false"]),
    );
    let monitor = Monitor::start(on.server()).await;

    let before = operations(&on).await;
    take_what_is_free(&on).await;
    let free = operations(&on).await - before;
    // An acquire and a release each.
    assert_eq!(free, (SESSIONS * ROUNDS * HELD * 2) as f64);

    let before = [operations(&on).await, operations(&off).await];
    tokio::join!(wait_with_nothing(&on), wait_with_nothing(&off));
    let with = operations(&on).await - before[0];
    let without = operations(&off).await - before[1];
    // But for a refresh of each name at each coordinator, of which there may be one more in a run that takes a little longer.
    let refreshes = (WAITED_FOR * on.coordinators.len()) as f64;
    assert!(with <= without + refreshes, "{with}, without {without}");
    let asked = monitor.finish().await;
    report(format!(
        "operations: {free} for {} free locks; {with} for waits with nothing in hand, {without} without detection; {asked:?}",
        SESSIONS * ROUNDS * HELD
    ));
    assert!(asked.calls > 0, "{asked:?}");
    assert_eq!(asked.of_blocked, 0, "{asked:?}");

    // Somebody who does hold something shows that this would have been seen.
    let monitor = Monitor::start(on.server()).await;
    let before = [operations(&on).await, operations(&off).await];
    tokio::join!(wait_with_something(&on), wait_with_something(&off));
    let with = operations(&on).await - before[0];
    let without = operations(&off).await - before[1];
    assert!(with > without + 3.0, "{with}, without {without}");
    let asked = monitor.finish().await;
    assert!(asked.of_blocked > 0, "{asked:?}");
    // It waited for several passes, and nothing about it changed.
    assert_eq!(asked.published, 1, "{asked:?}");
    for site in [on, off] {
        assert_eq!(site.sum("leasehold_deadlocks_total").await, 0.0);
        site.nothing_is_left().await;
    }
}

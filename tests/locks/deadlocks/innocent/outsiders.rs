//! Waits of all actors for each other, and in the end for one that is free to go on.

use leasehold_tests::Site;
use tokio::time::Instant;

use crate::deadlocks::client::{Client, exclusive, permits};

use super::{LENGTH, WHILE, granted};

/// Makes one of two actors of a session wait for the other; taken together, the session waits for itself, and for another
/// session that waits for it.
pub(super) async fn another_actor_of_the_session(site: &Site) {
    let (mut ours, mut other) = (Client::at(site, 0).await, Client::at(site, 1).await);
    let until = Instant::now() + LENGTH;
    while Instant::now() < until {
        let a = ours.take(exclusive(1, "actors/a")).await;
        let b = ours.take(exclusive(2, "actors/b")).await;
        let c = ours.take(exclusive(3, "actors/c")).await;
        let d = other.take(exclusive(1, "actors/d")).await;
        let first = ours.wait_for(exclusive(1, "actors/b")).await;
        let others = other.wait_for(exclusive(1, "actors/a")).await;
        let third = ours.wait_for(exclusive(3, "actors/d")).await;
        tokio::time::sleep(WHILE).await;
        ours.release(&b).await;
        let b = granted(&mut ours, first.request_id).await;
        ours.release(&[a, b].concat()).await;
        let a = granted(&mut other, others.request_id).await;
        other.release(&[a, d].concat()).await;
        let d = granted(&mut ours, third.request_id).await;
        ours.release(&[c, d].concat()).await;
    }
    ours.close().await;
    other.close().await;
}

/// Makes one holder of a permit wait for an actor that waits for a permit; the other holder is free to release.
pub(super) async fn another_holder_of_a_permit(site: &Site) {
    let (mut blocked, mut free, mut waiter) = tokio::join!(
        Client::at(site, 0),
        Client::at(site, 1),
        Client::at(site, 0)
    );
    let until = Instant::now() + LENGTH;
    while Instant::now() < until {
        let one = blocked.take(permits(1, "permits/s", 1, 2)).await;
        let other = free.take(permits(1, "permits/s", 1, 2)).await;
        let x = waiter.take(exclusive(1, "permits/x")).await;
        let for_permit = waiter.wait_for(permits(1, "permits/s", 1, 2)).await;
        let for_x = blocked.wait_for(exclusive(1, "permits/x")).await;
        tokio::time::sleep(WHILE).await;
        free.release(&other).await;
        let permit = granted(&mut waiter, for_permit.request_id).await;
        waiter.release(&[permit, x].concat()).await;
        let x = granted(&mut blocked, for_x.request_id).await;
        blocked.release(&[one, x].concat()).await;
    }
    for client in [blocked, free, waiter] {
        client.close().await;
    }
}

/// Makes a long row of actors that wait for one another, and for one that works all the time.
pub(super) async fn long_work(site: &Site) {
    const ACTORS: usize = 12;
    let name = |number: usize| format!("work/{number}");
    let mut clients = Vec::with_capacity(ACTORS);
    let mut held = Vec::with_capacity(ACTORS);
    for number in 0..ACTORS {
        let mut client = Client::at(site, number).await;
        held.push(client.take(exclusive(1, &name(number))).await);
        clients.push(client);
    }
    let mut waits = Vec::with_capacity(ACTORS);
    for (number, client) in clients.iter_mut().enumerate().take(ACTORS - 1) {
        waits.push(client.wait_for(exclusive(1, &name(number + 1))).await);
    }
    tokio::time::sleep(LENGTH).await;
    clients[ACTORS - 1].release(&held[ACTORS - 1]).await;
    for number in (0..ACTORS - 1).rev() {
        let client = &mut clients[number];
        let next = granted(client, waits[number].request_id).await;
        client.release(&[&next[..], &held[number]].concat()).await;
    }
    for client in clients {
        client.close().await;
    }
}

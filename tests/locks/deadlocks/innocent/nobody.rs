//! Actors with the number 0.

use std::time::Duration;

use leasehold_proto::v1::{AcquireOutcome, session_response::Response};
use leasehold_tests::{Site, raw::for_at_most};
use tokio::time::Instant;

use crate::deadlocks::client::{Client, exclusive};

use super::{LENGTH, LIMIT};

/// More than it takes to find a deadlock.
const WAIT: Duration = Duration::from_millis(2_500);

/// Makes real circles of waits without an actor, and of waits with and without one: they end when their waits time out, and no
/// sooner.
pub(super) async fn in_circles(site: &Site) {
    tokio::join!(circle(site, [0, 0]), circle(site, [0, 5]));
}

async fn circle(site: &Site, actors: [u64; 2]) {
    let names = ["x", "y"].map(|name| format!("nobody/{}/{name}", actors[1]));
    let (one, other) = tokio::join!(Client::at(site, 0), Client::at(site, 1));
    let mut clients = [one, other];
    let until = Instant::now() + LENGTH;
    while Instant::now() < until {
        let began = Instant::now();
        let mut held = Vec::new();
        let mut waits = Vec::new();
        for (place, client) in clients.iter_mut().enumerate() {
            held.push(client.take(exclusive(actors[place], &names[place])).await);
        }
        for (place, client) in clients.iter_mut().enumerate() {
            let acquire = exclusive(actors[place], &names[1 - place]);
            waits.push(client.wait_for(for_at_most(WAIT, acquire)).await);
        }
        for (client, wait) in clients.iter_mut().zip(waits) {
            match client.outcome(wait.request_id, LIMIT).await {
                Response::NotGranted(end) => assert_eq!(end.outcome(), AcquireOutcome::TimedOut),
                end => panic!("not timed out, but {end:?}"),
            }
        }
        assert!(began.elapsed() >= WAIT);
        for (client, locks) in clients.iter_mut().zip(&held) {
            client.release(locks).await;
        }
    }
    for client in clients {
        client.close().await;
    }
}

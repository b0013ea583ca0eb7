//! Waits that time out or are cancelled, and begin anew.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use futures_util::future::join_all;
use leasehold_proto::v1::{AcquireOutcome, session_response::Response};
use leasehold_tests::{Site, raw::for_at_most};
use rand::{Rng, SeedableRng, rngs::StdRng};
use tokio::{sync::Semaphore, time::Instant};

use crate::deadlocks::client::{Client, exclusive};

use super::{LENGTH, LIMIT};

const CIRCLES: usize = 12;
const ACTORS: usize = 4;
/// Longer than two looks of the detector are apart, so that most edges of a circle are in both.
const LONGEST_WAIT: u64 = 1_500;
const LONGEST_PAUSE: u64 = 40;

/// Circles in which everybody holds what another waits for, again and again, but never all of them at the same time. Gives
/// how many waits were given up.
pub(super) async fn waits_come_and_go(site: &Site) -> u64 {
    let given_up = AtomicU64::new(0);
    let circles = (0..CIRCLES).map(|number| circle(site, number, &given_up));
    join_all(circles).await;
    given_up.into_inner()
}

async fn circle(site: &Site, number: usize, given_up: &AtomicU64) {
    // One less than there are actors, and given back only when the wait is over: an edge is always missing.
    let may_wait = Semaphore::new(ACTORS - 1);
    let name = |place: usize| format!("passing/{number}/{}", place % ACTORS);
    let mut members = Vec::with_capacity(ACTORS);
    for place in 0..ACTORS {
        let mut client = Client::at(site, place).await;
        let lock = client.take(exclusive(1, &name(place))).await;
        members.push((client, lock));
    }
    let until = Instant::now() + LENGTH;
    let waits = members.iter_mut().enumerate().map(|(place, (client, _))| {
        let random = StdRng::seed_from_u64((number * ACTORS + place) as u64);
        let wanted = name(place + 1);
        wait_again_and_again(client, wanted, until, random, &may_wait, given_up)
    });
    join_all(waits).await;
    for (mut client, lock) in members {
        client.release(&lock).await;
        client.close().await;
    }
}

async fn wait_again_and_again(
    client: &mut Client,
    wanted: String,
    until: Instant,
    mut random: StdRng,
    may_wait: &Semaphore,
    given_up: &AtomicU64,
) {
    while Instant::now() < until {
        let permit = may_wait.acquire().await.unwrap();
        let wait = Duration::from_millis(random.random_range(1..LONGEST_WAIT));
        let acquire = exclusive(1, &wanted);
        let is_cancelled: bool = random.random();
        let (waiting, expected) = if is_cancelled {
            let waiting = client.wait_for(acquire).await;
            tokio::time::sleep(wait).await;
            client.cancel(waiting.request_id).await;
            (waiting, AcquireOutcome::Cancelled)
        } else {
            let waiting = client.wait_for(for_at_most(wait, acquire)).await;
            (waiting, AcquireOutcome::TimedOut)
        };
        match client.outcome(waiting.request_id, LIMIT).await {
            Response::NotGranted(end) => assert_eq!(end.outcome(), expected),
            end => panic!("neither timed out nor cancelled, but {end:?}"),
        }
        given_up.fetch_add(1, Ordering::Relaxed);
        drop(permit);
        let pause = Duration::from_millis(random.random_range(0..LONGEST_PAUSE));
        tokio::time::sleep(pause).await;
    }
}

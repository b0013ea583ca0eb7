//! Locks that are handed round in a circle.

use std::{
    collections::VecDeque,
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use futures_util::future::join_all;
use leasehold_proto::v1::{GrantedLock, session_response::Response};
use leasehold_tests::{Site, raw::PROMPT};
use rand::{Rng, SeedableRng, rngs::StdRng};
use tokio::{sync::Barrier, time::Instant};

use crate::deadlocks::client::{Client, exclusive};

use super::{LENGTH, LIMIT};

/// Rings of so many actors, which hold and wait for as many names.
const RINGS: [usize; 40] = {
    let mut rings = [2; 40];
    let mut number = 0;
    while number < rings.len() {
        rings[number] += [0, 1, 3][number % 3];
        number += 1;
    }
    rings
};
/// Some pauses are shorter than a look takes, others longer than two of them are apart.
const LONGEST_PAUSES: [u64; 3] = [4, 150, 900];

/// One actor of a ring.
struct Member<'a> {
    client: Client,
    ring: usize,
    actors: usize,
    place: usize,
    /// The names that it holds, the newest last.
    held: VecDeque<GrantedLock>,
    random: StdRng,
    hand_offs: &'a AtomicU64,
}

/// Runs rings in which every member but one waits for the next. That one, which was granted its lock last, hands it on after a
/// while and begins to wait at the same moment, so that a coordinator that looks at one name after the other sees a circle that
/// never existed. Returns the number of hand-offs.
pub(super) async fn rings(site: &Site) -> u64 {
    let hand_offs = AtomicU64::new(0);
    let rings = RINGS.iter().enumerate();
    join_all(rings.map(|(number, actors)| ring(site, number, *actors, &hand_offs))).await;
    hand_offs.into_inner()
}

async fn ring(site: &Site, ring: usize, actors: usize, hand_offs: &AtomicU64) {
    let barrier = Barrier::new(actors);
    let barrier = &barrier;
    let members = (0..actors).map(|place| async move {
        let mut client = Client::at(site, place).await;
        // Holds something all the time: else nobody would suspect it while it hands on.
        client
            .take(exclusive(1, &format!("own/{ring}/{place}")))
            .await;
        let held = client.take(exclusive(1, &name(ring, place))).await;
        let seed = (ring * 100 + place) as u64;
        let member = Member {
            client,
            ring,
            actors,
            place,
            held: held.into(),
            random: StdRng::seed_from_u64(seed),
            hand_offs,
        };
        barrier.wait().await;
        member.go_round(Instant::now() + LENGTH).await
    });
    // Only now, so that nobody's close hands anything on to those who look at the time.
    for client in join_all(members).await {
        client.close().await;
    }
}

/// Names of one ring are far apart in their order, in which they are looked at.
fn name(ring: usize, place: usize) -> String {
    format!("handed-on/{place}/{ring}")
}

impl Member<'_> {
    async fn go_round(mut self, until: Instant) -> Client {
        let mut wanted = if self.place == 0 {
            self.hand_on().await
        } else {
            self.ask().await
        };
        loop {
            let left = until.saturating_duration_since(Instant::now());
            let outcome = self.client.outcome(wanted, LIMIT);
            // What is not granted any more is cancelled by the close.
            let Ok(answer) = tokio::time::timeout(left, outcome).await else {
                return self.client;
            };
            match answer {
                Response::Granted(granted) => self.held.extend(granted.locks),
                other => panic!("not granted: {other:?}"),
            }
            self.hand_offs.fetch_add(1, Ordering::Relaxed);
            wanted = self.hand_on().await;
        }
    }

    /// Holds on for a while, then hands on what it has held for longest, and asks for more.
    async fn hand_on(&mut self) -> u64 {
        let longest = LONGEST_PAUSES[self.random.random_range(0..LONGEST_PAUSES.len())];
        let pause = Duration::from_millis(self.random.random_range(0..longest));
        tokio::time::sleep(pause).await;
        let next = self.next();
        let oldest = self.held.pop_front().expect("it holds something");
        let release = self.client.ask_release(&oldest).await;
        let wanted = self.client.ask_for(exclusive(1, &next)).await;
        match self.client.answer(release, PROMPT).await {
            Response::Released(released) => assert!(released.released),
            other => panic!("a release was answered by {other:?}"),
        }
        wanted
    }

    async fn ask(&mut self) -> u64 {
        let next = self.next();
        self.client.ask_for(exclusive(1, &next)).await
    }

    /// Returns the name after the newest that it holds.
    fn next(&self) -> String {
        let newest = &self.held.back().expect("it holds something").name;
        let place = (0..self.actors).find(|place| name(self.ring, *place) == *newest);
        let place = place.expect("it is one of the ring's");
        name(self.ring, (place + 1) % self.actors)
    }
}

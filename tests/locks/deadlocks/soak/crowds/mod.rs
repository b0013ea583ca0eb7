//! A thousand sessions that take several locks at a time, at random, over two coordinators: all of them make progress, and
//! leave nothing behind.

mod one_by_one;
mod referee;
mod sets;

use std::time::Duration;

use leasehold_tests::{Latencies, Site, report, soak};
use rand::{Rng, SeedableRng, rngs::StdRng, seq::SliceRandom};
use tokio::{task::JoinSet, time::Instant};

use crate::deadlocks::client::Client;

const SESSIONS: usize = 1_000;
/// Long, so that the crowd's heartbeats are few.
const TTL: Duration = Duration::from_secs(60);
/// At each coordinator. Each connection carries many sessions.
const CONNECTIONS: usize = 4;
/// They sleep most of the time: a thousand sessions that never rest would keep the machine busy, and say no more.
const LONGEST_REST: Duration = Duration::from_secs(8);
/// No wait is longer, on however slow a machine.
const LONGEST_WAIT: Duration = Duration::from_secs(40);

/// Returns the time for which members begin new turns.
fn length() -> Duration {
    Duration::from_secs(soak::either(60, 12))
}

/// One of the crowd.
struct Member {
    number: usize,
    client: Client,
    random: StdRng,
}

/// Results of one member.
#[derive(Default)]
struct Served {
    /// The number of times that it had all the locks that it wanted.
    turns: u64,
    /// For how long it waited until it had.
    waits: Vec<Duration>,
}

impl Member {
    /// Returns some of this many names, in random order.
    fn choose(&mut self, some: std::ops::RangeInclusive<usize>, names: usize) -> Vec<usize> {
        let some = self.random.random_range(some);
        let mut chosen = rand::seq::index::sample(&mut self.random, names, some).into_vec();
        chosen.shuffle(&mut self.random);
        chosen
    }

    /// Rests before its next turn; whether it has one, which it has until then, and has had once at least.
    async fn rests(&mut self, until: Instant, served: &Served) -> bool {
        let rest = self.random.random_range(Duration::ZERO..LONGEST_REST);
        tokio::time::sleep_until(until.min(Instant::now() + rest)).await;
        Instant::now() < until || served.turns == 0
    }

    async fn pause(&mut self, longest: Duration) {
        let pause = self.random.random_range(Duration::ZERO..longest);
        tokio::time::sleep(pause).await;
    }
}

/// Opens the sessions, all over the coordinators and their connections.
async fn gather(site: &Site) -> Vec<Member> {
    let mut channels = Vec::new();
    for coordinator in &site.coordinators {
        for _ in 0..CONNECTIONS {
            channels.push(coordinator.channel().await);
        }
    }
    let mut opening = JoinSet::new();
    for number in 0..SESSIONS {
        let channel = channels[number % channels.len()].clone();
        opening.spawn(async move {
            Member {
                number,
                client: Client::open(channel, TTL).await,
                random: StdRng::seed_from_u64(number as u64),
            }
        });
    }
    opening.join_all().await
}

/// Prints what became of a crowd, and checks that each of it got on. Gives for how long they waited.
fn summary(what: &str, served: &[Served]) -> Latencies {
    let mut waits = Latencies::new(format!("waits for {what}"));
    for wait in served.iter().flat_map(|served| &served.waits) {
        waits.record(*wait);
    }
    let turns = served.iter().map(|served| served.turns);
    let least = turns.clone().min().unwrap_or(0);
    let most = turns.clone().max().unwrap_or(0);
    report(format!(
        "{} sessions, {what}: {} turns, from {least} to {most} each",
        served.len(),
        turns.sum::<u64>()
    ));
    waits.print();
    assert!(least > 0, "each had a turn");
    assert!(waits.max() < LONGEST_WAIT);
    waits
}

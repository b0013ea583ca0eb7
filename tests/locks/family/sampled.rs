//! Samples of the holders of a name: never more than its mode allows, and as many as it does. Each holder enters itself in a
//! Redis of its own, and reads the others there.

use std::{collections::HashMap, sync::Mutex, time::Duration};

use futures_util::future::join_all;
use leasehold_client::{Client, LockGuard, SemaphorePermit};
use leasehold_tests::{
    RedisServer, Site, report,
    site::{TTL, everywhere},
};
use rand::{Rng, SeedableRng, rngs::StdRng, seq::IndexedRandom};
use redis::aio::MultiplexedConnection;

const CLIENTS: usize = 6;
/// Tasks that share a client are strangers to each other as well.
const TASKS: usize = 2;
const CYCLES: usize = 15;
const LIMIT: u32 = 5;
/// Names of which several are taken at once.
const NAMES: [&str; 5] = [
    "sampled/a",
    "sampled/b",
    "sampled/c",
    "sampled/d",
    "sampled/e",
];

/// As what a lock is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Writer,
    Reader,
    Permits(u32),
}

/// Numbers of holders by their own account, including the one that asks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Inside {
    writers: i64,
    readers: i64,
    permits: i64,
    holders_of_permits: i64,
}

impl Part {
    fn counters(self) -> &'static [&'static str] {
        match self {
            Self::Writer => &["writers"],
            Self::Reader => &["readers"],
            Self::Permits(_) => &["permits", "holders_of_permits"],
        }
    }

    /// Returns the step by which one of its counters moves.
    fn step(self, counter: &str) -> i64 {
        match self {
            Self::Permits(number) if counter == "permits" => number.into(),
            _ => 1,
        }
    }

    /// Fails if somebody is inside who must not be.
    fn check(self, inside: Inside, name: &str) {
        let alone = match self {
            Self::Writer => Inside {
                writers: 1,
                ..Inside::default()
            },
            Self::Reader => Inside {
                readers: inside.readers,
                ..Inside::default()
            },
            Self::Permits(_) => Inside {
                permits: inside.permits.min(LIMIT.into()),
                holders_of_permits: inside.holders_of_permits,
                ..Inside::default()
            },
        };
        assert_eq!(inside, alone, "{name}, held as {self:?}");
    }
}

/// Counters in Redis to which holders add themselves.
struct Counters {
    redis: MultiplexedConnection,
    name: String,
}

impl Counters {
    /// Counts one part out and another in, in one step, and says who is inside then.
    async fn change(&mut self, out: Option<Part>, into: Option<Part>) -> Inside {
        let mut pipe = redis::pipe();
        pipe.atomic();
        for (part, sign) in [(out, -1), (into, 1)] {
            let Some(part) = part else { continue };
            for counter in part.counters() {
                let key = format!("{}/{counter}", self.name);
                pipe.incr(key, sign * part.step(counter)).ignore();
            }
        }
        for counter in ["writers", "readers", "permits", "holders_of_permits"] {
            pipe.get(format!("{}/{counter}", self.name));
        }
        let counts: [Option<i64>; 4] = pipe.query_async(&mut self.redis).await.unwrap();
        let [writers, readers, permits, holders_of_permits] = counts.map(Option::unwrap_or_default);
        Inside {
            writers,
            readers,
            permits,
            holders_of_permits,
        }
    }
}

/// The most that were inside at a time, by name.
#[derive(Default)]
struct Most(Mutex<HashMap<String, Inside>>);

impl Most {
    fn saw(&self, name: &str, inside: Inside) {
        let mut most = self.0.lock().unwrap();
        let most = most.entry(name.to_owned()).or_default();
        most.writers = most.writers.max(inside.writers);
        most.readers = most.readers.max(inside.readers);
        most.permits = most.permits.max(inside.permits);
        most.holders_of_permits = most.holders_of_permits.max(inside.holders_of_permits);
    }

    fn of(&self, name: &str) -> Inside {
        self.0.lock().unwrap()[name]
    }
}

struct Sampling<'a> {
    site: &'a Site,
    counters: MultiplexedConnection,
    most: &'a Most,
}

impl Sampling<'_> {
    /// Clients at all coordinators, with several tasks each, that run `task`.
    async fn run(&self, seed: u64, task: impl AsyncFn(Client, StdRng)) {
        let clients = (0..CLIENTS).map(|at| async move {
            let client = Client::builder().ttl(TTL);
            client.connect(self.site.endpoint(at)).await.unwrap()
        });
        let clients = join_all(clients).await;
        let tasks = clients.iter().cycle().take(CLIENTS * TASKS);
        join_all(
            (0..)
                .zip(tasks)
                .map(|(number, client)| task(client.clone(), StdRng::seed_from_u64(seed + number))),
        )
        .await;
    }

    fn counters(&self, name: &str) -> Counters {
        Counters {
            redis: self.counters.clone(),
            name: name.to_owned(),
        }
    }

    /// Takes one name, in the mode that `choose` says.
    async fn one_name(&self, name: &str, seed: u64, choose: impl Fn(&mut StdRng) -> Part) {
        self.run(seed, async |client, mut random| {
            let mut counters = self.counters(name);
            for _ in 0..CYCLES {
                let mut part = choose(&mut random);
                let guard = match part {
                    Part::Writer => client.lock(name).await,
                    Part::Reader => client.lock(name).shared().await,
                    Part::Permits(number) => {
                        let permit = client.semaphore(name, LIMIT).permits(number).await;
                        permit.map(SemaphorePermit::into_guard)
                    }
                };
                let guard = guard.unwrap();
                let inside = counters.change(None, Some(part)).await;
                self.most.saw(name, inside);
                part.check(inside, name);
                stay(&mut random, &[&guard]).await;
                if part == Part::Writer && random.random_ratio(1, 3) {
                    // A reader from here on: no writer may come in between.
                    counters.change(Some(part), Some(Part::Reader)).await;
                    part = Part::Reader;
                    guard.downgrade().await.unwrap();
                    let inside = counters.change(None, None).await;
                    self.most.saw(name, inside);
                    part.check(inside, name);
                    stay(&mut random, &[&guard]).await;
                }
                counters.change(Some(part), None).await;
                guard.release().await.unwrap();
            }
        })
        .await;
        let left = self.counters(name).change(None, None).await;
        assert_eq!(left, Inside::default(), "{name}");
    }

    /// Takes several of some names, in any order.
    async fn several_names(&self, seed: u64) {
        self.run(seed, async |client, mut random| {
            for _ in 0..CYCLES {
                let number = random.random_range(2..NAMES.len());
                let names: Vec<&str> = NAMES
                    .choose_multiple(&mut random, number)
                    .copied()
                    .collect();
                let guards = client.lock_all(names.clone()).await.unwrap();
                assert!(guards.iter().map(LockGuard::name).eq(names.iter().copied()));
                for name in &names {
                    let inside = self.counters(name).change(None, Some(Part::Writer)).await;
                    self.most.saw(name, inside);
                    Part::Writer.check(inside, name);
                }
                stay(&mut random, &guards.iter().collect::<Vec<_>>()).await;
                for name in &names {
                    self.counters(name).change(Some(Part::Writer), None).await;
                }
                guards.release().await.unwrap();
            }
        })
        .await;
    }
}

/// Holds for a moment.
async fn stay(random: &mut StdRng, guards: &[&LockGuard]) {
    tokio::time::sleep(Duration::from_micros(random.random_range(0..3_000))).await;
    assert!(guards.iter().all(|guard| guard.is_held()));
}

#[tokio::test(flavor = "multi_thread")]
async fn never_more_hold_a_lock_than_its_mode_allows() {
    everywhere(async |site| {
        let redis = RedisServer::start();
        let most = Most::default();
        let sampling = Sampling {
            site,
            counters: redis.async_connection().await,
            most: &most,
        };
        let seed = StdRng::from_os_rng().random_range(0..1_000_000);
        report(format!("sampled with seed {seed}"));
        let some = |random: &mut StdRng| Part::Permits(random.random_range(1..=LIMIT));
        tokio::join!(
            sampling.one_name("sampled/exclusive", seed, |_| Part::Writer),
            sampling.one_name("sampled/shared", seed, |random| {
                if random.random_ratio(1, 4) {
                    Part::Writer
                } else {
                    Part::Reader
                }
            }),
            sampling.one_name("sampled/semaphore", seed, some),
            sampling.one_name("sampled/mixed", seed, |random| {
                match random.random_range(0..5) {
                    0 => Part::Writer,
                    1..3 => Part::Reader,
                    _ => some(random),
                }
            }),
            sampling.several_names(seed),
        );
        let (shared, semaphore) = (most.of("sampled/shared"), most.of("sampled/semaphore"));
        let mixed = most.of("sampled/mixed");
        report(format!(
            "at a time at most {} readers; {} holders of {} permits; mixed, {} readers or {} holders of permits",
            shared.readers,
            semaphore.holders_of_permits,
            semaphore.permits,
            mixed.readers,
            mixed.holders_of_permits
        ));
        // What may be held together is.
        assert!(shared.readers > 1 && mixed.readers > 1);
        assert!(semaphore.holders_of_permits > 1 && mixed.holders_of_permits > 1);
        assert_eq!(semaphore.permits, i64::from(LIMIT));
    })
    .await;
}

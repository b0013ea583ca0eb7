//! Simulation of whole sessions: the real machines of clients and coordinators, the real adapter of candidacies, the real hub of
//! watchers and the real rules, on virtual time and from seeds. Pipes delay, hang and break; the store is slow, fails, and loses
//! replies; wake-ups are lost.
//!
//! After every step, a guard that says it is held is held in the store for its client, and would say so no longer than the
//! store keeps the lock if nothing else happened; exclusive guards exclude each other, and no two candidates lead one election.
//! After the last fault, every wait ends, and nothing is left anywhere. Counts of what happened have floors.
//!
//! A seed that fails says so; `LEASEHOLD_SEED=<seed>` leaves out the faults that it fails without, and tells what happens.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests fail by panicking"
)]

mod campaigns;
mod candidates;
mod carrier;
mod check;
mod client;
mod contention;
mod coordinator;
mod corpus;
mod coverage;
mod detector;
mod dice;
#[cfg(feature = "planted")]
mod planted;
mod program;
mod promises;
mod schedule;
mod shrink;
mod store;
mod transitions;
mod watching;
mod weather;
mod world;

/// Declares modules of the fuzz targets, which have the modules above in the root of their crate as well.
macro_rules! fuzz {
    ($($(#[$attribute:meta])* $name:ident $path:literal;)+) => {$(
        $(#[$attribute])*
        #[path = $path]
        mod $name;
    )+};
}

fuzz! {
    #[expect(unreachable_pub, reason = "it is a public module of leasehold-fuzz")]
    config "../../fuzz/src/config.rs";
    hostile "../../fuzz/src/hostile/mod.rs";
    #[expect(unreachable_pub, reason = "it is a public module of leasehold-fuzz")]
    jwt "../../fuzz/src/jwt.rs";
    #[expect(unreachable_pub, reason = "it is a public module of leasehold-fuzz")]
    redis_reply "../../fuzz/src/redis_reply.rs";
    #[expect(unreachable_pub, reason = "it is a public module of leasehold-fuzz")]
    wire "../../fuzz/src/wire.rs";
}

use std::{
    env, panic,
    sync::atomic::{AtomicU64, Ordering},
    thread,
};

use self::{coverage::Coverage, shrink::shrink, weather::Weather, world::World};

/// Worlds of the ordinary run. `SEEDS` and `FIRST_SEED` in the environment say otherwise.
const SEEDS: u64 = 250;
/// Worlds that take nearly every transition of the machines.
const MANY: u64 = 20_000;
const ROLLING_SEEDS: u64 = 40;

/// Tells the seed of a world that fails.
struct Seed(u64);

impl Drop for Seed {
    fn drop(&mut self) {
        if thread::panicking() {
            eprintln!("LEASEHOLD_SEED={} lives through this again", self.0);
        }
    }
}

fn live(weather: Weather, seed: u64) -> (Coverage, u64) {
    let _seed = Seed(seed);
    World::new(weather, seed).live()
}

/// Lives through the world of a seed again, and tells what happens. If it fails, with no more faults than it takes.
fn replay(weather: Weather, seed: u64) -> Coverage {
    let shrunk = shrink(weather, seed);
    let mut world = World::new(weather, seed);
    world.is_told = true;
    if let Some((only, count)) = shrunk {
        let kept = only.len();
        eprintln!("seed {seed} fails with {kept} of its {count} faults: {only:?}");
        world.only = Some(only);
    }
    let (seen, digest) = world.live();
    eprintln!("{seen:#?}\n{digest:x}");
    seen
}

/// Lives through the worlds of these seeds, and returns what happened in them.
fn live_all(weather: Weather, first: u64, seeds: u64) -> Coverage {
    if let Some(seed) = number("LEASEHOLD_SEED") {
        return replay(weather, seed);
    }
    let next = AtomicU64::new(first);
    let threads = thread::available_parallelism().map_or(1, usize::from);
    let seen = thread::scope(|scope| {
        let threads = (0..threads).map(|_| {
            scope.spawn(|| {
                let mut seen = Coverage::default();
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= first + seeds {
                        return seen;
                    }
                    seen.add(&live(weather, seed).0);
                }
            })
        });
        let threads: Vec<_> = threads.collect();
        let mut seen = Coverage::default();
        for thread in threads {
            match thread.join() {
                Ok(part) => seen.add(&part),
                Err(failure) => panic::resume_unwind(failure),
            }
        }
        seen
    });
    eprintln!("{seen:#?}");
    seen
}

/// Returns a number from the environment.
fn number(variable: &str) -> Option<u64> {
    let text = env::var(variable).ok()?;
    Some(text.parse().expect("it is a number"))
}

#[test]
fn no_guard_lives_without_its_lock_and_nothing_is_left_behind() {
    let first = number("FIRST_SEED").unwrap_or(1);
    let seeds = number("SEEDS").unwrap_or(SEEDS);
    let seen = live_all(Weather::Stormy, first, seeds);
    if number("LEASEHOLD_SEED").is_some() {
        return;
    }
    seen.check(seeds);
    if seeds >= MANY {
        seen.transitions.print();
        seen.transitions.check();
    }
}

#[test]
fn a_rolling_restart_loses_no_guard_and_leaves_nobody_behind() {
    let seen = live_all(Weather::Rolling, 1, ROLLING_SEEDS);
    assert_eq!(
        seen.stops, 0,
        "a coordinator stopped before its sessions moved: {seen:#?}"
    );
    if number("LEASEHOLD_SEED").is_none() {
        let (drains, moved) = (2 * ROLLING_SEEDS, 2 * ROLLING_SEEDS);
        assert!(
            seen.drains >= drains && seen.moved_while_held >= moved,
            "{seen:#?}"
        );
    }
}

#[test]
fn a_seed_lives_through_the_same_again() {
    let weather = Weather::Stormy;
    assert_eq!(live(weather, 7), live(weather, 7));
}

//! Faults planted in the real code, one after the other: each breaks something that the simulation checks, within a number of
//! seeds. `make planted` runs this alone, because a fault is planted for the whole process.

use std::{
    any::Any,
    panic::{self, AssertUnwindSafe},
    sync::atomic::{AtomicU64, Ordering},
    thread,
};

use leasehold_client::planted as client;
use leasehold_core::planted as coordinator;

use crate::{shrink::shrink, weather::Weather, world::World};

/// Seeds within which each fault is found.
const SEEDS: u64 = 2_000;

/// A fault, and the name of the program that has it.
type Planted = (&'static str, &'static str, fn(&str));

fn plant_in_coordinators(name: &str) {
    coordinator::plant(coordinator::Fault::named(name));
}

fn plant_in_clients(name: &str) {
    client::plant(client::Fault::named(name));
}

fn faults() -> Vec<Planted> {
    let coordinators = coordinator::Fault::ALL.iter();
    let coordinators =
        coordinators.map(|fault| ("coordinator", fault.name(), plant_in_coordinators as _));
    let clients = client::Fault::ALL.iter();
    let clients = clients.map(|fault| ("client", fault.name(), plant_in_clients as _));
    coordinators.chain(clients).collect()
}

/// Lives through a seed in each weather. Returns what broke, if anything did.
fn live(seed: u64) -> Option<String> {
    let weathers = [
        ("storms", Weather::Stormy),
        ("a rolling restart", Weather::Rolling),
    ];
    weathers.into_iter().find_map(|(weather, kind)| {
        let live = AssertUnwindSafe(|| World::new(kind, seed).live());
        let broken: Box<dyn Any + Send> = panic::catch_unwind(live).err()?;
        let text = broken.downcast_ref::<String>().cloned();
        let text = text.or_else(|| broken.downcast_ref::<&str>().map(|&text| text.to_owned()));
        let text = text.unwrap_or_default();
        // The values behind are long.
        let text: String = text
            .lines()
            .take(3)
            .map(str::trim)
            .collect::<Vec<_>>()
            .join(" ");
        let text: String = text.chars().take(200).collect();
        Some(format!("in {weather}: {text}"))
    })
}

/// Returns the first seed in which something breaks, and what.
fn find(seeds: u64) -> Option<(u64, String)> {
    let (next, found_at) = (AtomicU64::new(1), AtomicU64::new(u64::MAX));
    let threads = thread::available_parallelism().map_or(1, usize::from);
    thread::scope(|scope| {
        let search = || {
            loop {
                let seed = next.fetch_add(1, Ordering::Relaxed);
                if seed > seeds || seed > found_at.load(Ordering::Relaxed) {
                    return None;
                }
                if let Some(broken) = live(seed) {
                    found_at.fetch_min(seed, Ordering::Relaxed);
                    return Some((seed, broken));
                }
            }
        };
        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(search)).collect();
        let found = threads
            .into_iter()
            .filter_map(|thread| thread.join().unwrap());
        found.min()
    })
}

#[test]
fn each_planted_fault_is_found() {
    let hook = panic::take_hook();
    panic::set_hook(Box::new(|_| {}));
    let (mut missed, mut last) = (Vec::new(), 1);
    let only = std::env::var("LEASEHOLD_PLANTED").ok();
    let faults = faults().into_iter();
    for (side, name, plant) in
        faults.filter(|(_, name, _)| only.as_deref().is_none_or(|only| only == *name))
    {
        plant(name);
        match find(SEEDS) {
            Some((seed, broken)) => {
                let shrunk = shrink(Weather::Stormy, seed);
                let shrunk = shrunk.or_else(|| shrink(Weather::Rolling, seed));
                let (only, count) = shrunk.expect("it fails again");
                let kept = only.len();
                eprintln!("{side} {name}: seed {seed}, {kept} of {count} faults, {broken}");
                last = last.max(seed);
            }
            None => missed.push(name),
        }
        plant("none");
    }
    // It is the faults that break these seeds.
    let broken = find(last);
    panic::set_hook(hook);
    assert_eq!(broken, None);
    assert!(
        missed.is_empty(),
        "not found within {SEEDS} seeds: {missed:?}"
    );
}

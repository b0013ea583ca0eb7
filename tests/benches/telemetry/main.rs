//! What it costs to be watched: `leasehold bench` against a coordinator with metrics and with one request in a hundred traced,
//! and against one with neither, in turns, on one Redis.
//!
//! `cargo bench -p leasehold-tests --bench telemetry`; `ROUNDS=9 SECONDS=3` are how often and how long.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a program that measures")]

use std::process::{Command, Stdio};

use leasehold_tests::{
    Coordinator, CoordinatorProcess, RedisServer, binaries, collector::Collector, report, usage,
};
use serde_json::Value;

/// What is measured: what it is called, and how.
const LOADS: [(&str, &str); 3] = [
    ("64 clients", "--clients 64"),
    ("16 clients, 16 in flight", "--clients 16 --in-flight 16"),
    ("one client", "--clients 1"),
];

fn main() {
    binaries::build_visibly();
    let number = |name: &str, default: usize| {
        let said = std::env::var(name).ok();
        said.map_or(default, |said| said.parse().unwrap())
    };
    let (rounds, seconds) = (number("ROUNDS", 9), number("SECONDS", 3));
    // The collector has threads of its own.
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .unwrap();
    let collector = runtime.block_on(Collector::start());
    let redis = RedisServer::start();
    let start = |arguments: &[&str]| {
        Coordinator::process()
            .store(redis.url())
            .arguments(arguments.iter().copied())
            .start()
    };
    let endpoint = collector.endpoint();
    let quiet = start(&["--metrics=false"]);
    let watched = start(&["--otlp-endpoint", &endpoint, "--trace-sample", "0.01"]);
    let unsampled = start(&["--otlp-endpoint", &endpoint, "--trace-sample", "0"]);
    let coordinators = [&quiet, &watched, &unsampled];
    for (name, load) in LOADS {
        let mut measured = [Vec::new(), Vec::new(), Vec::new()];
        for round in 0..rounds {
            // Each is the first as often as the others.
            for turn in 0..coordinators.len() {
                let which = (round + turn) % coordinators.len();
                measured[which].push(measure(coordinators[which], load, seconds));
            }
        }
        let [quiet, others @ ..] = &measured;
        report(format_args!("{name}: {} without either", figures(quiet)));
        for (other, what) in others.iter().zip(["1 % traced", "nothing sampled"]) {
            report(format_args!(
                "{name}: {} with metrics and {what}: {} of cycles, {} of CPU",
                figures(other),
                change(quiet, other, |measured| measured.cycles),
                change(quiet, other, |measured| measured.micros),
            ));
        }
    }
    let spans = collector.spans().len();
    assert!(spans > 100, "only {spans} spans came");
    report(format_args!("{spans} spans came"));
}

/// What one measurement came to.
struct Measured {
    /// Cycles a second.
    cycles: f64,
    /// Microseconds of the coordinator's CPU time a cycle.
    micros: f64,
}

fn measure(coordinator: &CoordinatorProcess, load: &str, seconds: usize) -> Measured {
    let before = usage::cpu_time(coordinator.id());
    let output = Command::new(binaries::path("leasehold"))
        .args(["--endpoint", &coordinator.endpoint(), "bench", "--json"])
        .args(["--warm-up", "0s", "--duration", &format!("{seconds}s")])
        .args(load.split(' '))
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    let used = usage::cpu_time(coordinator.id()) - before;
    let json: Value = serde_json::from_slice(&output.stdout).unwrap();
    let number = |name: &str| json[name].as_f64().unwrap_or_else(|| panic!("{json}"));
    Measured {
        cycles: number("cycles_per_second"),
        micros: 1e6 * used.as_secs_f64() / number("cycles"),
    }
}

/// Medians.
fn figures(measured: &[Measured]) -> String {
    let [_, cycles, _] = quartiles(measured.iter().map(|measured| measured.cycles));
    let [_, micros, _] = quartiles(measured.iter().map(|measured| measured.micros));
    format!("{cycles:.0} cycles/s, {micros:.1} µs of CPU a cycle")
}

/// By how much one is more than the other, as percentages: the median of all rounds and its quartiles. The machine is not the
/// same all the time, but nearly so within a round.
fn change(from: &[Measured], to: &[Measured], of: impl Fn(&Measured) -> f64) -> String {
    let rounds = from.iter().zip(to);
    let [low, median, high] = quartiles(rounds.map(|(from, to)| 100.0 * (of(to) / of(from) - 1.0)));
    format!("{median:+.1} % ({low:+.1} to {high:+.1})")
}

fn quartiles(values: impl Iterator<Item = f64>) -> [f64; 3] {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    [1, 2, 3].map(|quarter| values[(values.len() - 1) * quarter / 4])
}

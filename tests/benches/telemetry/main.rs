//! What it costs to be watched: `leasehold bench` against a coordinator with metrics and with one request in a hundred traced,
//! and against one with neither, in turns, on one Redis.
//!
//! `cargo bench -p leasehold-tests --bench telemetry`; `ROUNDS=5 SECONDS=5` are how often and how long.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a program that measures")]

use std::process::{Command, Stdio};

use leasehold_tests::{
    Coordinator, CoordinatorProcess, RedisServer, binaries, collector::Collector, report,
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
    let (rounds, seconds) = (number("ROUNDS", 5), number("SECONDS", 5));
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
    for (name, load) in LOADS {
        let mut cycles = [Vec::new(), Vec::new(), Vec::new()];
        for round in 0..rounds {
            // Each is the first as often as the others.
            for turn in 0..3 {
                let which = (round + turn) % 3;
                let coordinator = [&quiet, &watched, &unsampled][which];
                cycles[which].push(measure(coordinator, load, seconds));
            }
        }
        let [quiet, watched, unsampled] = cycles.map(median);
        report(format_args!(
            "{name}: {quiet:.0} cycles/s without, {watched:.0} with metrics and 1 % traced ({:+.1} %), {unsampled:.0} with \
             metrics and nothing sampled ({:+.1} %)",
            100.0 * (watched / quiet - 1.0),
            100.0 * (unsampled / quiet - 1.0),
        ));
    }
    let spans = collector.spans().len();
    assert!(spans > 100, "only {spans} spans came");
    report(format_args!("{spans} spans came"));
}

/// Cycles a second.
fn measure(coordinator: &CoordinatorProcess, load: &str, seconds: usize) -> f64 {
    let output = Command::new(binaries::path("leasehold"))
        .args(["--endpoint", &coordinator.endpoint(), "bench", "--json"])
        .args(["--duration", &format!("{seconds}s")])
        .args(load.split(' '))
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    let json: Value = serde_json::from_slice(&output.stdout).unwrap();
    json["cycles_per_second"]
        .as_f64()
        .unwrap_or_else(|| panic!("{json}"))
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

//! Cost of telemetry: `leasehold bench` against a coordinator with metrics and with one request in a hundred traced,
//! and against one with neither, in turns, on one Redis.
//!
//! `cargo bench -p leasehold-tests --bench telemetry`; `ROUNDS=60 SECONDS=1` are how often and how long,
//! `SHARE=0.01` what is traced.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a program that measures")]

use std::process::{Command, Stdio};

use leasehold_tests::{
    Coordinator, CoordinatorProcess, RedisServer, binaries, collector::Collector, report, usage,
};
use serde_json::Value;

/// Loads to measure: the name, and the arguments of `leasehold bench`.
const LOADS: [(&str, &str); 3] = [
    ("64 clients", "--clients 64"),
    ("16 clients, 16 in flight", "--clients 16 --in-flight 16"),
    ("one client", "--clients 1"),
];

fn main() {
    let said = |name: &str, default: &str| std::env::var(name).unwrap_or(default.to_owned());
    let number = |name: &str, default: &str| said(name, default).parse().unwrap();
    let (rounds, seconds) = (number("ROUNDS", "60"), number("SECONDS", "1"));
    let share = said("SHARE", "0.01");
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
    let neither = start(&["--metrics=false"]);
    let both = start(&["--otlp-endpoint", &endpoint, "--trace-sample", &share]);
    for (name, load) in LOADS {
        let [mut without, mut with] = [Vec::new(), Vec::new()];
        for round in 0..rounds {
            // Each is the first as often as the other.
            if round % 2 == 0 {
                without.push(measure(&neither, load, seconds));
                with.push(measure(&both, load, seconds));
            } else {
                with.push(measure(&both, load, seconds));
                without.push(measure(&neither, load, seconds));
            }
        }
        report(format_args!("{name}: {} with neither", figures(&without)));
        report(format_args!(
            "{name}: {} with metrics and {share} traced: {} of cycles, {} of CPU",
            figures(&with),
            change(&without, &with, |measured| measured.cycles),
            change(&without, &with, |measured| measured.micros),
        ));
    }
    let spans = collector.spans().len();
    assert!(spans > 100, "only {spans} spans came");
    report(format_args!("{spans} spans came"));
}

/// Figures of one measurement.
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
    let cycles = json["cycles"]
        .as_str()
        .and_then(|cycles| cycles.parse().ok());
    let cycles: f64 = cycles.unwrap_or_else(|| panic!("{json}"));
    let rate = json["cyclesPerSecond"].as_f64();
    Measured {
        cycles: rate.unwrap_or_else(|| panic!("{json}")),
        micros: 1e6 * used.as_secs_f64() / cycles,
    }
}

/// Medians.
fn figures(measured: &[Measured]) -> String {
    let [_, cycles, _] = median(measured.iter().map(|measured| measured.cycles));
    let [_, micros, _] = median(measured.iter().map(|measured| measured.micros));
    format!("{cycles:.0} cycles/s, {micros:.1} µs of CPU a cycle")
}

/// Returns the difference of the two in percent: the median of all rounds, and its 95 % confidence interval. The machine
/// changes over time, but little within a round.
fn change(from: &[Measured], to: &[Measured], of: impl Fn(&Measured) -> f64) -> String {
    let rounds = from.iter().zip(to);
    let [low, median, high] = median(rounds.map(|(from, to)| 100.0 * (of(to) / of(from) - 1.0)));
    format!("{median:+.1} % ({low:+.1} to {high:+.1})")
}

/// Returns the median, and the bounds of its 95 % confidence interval: for any distribution, the number of values below the
/// median is binomial.
fn median(values: impl Iterator<Item = f64>) -> [f64; 3] {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    let (middle, last) = (values.len() / 2, values.len() - 1);
    let off = (0.98 * (values.len() as f64).sqrt()).ceil() as usize;
    [middle.saturating_sub(off), middle, (middle + off).min(last)].map(|rank| values[rank])
}

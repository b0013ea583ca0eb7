//! Summary of a run: its parameters, and the figures that follow from its counts.

use std::{collections::BTreeSet, thread::available_parallelism, time::Duration};

use leasehold_load::Violation;

use super::{options::BenchOptions, tally::Counts};

/// End of a run.
#[derive(Debug)]
pub(super) enum Ended {
    Completed,
    Interrupted(i32),
    Violation(Violation),
}

/// Results of a run, with its parameters.
pub(super) struct Summary<'a> {
    pub(super) endpoint: &'a str,
    pub(super) coordinators: &'a BTreeSet<String>,
    pub(super) options: &'a BenchOptions,
    pub(super) names: &'a str,
    /// The TTL in force.
    pub(super) ttl: Duration,
    pub(super) measured: Duration,
    /// The CPU time of this process in that time.
    pub(super) cpu: Duration,
    pub(super) ended: &'a Ended,
    pub(super) counts: &'a Counts,
}

impl Summary<'_> {
    pub(super) fn cycles(&self) -> u64 {
        self.counts.cycle.count()
    }

    /// Returns the smallest and the largest number of cycles that a client completed.
    pub(super) fn range(&self) -> (u64, u64) {
        let clients = &self.counts.by_client;
        let (least, most) = (clients.iter().min(), clients.iter().max());
        (
            least.copied().unwrap_or_default(),
            most.copied().unwrap_or_default(),
        )
    }

    fn per_second(&self, number: f64) -> f64 {
        match self.measured.as_secs_f64() {
            0.0 => 0.0,
            seconds => number / seconds,
        }
    }

    pub(super) fn rate(&self) -> f64 {
        self.per_second(self.cycles() as f64)
    }

    /// Returns the number of processors that this process used on average.
    pub(super) fn cores_used(&self) -> f64 {
        self.per_second(self.cpu.as_secs_f64())
    }

    pub(super) fn mean_hold(&self) -> Option<Duration> {
        let cycles = self.cycles();
        (cycles > 0).then(|| self.counts.held.div_f64(cycles as f64))
    }
}

/// Returns the number of processors that this process may use.
pub(super) fn cores() -> usize {
    available_parallelism().map_or(1, usize::from)
}

/// Returns microseconds as text, to about three digits.
pub(super) fn time(time: Duration) -> String {
    let micros = time.as_secs_f64() * 1_000_000.0;
    let (number, unit) = match micros {
        _ if micros < 1_000.0 => return format!("{micros:.0} µs"),
        _ if micros < 1_000_000.0 => (micros / 1_000.0, "ms"),
        _ => (micros / 1_000_000.0, "s"),
    };
    match number {
        _ if number < 10.0 => format!("{number:.2} {unit}"),
        _ if number < 100.0 => format!("{number:.1} {unit}"),
        _ => format!("{number:.0} {unit}"),
    }
}

//! Summaries of measured times.

use std::{fmt, io::Write, time::Duration};

use leasehold_load::Distribution;

/// Times that were measured, and their name.
pub struct Latencies {
    what: String,
    times: Distribution,
}

impl Latencies {
    /// Begins a collection of the times of `what`.
    pub fn new(what: impl Into<String>) -> Self {
        Self {
            what: what.into(),
            times: Distribution::new().expect("three digits are supported"),
        }
    }

    /// Adds a time.
    pub fn record(&mut self, time: Duration) {
        self.times.record(time);
    }

    /// Adds those of another collection.
    pub fn add(&mut self, other: &Self) {
        self.times.add(&other.times);
    }

    /// Returns the number of recorded values.
    pub fn count(&self) -> u64 {
        self.times.count()
    }

    /// Returns the time that `share` (0 to 1) of the recorded ones did not exceed.
    pub fn quantile(&self, share: f64) -> Duration {
        self.times.quantile(share)
    }

    /// Returns the longest time.
    pub fn max(&self) -> Duration {
        self.times.max()
    }

    /// Checks that nine of ten took no longer than `limit`, which is for a machine that is fast enough, or than ten times what
    /// nine of ten of `others` took, measured on the same machine in turns with these.
    ///
    /// # Panics
    ///
    /// If they took longer.
    pub fn assert_within(&self, limit: Duration, others: &Self) {
        let within = limit.max(others.quantile(0.9) * 10);
        assert!(self.quantile(0.9) <= within, "{self}, {others}");
    }

    /// Prints the summary so that the figures of passing tests are seen as well.
    pub fn print(&self) {
        report(self);
    }
}

impl fmt::Display for Latencies {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}: n={} min={:?} p50={:?} p99={:?} max={:?}",
            self.what,
            self.count(),
            self.quantile(0.0),
            self.quantile(0.5),
            self.quantile(0.99),
            self.max(),
        )
    }
}

/// Prints a line on standard error past the test harness, which would swallow what a passing test prints.
pub fn report(line: impl fmt::Display) {
    // Nobody is left to tell if standard error is closed.
    let _ = writeln!(std::io::stderr(), "  {line}");
}

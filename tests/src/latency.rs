//! Summaries of measured times.

use std::{fmt, io::Write, time::Duration};

use hdrhistogram::Histogram;

/// Times that were measured, to one microsecond and three digits.
pub struct Latencies {
    what: String,
    histogram: Histogram<u64>,
}

impl Latencies {
    /// Begins a collection of the times of `what`.
    pub fn new(what: impl Into<String>) -> Self {
        Self {
            what: what.into(),
            histogram: Histogram::new(3).expect("three digits are supported"),
        }
    }

    /// Adds a time. Below one microsecond counts as one.
    pub fn record(&mut self, time: Duration) {
        let micros = u64::try_from(time.as_micros()).unwrap_or(u64::MAX).max(1);
        // The histogram grows as needed.
        self.histogram.record(micros).expect("any number fits");
    }

    /// Adds those of another collection.
    pub fn add(&mut self, other: &Self) {
        let added = self.histogram.add(&other.histogram);
        added.expect("it grows as needed");
    }

    /// Returns the number of recorded values.
    pub fn count(&self) -> u64 {
        self.histogram.len()
    }

    /// Returns the time that `share` (0 to 1) of the recorded ones did not exceed.
    pub fn quantile(&self, share: f64) -> Duration {
        Duration::from_micros(self.histogram.value_at_quantile(share))
    }

    /// Returns the longest time.
    pub fn max(&self) -> Duration {
        Duration::from_micros(self.histogram.max())
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
            Duration::from_micros(self.histogram.min()),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_times_are_kept_to_three_digits() {
        let mut latencies = Latencies::new("anything");
        for millis in [1, 2, 3, 70_000] {
            latencies.record(Duration::from_millis(millis));
        }
        assert_eq!(latencies.quantile(0.5).as_millis(), 2);
        assert_eq!(latencies.max().as_secs(), 70);
        assert_eq!(latencies.quantile(0.99).as_secs(), 70);
    }
}

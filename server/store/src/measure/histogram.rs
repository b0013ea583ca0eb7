//! Histogram that counts without a lock.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

/// Histogram: counts of the observed values below each of some bounds, and their sum. A concurrent read may miss the latest
/// values, never earlier ones.
#[derive(Debug)]
pub struct Histogram {
    /// Ascending; in microseconds where times are observed.
    bounds: Box<[u64]>,
    /// One for each bound, and one for what is above them.
    counts: Box<[AtomicU64]>,
    sum: AtomicU64,
    /// Number of observed units in one shown unit.
    unit: f64,
}

/// Contents of a histogram at one moment, in the shown unit: seconds for times.
#[derive(Clone, Debug, PartialEq)]
pub struct Snapshot {
    /// Each upper bound, and how many values lie between it and the one before. The last bound is [`f64::INFINITY`].
    pub buckets: Vec<(f64, u64)>,
    /// The sum of all values.
    pub sum: f64,
}

impl Histogram {
    /// Returns a histogram of durations, shown in seconds.
    #[must_use]
    pub fn of_times(bounds: &[Duration]) -> Self {
        let micros = |bound: &Duration| u64::try_from(bound.as_micros()).unwrap_or(u64::MAX);
        Self::new(bounds.iter().map(micros).collect(), 1e6)
    }

    /// Returns a histogram of numbers.
    #[must_use]
    pub fn of_numbers(bounds: &[u64]) -> Self {
        Self::new(bounds.into(), 1.0)
    }

    fn new(bounds: Box<[u64]>, unit: f64) -> Self {
        Self {
            counts: (0..=bounds.len()).map(|_| AtomicU64::new(0)).collect(),
            bounds,
            sum: AtomicU64::new(0),
            unit,
        }
    }

    /// Observes one number.
    pub fn observe(&self, value: u64) {
        self.add(value, 1);
    }

    /// Observes a duration, as many times as are said.
    pub fn observe_time(&self, value: Duration, times: u64) {
        self.add(u64::try_from(value.as_micros()).unwrap_or(u64::MAX), times);
    }

    fn add(&self, value: u64, times: u64) {
        let bucket = self.bounds.partition_point(|bound| *bound < value);
        self.counts[bucket].fetch_add(times, Ordering::Relaxed);
        self.sum
            .fetch_add(value.saturating_mul(times), Ordering::Relaxed);
    }

    /// Returns its present contents.
    #[expect(
        clippy::cast_precision_loss,
        reason = "a sum of microseconds stays exact for 285 years"
    )]
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        let bounds = self.bounds.iter().map(|bound| *bound as f64 / self.unit);
        let counts = self.counts.iter();
        let counts = counts.map(|count| count.load(Ordering::Relaxed));
        Snapshot {
            buckets: bounds
                .chain(std::iter::once(f64::INFINITY))
                .zip(counts)
                .collect(),
            sum: self.sum.load(Ordering::Relaxed) as f64 / self.unit,
        }
    }
}

impl Snapshot {
    /// Returns the number of values.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.buckets.iter().map(|(_, count)| count).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_counted_in_the_first_bucket_that_has_room() {
        let times = Histogram::of_times(&[Duration::from_millis(1), Duration::from_millis(10)]);
        times.observe_time(Duration::from_micros(1), 1);
        times.observe_time(Duration::from_millis(1), 1);
        times.observe_time(Duration::from_micros(1001), 3);
        times.observe_time(Duration::from_secs(1), 1);
        let snapshot = times.snapshot();
        let counts: Vec<_> = snapshot.buckets.iter().map(|(_, count)| *count).collect();
        assert_eq!(counts, [2, 3, 1]);
        let bounds: Vec<_> = snapshot.buckets.iter().map(|(bound, _)| *bound).collect();
        assert_eq!(bounds, [0.001, 0.01, f64::INFINITY]);
        assert!((snapshot.sum - 1.004_004).abs() < 1e-9, "{snapshot:?}");
        assert_eq!(snapshot.count(), 6);
    }
}

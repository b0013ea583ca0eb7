//! Distribution of measured times.

use std::time::Duration;

use hdrhistogram::{CreationError, Histogram};

/// Times to one nanosecond and three digits.
#[derive(Clone, Debug)]
pub struct Distribution(Histogram<u64>);

impl Distribution {
    /// Makes an empty distribution.
    ///
    /// # Errors
    ///
    /// Never: three digits are supported.
    pub fn new() -> Result<Self, CreationError> {
        Histogram::new(3).map(Self)
    }

    /// Adds a time.
    pub fn record(&mut self, time: Duration) {
        let nanos = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        // The histogram grows as needed: any number fits.
        self.0.record(nanos).ok();
    }

    /// Adds the times of another run of the same measurement.
    pub fn add(&mut self, other: &Self) {
        // The histogram grows as needed.
        self.0.add(&other.0).ok();
    }

    /// Returns the number of recorded times.
    pub fn count(&self) -> u64 {
        self.0.len()
    }

    /// Returns whether no time was recorded.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the mean.
    pub fn mean(&self) -> Duration {
        Duration::from_nanos(self.0.mean().round() as u64)
    }

    /// Returns the time that `share` (0 to 1) of the recorded ones did not exceed.
    pub fn quantile(&self, share: f64) -> Duration {
        Duration::from_nanos(self.0.value_at_quantile(share))
    }

    /// Returns the longest time.
    pub fn max(&self) -> Duration {
        Duration::from_nanos(self.0.max())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_times_are_kept_to_three_digits() -> Result<(), CreationError> {
        let mut times = Distribution::new()?;
        for millis in [1, 2, 3, 70_000] {
            times.record(Duration::from_millis(millis));
        }
        assert_eq!(times.quantile(0.5).as_millis(), 2);
        assert_eq!(times.max().as_secs(), 70);
        assert_eq!(times.quantile(0.99).as_secs(), 70);
        times.record(Duration::from_secs(7_200));
        assert_eq!(times.max().as_secs() / 10, 720);
        Ok(())
    }
}

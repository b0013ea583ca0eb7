//! Distribution of measured times.

use std::time::Duration;

use hdrhistogram::Histogram;
use serde_json::{Value, json};

/// How many nines the drawings show: up to 99.99 %.
const NINES: u32 = 4;
const POINTS_PER_NINE: u32 = 20;

/// Times to one nanosecond and three digits.
pub(crate) struct Distribution(Histogram<u64>);

impl Distribution {
    pub(crate) fn new() -> anyhow::Result<Self> {
        Ok(Self(Histogram::new(3)?))
    }

    pub(crate) fn record(&mut self, time: Duration) -> anyhow::Result<()> {
        let nanos = u64::try_from(time.as_nanos())?.max(1);
        Ok(self.0.record(nanos)?)
    }

    /// Takes the times of another run of the same in.
    pub(crate) fn add(&mut self, other: &Self) -> anyhow::Result<()> {
        Ok(self.0.add(&other.0)?)
    }

    pub(crate) fn count(&self) -> u64 {
        self.0.len()
    }

    /// The time that `share` (0 to 1) of the recorded ones did not exceed.
    pub(crate) fn quantile(&self, share: f64) -> Duration {
        Duration::from_nanos(self.0.value_at_quantile(share))
    }

    /// Shares, and the times in microseconds that they did not exceed. Shares of which there were too few times to tell
    /// are left out.
    pub(crate) fn points(&self) -> Vec<(f64, f64)> {
        (0..=NINES * POINTS_PER_NINE)
            .map(|point| 1.0 - 10_f64.powf(-f64::from(point) / f64::from(POINTS_PER_NINE)))
            .take_while(|share| (1.0 - share) * self.count() as f64 >= 1.0)
            .map(|share| (share, micros(self.quantile(share))))
            .collect()
    }

    pub(crate) fn json(&self) -> Value {
        json!({
            "count": self.count(),
            "p50_us": micros(self.quantile(0.5)),
            "p99_us": micros(self.quantile(0.99)),
            "max_us": self.0.max() as f64 / 1e3,
            "quantiles": self.points(),
        })
    }
}

pub(crate) fn micros(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}

pub(crate) fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

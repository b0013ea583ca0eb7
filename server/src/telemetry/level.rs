//! Gauges of things that exist now.

use std::fmt;

use prometheus_client::{
    encoding::{EncodeMetric, MetricEncoder},
    metrics::{MetricType, gauge::Gauge},
};

/// A number of things that exist now. It changes through guards, so that nothing is counted beyond its life.
#[derive(Clone, Debug, Default)]
pub struct Level(Gauge);

impl EncodeMetric for Level {
    fn encode(&self, encoder: MetricEncoder) -> fmt::Result {
        self.0.encode(encoder)
    }

    fn metric_type(&self) -> MetricType {
        EncodeMetric::metric_type(&self.0)
    }
}

impl Level {
    /// Counts one thing until the guard is dropped.
    pub fn track(&self) -> Tracked {
        let mut tracked = self.track_none();
        tracked.set(1);
        tracked
    }

    /// Returns a guard that counts nothing yet, for a collection whose size changes: see [`Tracked::set`].
    pub fn track_none(&self) -> Tracked {
        Tracked {
            level: self.0.clone(),
            amount: 0,
        }
    }

    /// Returns the number.
    #[must_use]
    pub fn value(&self) -> i64 {
        self.0.get()
    }
}

/// Counts things in a [`Level`] until it is dropped.
#[derive(Debug)]
#[must_use = "what it counts is no longer counted when it is dropped"]
pub struct Tracked {
    level: Gauge,
    amount: i64,
}

impl Tracked {
    /// Counts `amount` things instead of what it counted before.
    pub fn set(&mut self, amount: usize) {
        let amount = i64::try_from(amount).unwrap_or(i64::MAX);
        self.level.inc_by(amount - self.amount);
        self.amount = amount;
    }
}

impl Drop for Tracked {
    fn drop(&mut self) {
        self.level.dec_by(self.amount);
    }
}

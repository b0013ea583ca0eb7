//! Numbers of things that exist now.

use prometheus_client::metrics::gauge::Gauge;

/// A number of things that exist now. It changes through guards, so that nothing is counted beyond its life, however
/// that ends.
#[derive(Clone, Debug)]
pub struct Level(pub(super) Gauge);

impl Level {
    /// Counts one thing until the guard is dropped.
    pub fn track(&self) -> Tracked {
        let mut tracked = self.track_none();
        tracked.set(1);
        tracked
    }

    /// A guard that counts nothing yet: for a collection whose size goes up and down, see [`Tracked::set`].
    pub fn track_none(&self) -> Tracked {
        Tracked {
            level: self.0.clone(),
            amount: 0,
        }
    }

    /// The number now.
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

#[cfg(test)]
mod tests {
    use crate::telemetry::Metrics;

    #[test]
    fn guards_count_while_they_live() {
        let metrics = Metrics::default();
        let mut holds = metrics.holds.track_none();
        let one = metrics.holds.track();
        holds.set(5);
        assert_eq!(metrics.holds.value(), 6);
        holds.set(2);
        drop(one);
        assert_eq!(metrics.clone().holds.value(), 2);
        drop(holds);
        assert_eq!(metrics.holds.value(), 0);
    }
}

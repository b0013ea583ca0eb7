//! Rate of something that happens again and again, forgotten within seconds. Takes the same memory however often it happens.

use std::time::{Duration, Instant};

/// Time in which an old rate falls to about a third.
const MEMORY: Duration = Duration::from_secs(5);

/// Exponentially decaying rate.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Rate {
    per_second: f64,
    last: Option<Instant>,
}

impl Rate {
    /// Counts one occurrence.
    pub(super) fn count(&mut self, now: Instant) {
        self.per_second = self.at(now) + 1.0 / MEMORY.as_secs_f64();
        self.last = Some(now);
    }

    /// Returns the occurrences per second, of late.
    pub(super) fn at(&self, now: Instant) -> f64 {
        let Some(last) = self.last else { return 0.0 };
        let age = now.saturating_duration_since(last);
        self.per_second * (-age.as_secs_f64() / MEMORY.as_secs_f64()).exp()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_steady_rate_is_shown_as_it_is_and_forgotten_when_it_ends() {
        let mut rate = Rate::default();
        let mut now = Instant::now();
        assert_eq!(rate.at(now), 0.0);
        for _ in 0..3_000 {
            now += Duration::from_millis(10);
            rate.count(now);
        }
        assert!((rate.at(now) - 100.0).abs() < 1.0, "{rate:?}");
        let later = rate.at(now + Duration::from_secs(60));
        assert!(later < 0.01, "{later}");
    }
}

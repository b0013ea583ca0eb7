//! Pauses between attempts.

use std::time::Duration;

use backon::{BackoffBuilder, ExponentialBackoff, ExponentialBuilder};

use crate::{clock::Moment, settings::Settings};

/// No coordinator can ask for a longer pause than this.
const LONGEST_ASKED: Duration = Duration::from_secs(60);

/// Pauses before attempts to repeat what failed or ended.
pub(crate) struct Pauses {
    builder: ExponentialBuilder,
    next: ExponentialBackoff,
    max: Duration,
    live_since: Option<Moment>,
}

impl Pauses {
    pub(crate) fn new(settings: &Settings) -> Self {
        // The jitter adds up to as much again.
        let max = settings.backoff_max.max(settings.backoff_min);
        let builder = ExponentialBuilder::new()
            .with_min_delay(settings.backoff_min.min(max / 2))
            .with_max_delay(max / 2)
            .without_max_times()
            .with_jitter();
        Self {
            builder,
            next: builder.build(),
            max,
            live_since: None,
        }
    }

    pub(crate) fn opened(&mut self, now: Moment) {
        self.live_since = Some(now);
    }

    /// Returns whether the last connection was open for a while.
    pub(crate) fn lived(&self, now: Moment) -> bool {
        self.live_since
            .is_some_and(|since| now.since(since) >= self.max)
    }

    /// Returns the pause before the next attempt. A connection that was open for a while starts the row of pauses anew; one
    /// that ended as soon as it was open does not, so that the two sides do not reconnect in a loop.
    pub(crate) fn pause(&mut self, now: Moment) -> Duration {
        if self.lived(now) {
            self.next = self.builder.build();
        }
        self.live_since = None;
        self.next.next().unwrap_or(self.max)
    }

    /// Makes the next pause the first of the row, though nothing lived.
    pub(crate) fn start_anew(&mut self) {
        self.next = self.builder.build();
    }

    /// Returns the pause before the next attempt, after the coordinator has asked for one of at least this length. Adds a
    /// random time of its own, so that not all clients come back at once.
    pub(crate) fn pause_as_asked(&mut self, now: Moment, asked: Option<Duration>) -> Duration {
        let pause = self.pause(now);
        asked.map_or(pause, |asked| asked.min(LONGEST_ASKED) + pause)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_within_their_bounds_and_start_anew_after_what_lived() {
        let mut pauses = Pauses::new(&Settings::new("http://127.0.0.1:1".into()));
        let row: Vec<_> = (0..20)
            .map(|_| pauses.pause(Moment::from_nanos(0)))
            .collect();
        assert!(row[0] >= Duration::from_millis(50) && row[0] <= Duration::from_millis(100));
        assert!(row.iter().all(|pause| *pause <= Duration::from_secs(2)));
        assert!(row[19] >= Duration::from_secs(1));

        pauses.opened(Moment::from_nanos(0));
        let short_lived = Moment::from_nanos(1_000_000);
        assert!(pauses.pause(short_lived) >= Duration::from_secs(1));
        pauses.opened(Moment::from_nanos(0));
        let lived = Moment::from_nanos(2_000_000_000);
        assert!(pauses.pause(lived) <= Duration::from_millis(100));
    }

    #[test]
    fn a_pause_that_is_asked_for_is_kept_within_reason() {
        let mut pauses = Pauses::new(&Settings::new("http://127.0.0.1:1".into()));
        let now = Moment::from_nanos(0);
        let asked = Duration::from_secs(5);
        let pause = pauses.pause_as_asked(now, Some(asked));
        assert!(pause > asked && pause <= asked + Duration::from_secs(2));
        let pause = pauses.pause_as_asked(now, Some(Duration::from_secs(86400)));
        assert!(pause <= LONGEST_ASKED + Duration::from_secs(2));
        assert!(pauses.pause_as_asked(now, None) <= Duration::from_secs(2));
    }
}

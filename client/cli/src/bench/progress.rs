//! Progress bar of a run, shown on a terminal only.

use std::{
    collections::VecDeque,
    io::{self, IsTerminal},
    time::{Duration, Instant},
};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// Interval at which it is redrawn.
pub(super) const TICK: Duration = Duration::from_millis(100);
/// Period over which the present rate is measured.
const RECENT: Duration = Duration::from_secs(1);

/// Bar on standard error. Does nothing if that is not a terminal, or with `quiet`.
pub(super) struct Progress {
    bar: ProgressBar,
}

impl Progress {
    pub(super) fn new(quiet: bool, clients: usize) -> Self {
        let target = if quiet || !io::stderr().is_terminal() {
            ProgressDrawTarget::hidden()
        } else {
            ProgressDrawTarget::stderr()
        };
        let bar = ProgressBar::with_draw_target(Some(clients as u64), target);
        bar.set_style(style("{prefix} [{bar:30}] {pos} of {len}"));
        bar.set_prefix("opening sessions");
        Self { bar }
    }

    pub(super) fn opened(&self, sessions: usize) {
        self.bar.set_position(sessions as u64);
    }

    /// Begins a phase of this length.
    pub(super) fn phase(&self, what: &'static str, length: Duration) {
        self.bar.set_style(style("{prefix} [{bar:30}] {msg}"));
        self.bar.set_prefix(what);
        self.bar.set_length(millis(length));
    }

    pub(super) fn show(&self, elapsed: Duration, length: Duration, per_second: f64) {
        self.bar.set_message(status(elapsed, length, per_second));
        self.bar.set_position(millis(elapsed.min(length)));
    }

    /// Removes it from the screen.
    pub(super) fn clear(&self) {
        self.bar.finish_and_clear();
    }
}

fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template)
        .unwrap_or_else(|_| ProgressStyle::default_bar())
        .progress_chars("=> ")
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

fn status(elapsed: Duration, length: Duration, per_second: f64) -> String {
    let left = length.saturating_sub(elapsed);
    format!(
        "{} of {}, {} left, {per_second:.0} cycles/s",
        seconds(elapsed),
        seconds(length),
        seconds(left),
    )
}

fn seconds(duration: Duration) -> String {
    format!("{:.0}s", duration.as_secs_f64())
}

/// Present rate of a counter.
#[derive(Default)]
pub(super) struct Rate {
    seen: VecDeque<(Instant, u64)>,
}

impl Rate {
    /// Notes the count, and returns its recent rise per second.
    pub(super) fn now(&mut self, at: Instant, count: u64) -> f64 {
        self.seen.push_back((at, count));
        while self.seen.len() > 2
            && self
                .seen
                .get(1)
                .is_some_and(|(seen, _)| at.saturating_duration_since(*seen) >= RECENT)
        {
            self.seen.pop_front();
        }
        let (since, before) = self.seen.front().copied().unwrap_or((at, count));
        let seconds = at.saturating_duration_since(since).as_secs_f64();
        if seconds > 0.0 {
            count.saturating_sub(before) as f64 / seconds
        } else {
            0.0
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_is_that_of_the_last_second() {
        let start = Instant::now();
        let mut rate = Rate::default();
        assert_eq!(rate.now(start, 0), 0.0);
        let mut last = 0.0;
        // Ten a tick for two seconds, then one a tick for two.
        for tick in 1..=40_u32 {
            let count = if tick <= 20 { tick * 10 } else { 180 + tick };
            last = rate.now(start + TICK * tick, count.into());
            if tick == 20 {
                assert_eq!(last.round(), 100.0);
            }
        }
        assert_eq!(last.round(), 10.0);
    }

    #[test]
    fn the_status_says_what_has_passed_and_what_is_left() {
        let status = status(Duration::from_secs(3), Duration::from_secs(10), 12_345.6);
        assert_eq!(status, "3s of 10s, 7s left, 12346 cycles/s");
    }
}

//! Ticks: the times at which jobs are due.

use std::time::{Duration, SystemTime};

/// A tick: how many periods have passed since 1970. So all instances agree on its number, as far as their clocks agree.
pub(crate) type Tick = u64;

/// Interval at which a job is due.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Period {
    millis: u64,
}

impl Period {
    /// Returns a period of so many milliseconds, at least 1.
    pub(crate) fn from_millis(millis: u64) -> Self {
        Self {
            millis: millis.max(1),
        }
    }

    /// Returns its length.
    pub(crate) fn length(self) -> Duration {
        Duration::from_millis(self.millis)
    }

    /// Returns the newest tick that is due.
    pub(crate) fn now(self) -> Tick {
        let millis = u64::try_from(since_1970().as_millis()).unwrap_or(u64::MAX);
        millis / self.millis
    }

    /// Returns the time until a tick is due; zero if it is due already.
    pub(crate) fn until(self, tick: Tick) -> Duration {
        self.due(tick).saturating_sub(since_1970())
    }

    /// Returns the time since a tick was due; zero if it is not due yet.
    pub(crate) fn since(self, tick: Tick) -> Duration {
        since_1970().saturating_sub(self.due(tick))
    }

    fn due(self, tick: Tick) -> Duration {
        Duration::from_millis(tick.saturating_mul(self.millis))
    }
}

/// Returns the time since 1970 by this machine's clock.
fn since_1970() -> Duration {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since.unwrap_or_default()
}

//! Times of two clocks that are never mixed: the store's wall clock and the coordinator's monotonic one.

use std::{fmt, time::Duration};

/// Display of a duration in the largest unit that needs no fraction: `90s`, `24h`, `365d`. Uses days from two on.
#[derive(Clone, Copy, Debug)]
pub struct InUnits(pub Duration);

impl fmt::Display for InUnits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const DAY: u128 = 86_400_000_000_000;
        const UNITS: [(u128, &str); 6] = [
            (DAY, "d"),
            (3_600_000_000_000, "h"),
            (60_000_000_000, "m"),
            (1_000_000_000, "s"),
            (1_000_000, "ms"),
            (1_000, "us"),
        ];
        let nanos = self.0.as_nanos();
        let fits =
            |unit: u128| nanos > 0 && nanos.is_multiple_of(unit) && (unit, nanos) != (DAY, DAY);
        match UNITS.into_iter().find(|(unit, _)| fits(*unit)) {
            Some((unit, name)) => write!(f, "{}{name}", nanos / unit),
            None => write!(f, "{nanos}ns"),
        }
    }
}

/// Time by the store's own clock, in microseconds since 1970: the result of Redis's `TIME` inside the script.
///
/// Only the store compares these. It follows wall time, so it may step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StoreTime(i64);

impl StoreTime {
    /// Returns the time from microseconds since 1970.
    pub const fn from_micros(micros: i64) -> Self {
        Self(micros)
    }

    /// Returns the microseconds since 1970.
    pub const fn as_micros(self) -> i64 {
        self.0
    }

    /// Returns the time `duration` later; saturates.
    pub fn after(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(micros(duration)))
    }

    /// Returns the time `duration` earlier; saturates.
    pub fn before(self, duration: Duration) -> Self {
        Self(self.0.saturating_sub(micros(duration)))
    }

    /// Returns the duration from `self` until `later`; zero if that has passed.
    pub fn until(self, later: Self) -> Duration {
        Duration::from_micros(u64::try_from(later.0.saturating_sub(self.0)).unwrap_or(0))
    }
}

/// Time by the coordinator's monotonic clock, in microseconds since an arbitrary start.
///
/// The clock counts suspended time (`CLOCK_BOOTTIME`): after a pause of the machine, a lease has expired here as it has in
/// Redis.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Moment(u64);

impl Moment {
    /// Returns the time from microseconds since the clock's start.
    pub const fn from_micros(micros: u64) -> Self {
        Self(micros)
    }

    /// Returns the microseconds since the clock's start.
    pub const fn as_micros(self) -> u64 {
        self.0
    }

    /// Returns the time `duration` later; saturates.
    pub fn after(self, duration: Duration) -> Self {
        Self(
            self.0
                .saturating_add(u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)),
        )
    }

    /// Returns the duration from `self` until `later`; zero if that has passed.
    pub fn until(self, later: Self) -> Duration {
        Duration::from_micros(later.0.saturating_sub(self.0))
    }
}

/// Returns a duration in whole microseconds; saturates.
pub(crate) fn micros(duration: Duration) -> i64 {
    i64::try_from(duration.as_micros()).unwrap_or(i64::MAX)
}

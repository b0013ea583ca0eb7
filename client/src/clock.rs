//! Clock by which this process judges its own leases.

use std::time::Duration;

/// Point on a monotonic clock that also counts the time for which the machine was suspended.
///
/// `std::time::Instant` counts it neither on Linux nor on Apple systems: a laptop that slept through the TTL would wake up
/// believing that it still holds its locks.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Moment(u64);

impl Moment {
    /// Reads the clock.
    pub(crate) fn now() -> Self {
        #[cfg(feature = "simulation")]
        let read = || read().saturating_add(skew::by());
        Self(read())
    }

    #[cfg(any(test, feature = "simulation"))]
    pub(crate) fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    #[cfg(any(test, feature = "simulation"))]
    pub(crate) fn as_nanos(self) -> u64 {
        self.0
    }

    /// Returns the moment `by` later, or the last moment there is if that is later still.
    pub(crate) fn after(self, by: Duration) -> Self {
        Self(self.0.saturating_add(nanos(by)))
    }

    /// Returns the time from `earlier` to this moment; zero if it is not earlier.
    pub(crate) fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

/// Returns a duration in nanoseconds; the largest number if it has more.
fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// Time by which tests set this process's clock forward, as a suspension of the machine does.
#[cfg(feature = "simulation")]
mod skew {
    use std::{
        sync::atomic::{AtomicU64, Ordering},
        time::Duration,
    };

    static SKEW: AtomicU64 = AtomicU64::new(0);

    pub(super) fn by() -> u64 {
        SKEW.load(Ordering::Relaxed)
    }

    /// Sets the clock forward.
    pub fn skew(by: Duration) {
        SKEW.fetch_add(super::nanos(by), Ordering::Relaxed);
    }

    /// Returns the reading of the clock, in nanoseconds.
    pub fn read() -> u64 {
        super::Moment::now().as_nanos()
    }
}

#[cfg(feature = "simulation")]
pub use skew::{read as read_clock, skew as skew_clock};

/// Returns the earlier of two moments, of which either may not be set.
pub(crate) fn earlier(a: Option<Moment>, b: Option<Moment>) -> Option<Moment> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    }
}

/// The system's clock that counts suspended time. On Apple systems `CLOCK_MONOTONIC` does; `Instant` reads
/// `CLOCK_UPTIME_RAW` there, which does not. `docs/promises.md` says what other systems count.
#[cfg(unix)]
const CLOCK: rustix::time::ClockId = {
    use rustix::time::ClockId;

    #[cfg(all(
        any(target_os = "linux", target_os = "android", target_os = "openbsd"),
        not(leasehold_portable)
    ))]
    let clock = ClockId::Boottime;
    #[cfg(not(all(
        any(target_os = "linux", target_os = "android", target_os = "openbsd"),
        not(leasehold_portable)
    )))]
    let clock = ClockId::Monotonic;
    clock
};

#[cfg(unix)]
fn read() -> u64 {
    let time = rustix::time::clock_gettime(CLOCK);
    nanos(Duration::try_from(time).unwrap_or_default())
}

#[cfg(not(unix))]
fn read() -> u64 {
    use std::{sync::OnceLock, time::Instant};

    static START: OnceLock<Instant> = OnceLock::new();
    nanos(START.get_or_init(Instant::now).elapsed())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_saturate_instead_of_wrapping() {
        let late = Moment::from_nanos(u64::MAX);
        assert_eq!(late.after(Duration::MAX), late);
        assert_eq!(Moment::from_nanos(1).since(late), Duration::ZERO);
    }

    /// `Instant` is not this clock: it begins with this process.
    #[test]
    #[cfg(any(target_os = "linux", target_vendor = "apple"))]
    fn the_clock_is_the_systems_that_counts_suspended_time() {
        use rustix::time::{ClockId, clock_gettime};

        #[cfg(all(target_os = "linux", not(leasehold_portable)))]
        let clock = ClockId::Boottime;
        #[cfg(any(target_vendor = "apple", leasehold_portable))]
        let clock = ClockId::Monotonic;
        let read = || {
            let time = clock_gettime(clock);
            Moment::from_nanos(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
        };
        let (before, now, after) = (read(), Moment::now(), read());
        assert!(
            before <= now && now <= after,
            "{before:?} {now:?} {after:?}"
        );
    }
}

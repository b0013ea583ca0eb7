//! The coordinator's monotonic clock.

use leasehold_core::time::Moment;
use rustix::time::{ClockId, clock_gettime};

/// The monotonic clock that also counts the time for which the machine was suspended: a lease that Redis let run out
/// while we slept has run out for us too. Tokio's clock stands still meanwhile, so it is for timers only.
pub fn now() -> Moment {
    #[cfg(any(target_os = "linux", target_os = "android"))]
    let time = clock_gettime(ClockId::Boottime);
    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    let time = clock_gettime(ClockId::Monotonic);
    let micros = time.tv_sec * 1_000_000 + time.tv_nsec / 1_000;
    Moment::from_micros(micros.unsigned_abs())
}

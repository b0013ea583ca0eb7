//! The coordinator's monotonic clock.

use leasehold_core::time::Moment;
use rustix::time::{ClockId, clock_gettime};

/// The system's clock that counts suspended time. On Apple systems `CLOCK_MONOTONIC` does; `docs/promises.md` tells what other
/// systems count.
const CLOCK: ClockId = {
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

/// The monotonic clock that also counts the time for which the machine was suspended: a lease that Redis let run out
/// while we slept has run out for us too. Tokio's clock stands still meanwhile, so it is for timers only.
pub fn now() -> Moment {
    let time = clock_gettime(CLOCK);
    let micros = time.tv_sec * 1_000_000 + time.tv_nsec / 1_000;
    Moment::from_micros(micros.unsigned_abs())
}

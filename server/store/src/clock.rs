//! Monotonic clock of the coordinator.

use leasehold_core::time::Moment;
use rustix::time::{ClockId, clock_gettime};

/// Clock of the system that counts suspended time. On Apple systems `CLOCK_MONOTONIC` does; for other systems see
/// `docs/promises.md`.
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

/// Returns the time of a monotonic clock that counts suspended time: a lease that expired in Redis during a suspension has
/// expired here too. Tokio's clock stops during a suspension, so it is for timers only.
pub fn now() -> Moment {
    let time = clock_gettime(CLOCK);
    let micros = time.tv_sec * 1_000_000 + time.tv_nsec / 1_000;
    Moment::from_micros(micros.unsigned_abs())
}

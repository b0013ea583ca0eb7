//! Schedule of commands and durations under which no deadline falls near a command.
//!
//! A history's time comes in waves. Commands are sent in the first eighth of one. What lasts ends between a third and
//! nine tenths of one, whichever command it began with: what the rules set, because of how long a wave is; TTLs and
//! lock-delays, because of how they are chosen. So it does not matter how many deadlines there are at a time, nor
//! that a busy machine is slow.

use std::{ops::Range, time::Duration};

use leasehold_core::{
    command::{CLAIM_TIME, DEAD_AFTER, PLACES_KEPT},
    time::StoreTime,
};
use rand::{Rng, rngs::StdRng};

/// Length of a wave, in µs.
const LENGTH: i64 = 544_000;

/// The waves of one history.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Waves {
    /// The beginning of one wave; each history has its own.
    began: i64,
}

impl Waves {
    pub(crate) fn new(random: &mut StdRng) -> Self {
        for lasts in [DEAD_AFTER, CLAIM_TIME, PLACES_KEPT] {
            let part = i64::try_from(lasts.as_micros()).unwrap() % LENGTH;
            assert!((LENGTH * 37 / 100..LENGTH * 70 / 100).contains(&part));
        }
        Self {
            began: random.random_range(0..LENGTH),
        }
    }

    /// Returns the time that a command has to wait before it may be sent.
    pub(crate) fn wait(self, now: StoreTime) -> Duration {
        let passed = (now.as_micros() - self.began).rem_euclid(LENGTH);
        if passed < LENGTH / 8 {
            return Duration::ZERO;
        }
        Duration::from_micros(u64::try_from(LENGTH - passed).unwrap())
    }
}

/// Returns this many waves and a bit more than a third, in whole milliseconds. What lasts as long as two of these ends in time,
/// too.
pub(crate) fn some(random: &mut StdRng, waves: Range<i64>) -> Duration {
    let whole = random.random_range(waves) * LENGTH;
    let micros = whole + random.random_range(LENGTH * 37 / 100..LENGTH * 38 / 100);
    Duration::from_millis(u64::try_from(micros / 1000 + 1).unwrap())
}

/// Returns the time until the next wave.
pub(crate) fn one() -> Duration {
    Duration::from_micros(u64::try_from(LENGTH).unwrap())
}

//! Estimate of a server's clock, from its replies.

use std::sync::atomic::{AtomicI64, Ordering};

use leasehold_core::time::{Moment, StoreTime};
use redis::Value;

/// Estimate of a server's clock relative to the local one, never above it by more than a step or drift that no reply has shown yet.
///
/// A command that arrives once its caller has given it up must do nothing, and the server judges that by its own clock. With an estimate
/// above it, a slow reply would give the next command as much more time, and a renewal on its way could undo a later one.
#[derive(Debug)]
pub(crate) struct ServerClock {
    /// Microseconds by which its wall clock is at least ahead of the local monotonic one; [`UNKNOWN`] before its first reply.
    ahead: AtomicI64,
}

const UNKNOWN: i64 = i64::MIN;

impl Default for ServerClock {
    fn default() -> Self {
        Self {
            ahead: AtomicI64::new(UNKNOWN),
        }
    }
}

impl ServerClock {
    /// Returns whether the server has replied.
    pub(crate) fn is_known(&self) -> bool {
        self.ahead.load(Ordering::Relaxed) != UNKNOWN
    }

    /// Returns the earliest time that its clock can show at a local moment.
    pub(crate) fn at(&self, moment: Moment) -> Option<StoreTime> {
        let ahead = self.ahead.load(Ordering::Relaxed);
        let moment = micros(moment);
        (ahead != UNKNOWN).then(|| StoreTime::from_micros(ahead.saturating_add(moment)))
    }

    /// Notes the time in a reply to a command that was sent at a local moment. The reply was read by now.
    pub(crate) fn observe(&self, at: StoreTime, sent_at: Moment, now: Moment) {
        let ahead = |moment| at.as_micros().saturating_sub(micros(moment));
        let (least, most) = (ahead(now), ahead(sent_at));
        // What a quicker reply showed stands until one contradicts it, as after a step of the server's clock.
        if !(least..=most).contains(&self.ahead.load(Ordering::Relaxed)) {
            self.ahead.store(least, Ordering::Relaxed);
        }
    }

    /// Notes a reply to the command `TIME`, in the same way.
    pub(crate) fn observe_reply(&self, reply: Value, sent_at: Moment, now: Moment) {
        if let Ok((seconds, micros)) = redis::from_redis_value::<(i64, i64)>(reply) {
            let at = seconds.saturating_mul(1_000_000).saturating_add(micros);
            self.observe(StoreTime::from_micros(at), sent_at, now);
        }
    }
}

fn micros(moment: Moment) -> i64 {
    i64::try_from(moment.as_micros()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_not_ahead_of_the_server_however_slow_a_reply_is() {
        let moment = Moment::from_micros;
        let clock = ServerClock::default();
        assert_eq!(clock.at(moment(0)), None);
        // The server's clock is 1000 s ahead. The first and the last command are slow on their way there, and the replies back: they may
        // be of any time in between. The last one says no more than the second, and takes nothing back.
        for (at, sent_at, now, estimate) in [
            (1_002_000_000, 1_000_000, 4_000_000, 998_000_000),
            (1_005_000_000, 4_999_990, 5_000_020, 999_999_980),
            (1_007_000_000, 6_000_000, 9_000_000, 999_999_980),
        ] {
            clock.observe(StoreTime::from_micros(at), moment(sent_at), moment(now));
            assert_eq!(clock.at(moment(0)), Some(StoreTime::from_micros(estimate)));
        }
    }

    #[test]
    fn it_follows_steps_of_the_servers_clock() {
        let moment = Moment::from_micros;
        let clock = ServerClock::default();
        for seconds in [0, 1000, 1003, 990] {
            let at = StoreTime::from_micros(seconds * 1_000_000);
            clock.observe(at, moment(100), moment(300));
            assert_eq!(clock.at(moment(300)), Some(at));
        }
    }
}

//! Estimate of a server's clock, from its replies.

use std::sync::atomic::{AtomicI64, Ordering};

use leasehold_core::time::{Moment, StoreTime};
use redis::Value;

/// Estimate of a server's clock relative to the local one, never above it by more than a step or drift that no reply has shown yet.
///
/// A command that arrives once its caller has given it up must do nothing, and the server judges that by its own clock. With an estimate
/// above it, a slow reply would give the next command as much more time, and a renewal on its way could undo a later one.
#[derive(Debug, Default)]
pub(crate) struct ServerClock {
    /// Microseconds by which its wall clock is at least ahead of the local monotonic one; 0 before its first reply.
    ahead: AtomicI64,
}

impl ServerClock {
    /// Returns whether the server has replied.
    pub(crate) fn is_known(&self) -> bool {
        self.ahead.load(Ordering::Relaxed) != 0
    }

    /// Returns the earliest time that its clock can show at a local moment.
    pub(crate) fn at(&self, moment: Moment) -> Option<StoreTime> {
        let ahead = self.ahead.load(Ordering::Relaxed);
        let moment = micros(moment);
        (ahead != 0).then(|| StoreTime::from_micros(ahead.saturating_add(moment)))
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

    const SECOND: u64 = 1_000_000;

    #[test]
    fn it_is_not_ahead_of_the_server_however_slow_a_reply_is() {
        // The server's clock is 1000 s ahead.
        let at = |local: u64| StoreTime::from_micros(i64::try_from(local + 1000 * SECOND).unwrap());
        let moment = Moment::from_micros;
        let clock = ServerClock::default();
        assert_eq!(clock.at(moment(SECOND)), None);
        let estimate = || clock.at(moment(0)).unwrap().as_micros();
        // Late on its way there, and back: any time in between may be that of the reply.
        clock.observe(at(2 * SECOND), moment(SECOND), moment(4 * SECOND));
        assert_eq!(estimate(), 998_000_000);
        clock.observe(
            at(5 * SECOND),
            moment(5 * SECOND - 10),
            moment(5 * SECOND + 20),
        );
        assert_eq!(estimate(), 999_999_980);
        // A slow one says no more, and takes nothing back.
        clock.observe(at(7 * SECOND), moment(6 * SECOND), moment(9 * SECOND));
        assert_eq!(estimate(), 999_999_980);
    }

    #[test]
    fn it_follows_steps_of_the_servers_clock() {
        let moment = Moment::from_micros;
        let clock = ServerClock::default();
        for seconds in [1000, 1003, 990] {
            let at = StoreTime::from_micros(seconds * 1_000_000);
            clock.observe(at, moment(100), moment(300));
            assert_eq!(clock.at(moment(300)), Some(at));
        }
    }
}

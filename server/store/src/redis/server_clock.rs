//! Estimate of a server's clock, from its replies.

use std::sync::atomic::{AtomicI64, Ordering};

use leasehold_core::time::{Moment, StoreTime};
use redis::Value;

/// Estimate of a server's clock relative to the local one.
#[derive(Debug, Default)]
pub(crate) struct ServerClock {
    /// Most microseconds by which its wall clock was ahead of the local monotonic one at its last reply; 0 before the first.
    ahead: AtomicI64,
}

impl ServerClock {
    /// Returns whether the server has replied.
    pub(crate) fn is_known(&self) -> bool {
        self.ahead.load(Ordering::Relaxed) != 0
    }

    /// Returns the latest time that its clock can show at a local moment.
    pub(crate) fn at(&self, moment: Moment) -> Option<StoreTime> {
        let ahead = self.ahead.load(Ordering::Relaxed);
        let moment = micros(moment);
        (ahead != 0).then(|| StoreTime::from_micros(ahead.saturating_add(moment)))
    }

    /// Notes the time in the reply to a command that was sent at a local moment.
    pub(crate) fn observe(&self, at: StoreTime, sent_at: Moment) {
        let ahead = at.as_micros().saturating_sub(micros(sent_at));
        self.ahead.store(ahead, Ordering::Relaxed);
    }

    /// Notes the reply to the command `TIME`, sent at a local moment.
    pub(crate) fn observe_reply(&self, reply: Value, sent_at: Moment) {
        if let Ok((seconds, micros)) = redis::from_redis_value::<(i64, i64)>(reply) {
            let at = seconds.saturating_mul(1_000_000).saturating_add(micros);
            self.observe(StoreTime::from_micros(at), sent_at);
        }
    }
}

fn micros(moment: Moment) -> i64 {
    i64::try_from(moment.as_micros()).unwrap_or(i64::MAX)
}

//! Estimate of a server's clock, from its replies.

use std::sync::atomic::{AtomicI64, Ordering};

use leasehold_core::time::{Moment, StoreTime};

/// A server's clock beside ours.
#[derive(Debug, Default)]
pub(super) struct ServerClock {
    /// Microseconds by which its wall clock is ahead of our monotonic one, at most, when we last heard from it; 0 before
    /// that.
    ahead: AtomicI64,
}

impl ServerClock {
    /// Whether the server was heard from.
    pub(super) fn is_known(&self) -> bool {
        self.ahead.load(Ordering::Relaxed) != 0
    }

    /// What it says at a moment of ours, at most.
    pub(super) fn at(&self, moment: Moment) -> Option<StoreTime> {
        let ahead = self.ahead.load(Ordering::Relaxed);
        let moment = micros(moment);
        (ahead != 0).then(|| StoreTime::from_micros(ahead.saturating_add(moment)))
    }

    /// Learns what it said in answer to what was sent at a moment of ours.
    pub(super) fn observe(&self, at: StoreTime, sent_at: Moment) {
        let ahead = at.as_micros().saturating_sub(micros(sent_at));
        self.ahead.store(ahead, Ordering::Relaxed);
    }
}

fn micros(moment: Moment) -> i64 {
    i64::try_from(moment.as_micros()).unwrap_or(i64::MAX)
}

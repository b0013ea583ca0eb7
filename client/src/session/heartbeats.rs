//! Sending times of heartbeats, from which every deadline is counted.

use std::collections::VecDeque;

use crate::{
    clock::Moment,
    planted::{Fault, is_planted},
};

/// Number of heartbeats remembered. Answers about older ones extend nothing; at one every third of a TTL this is far more than
/// a lease can last.
const REMEMBERED: usize = 64;

/// The heartbeats of one stream. The `open` is number 0.
pub(super) struct Heartbeats {
    first: u64,
    sent_at: VecDeque<Moment>,
}

impl Heartbeats {
    /// Begins with the `open`, sent at `now`.
    pub(super) fn opening(now: Moment) -> Self {
        Self {
            first: 0,
            sent_at: VecDeque::from([now]),
        }
    }

    /// Returns when the oldest remembered heartbeat was sent: the `open`, while no other was.
    pub(super) fn began(&self) -> Option<Moment> {
        self.sent_at.front().copied()
    }

    /// Returns when the newest heartbeat was sent.
    pub(super) fn last_sent(&self) -> Option<Moment> {
        self.sent_at.back().copied()
    }

    /// Notes that the next heartbeat is sent at `now`, and numbers it. To be called before it can be on the wire: a
    /// time noted too early shortens a lease by a little, one noted too late would let it outlive the lock.
    pub(super) fn note(&mut self, now: Moment) -> u64 {
        self.sent_at.push_back(now);
        if self.sent_at.len() > REMEMBERED {
            self.sent_at.pop_front();
            self.first += 1;
        }
        self.first + self.sent_at.len() as u64 - 1
    }

    /// Returns the time from which the answer to this heartbeat counts that came now: that of its sending.
    pub(super) fn answered(&self, now: Moment, sequence: u64) -> Option<Moment> {
        let sent_at = self.sent_at(sequence)?;
        let is_wrong = is_planted(Fault::DeadlineFromReceipt);
        Some(if is_wrong { now } else { sent_at })
    }

    /// Returns when this heartbeat was sent; none if it never was, or too long ago to matter.
    pub(super) fn sent_at(&self, sequence: u64) -> Option<Moment> {
        let index = usize::try_from(sequence.checked_sub(self.first)?).ok()?;
        self.sent_at.get(index).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forgets_the_oldest() {
        let mut heartbeats = Heartbeats::opening(Moment::from_nanos(0));
        for n in 1..=REMEMBERED as u64 {
            assert_eq!(heartbeats.note(Moment::from_nanos(n)), n);
        }
        assert_eq!(heartbeats.sent_at(0), None);
        assert_eq!(heartbeats.sent_at(1), Some(Moment::from_nanos(1)));
        assert_eq!(heartbeats.sent_at(u64::MAX), None);
    }
}

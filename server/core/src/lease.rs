//! Arithmetic of one session's lease: the time promised to its client, and the end after its silence.
//!
//! The client measures from the moment it *sent* a heartbeat, the coordinator from the moment it *received* it, and the
//! store's expiry runs from the moment a renewal *arrived* there, which is after it was sent. So with
//! `standing = renewal sent + TTL` and `valid_for = min(TTL, standing − heartbeat received) − margin`, the client's
//! deadline `heartbeat sent + valid_for` is never later than the store's, whatever the network did in between.

use std::time::Duration;

use crate::time::Moment;

/// Returns the interval of the heartbeats, and so of the renewals, of a client with this TTL: a third of it.
pub fn heartbeat_interval(ttl: Duration) -> Duration {
    ttl / 3
}

/// Longest pause between the heartbeats of a client that has nothing and waits for nothing, unless its TTL asks for a longer one.
/// Proxies cut streams that say nothing for a minute.
const REST: Duration = Duration::from_secs(30);

/// Returns the margin that every promise leaves for clocks that run at different speeds: 1 % of the TTL and 2 ms.
pub fn drift_margin(ttl: Duration) -> Duration {
    ttl / 100 + Duration::from_millis(2)
}

/// The lease of one session.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Lease {
    ttl: Duration,
    sequence: u64,
    heard_at: Moment,
    /// The end of the time for which the client needs to say nothing: its silence counts from then on.
    rests_until: Moment,
    promised_until: Moment,
}

impl Lease {
    /// Opens a lease whose `open`, heartbeat 0, was received at `now`.
    pub fn open(ttl: Duration, now: Moment) -> Self {
        Self {
            ttl,
            sequence: 0,
            heard_at: now,
            rests_until: now,
            promised_until: now,
        }
    }

    /// Returns the session's TTL.
    pub fn ttl(&self) -> Duration {
        self.ttl
    }

    /// Returns the number of the last heartbeat that was received.
    pub fn sequence(&self) -> u64 {
        self.sequence
    }

    /// Returns the time at which the last heartbeat was received.
    pub fn heard_at(&self) -> Moment {
        self.heard_at
    }

    /// Notes a heartbeat; false if it does not follow the one before.
    pub fn heartbeat(&mut self, sequence: u64, now: Moment) -> bool {
        if sequence <= self.sequence {
            return false;
        }
        self.sequence = sequence;
        self.heard_at = now;
        self.rests_until = now;
        true
    }

    /// Lets a client that has nothing and waits for nothing rest: returns the time after which to send the next heartbeat, counted
    /// from when it sent the last one. `None` if that is no longer than the interval of all heartbeats.
    pub fn rest(&mut self) -> Option<Duration> {
        if heartbeat_interval(self.ttl) >= REST {
            return None;
        }
        self.rests_until = self.heard_at.after(REST);
        Some(REST)
    }

    /// Notes that the client asks for something: it rests no longer.
    pub fn wake(&mut self, now: Moment) {
        self.rests_until = self.rests_until.min(now);
    }

    /// Returns the time at which the session ends unless another heartbeat is heard: a TTL after the last one, or after the end of
    /// the client's [rest](Self::rest). Never before the last promise has passed.
    pub fn silent_at(&self) -> Moment {
        self.rests_until.after(self.ttl).max(self.promised_until)
    }

    /// Returns the time until which the client may believe in a hold, even if its clock is slower than ours: the margin that
    /// was taken off its promises for that is added again.
    pub fn promised_until(&self) -> Moment {
        self.promised_until
    }

    /// Returns the time, counted from *sending* the heartbeat that was received at `heard_at`, for which the client may rely on
    /// its holds. They stand in the store until `standing` (`None`: it has no holds). `None` if no time is left to promise.
    pub fn promise(&mut self, heard_at: Moment, standing: Option<Moment>) -> Option<Duration> {
        let left = standing.map_or(self.ttl, |standing| heard_at.until(standing).min(self.ttl));
        let valid_for = left
            .checked_sub(drift_margin(self.ttl))
            .filter(|valid_for| !valid_for.is_zero())?;
        if standing.is_some() {
            self.promised_until = self.promised_until.max(heard_at.after(left));
        }
        Some(valid_for)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TTL: Duration = Duration::from_secs(10);

    fn at(millis: u64) -> Moment {
        Moment::from_micros(millis * 1000)
    }

    #[test]
    fn a_promise_never_outlives_the_store_nor_the_ttl() {
        let mut lease = Lease::open(TTL, at(1000));
        // Renewed 2 s before the heartbeat was heard: 8 s are left, less 1 % of the TTL and 2 ms.
        let standing = at(0).after(TTL);
        assert!(lease.heartbeat(1, at(2000)));
        let promised = lease.promise(at(2000), Some(standing));
        assert_eq!(promised, Some(Duration::from_millis(8000 - 102)));
        // Renewed long after: no more than the TTL counted from the heartbeat.
        let promised = lease.promise(at(2000), Some(at(9000).after(TTL)));
        assert_eq!(promised, Some(TTL - Duration::from_millis(102)));
        assert_eq!(lease.promise(at(9950), Some(standing)), None);
    }

    #[test]
    fn a_client_may_be_silent_for_as_long_as_it_was_told_to_rest() {
        let mut lease = Lease::open(TTL, at(0));
        assert!(lease.heartbeat(1, at(3000)));
        assert_eq!(lease.rest(), Some(REST));
        assert_eq!(lease.silent_at(), at(43_000));
        // From its next request on, a TTL.
        lease.wake(at(20_000));
        assert_eq!(lease.silent_at(), at(30_000));
        lease.wake(at(25_000));
        assert_eq!(lease.silent_at(), at(30_000));
        assert!(lease.heartbeat(2, at(26_000)));
        assert_eq!(lease.silent_at(), at(36_000));
    }

    #[test]
    fn nobody_rests_for_less_than_the_interval() {
        let ttl = REST * 3;
        let mut lease = Lease::open(ttl, at(0));
        assert_eq!(lease.rest(), None);
        assert_eq!(lease.silent_at(), at(0).after(ttl));
    }
}

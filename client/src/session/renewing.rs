//! Renewal of credentials: certificates and tokens expire, and their files are replaced before.

use std::time::Duration;

use crate::clock::Moment;

/// Interval of looks at the files.
const LOOK: Duration = Duration::from_secs(1);
/// Time within which all clients that see a file change move their sessions: many have the same file.
const SPREAD: Duration = Duration::from_secs(5);
/// Pause before the session tries again, if no coordinator takes the newer credentials.
const AGAIN: Duration = Duration::from_secs(10);

/// Schedule of moves to a stream with newer credentials.
#[derive(Default)]
pub(super) struct Renewing {
    looked_at: Option<Moment>,
    at: Option<Moment>,
}

impl Renewing {
    /// Returns whether it is time to move; calls `is_outdated` once in a while.
    pub(super) fn is_due(&mut self, now: Moment, is_outdated: impl FnOnce() -> bool) -> bool {
        if self.looked_at.is_some_and(|at| now.since(at) < LOOK) {
            return false;
        }
        self.looked_at = Some(now);
        if !is_outdated() {
            self.at = None;
            return false;
        }
        let spread = || now.after(SPREAD.mul_f64(fastrand::f64()));
        *self.at.get_or_insert_with(spread) <= now
    }

    /// Notes that no coordinator took the newer credentials.
    pub(super) fn failed(&mut self, now: Moment) {
        self.at = Some(now.after(AGAIN));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Moment {
        Moment::from_nanos(millis * 1_000_000)
    }

    #[test]
    fn newer_credentials_are_moved_to_within_a_while() {
        let mut renewing = Renewing::default();
        assert!(!renewing.is_due(at(0), || false));
        // Too early to look.
        assert!(!renewing.is_due(at(999), || panic!("it looked")));
        let due = (1..=6).find(|second| renewing.is_due(at(second * 1_000), || true));
        assert!(due.is_some());
        renewing.failed(at(10_000));
        assert!(!renewing.is_due(at(11_000), || true));
        assert!(!renewing.is_due(at(19_999), || true));
        assert!(renewing.is_due(at(21_000), || true));
        // They are in use now.
        assert!(!renewing.is_due(at(22_000), || false));
        assert_eq!(renewing.at, None);
    }
}

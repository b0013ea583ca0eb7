//! Confirmation of missed deadlines.
//!
//! After a pause of the coordinator itself its timers are ahead of what waits in its sockets: a deadline that has passed by
//! the clock may have been kept by a message that was not read yet. So a deadline counts as missed only if it has still
//! passed a moment later.

use std::time::Duration;

use crate::time::Moment;

/// Time to read on before a missed deadline counts.
const GRACE: Duration = Duration::from_millis(250);

/// Confirmation, by a second look, that a deadline has passed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct DeadlineConfirmation {
    since: Option<Moment>,
}

impl DeadlineConfirmation {
    /// Returns when to look at this deadline next.
    pub fn due(&self, deadline: Moment) -> Moment {
        self.since
            .map_or(deadline, |since| deadline.max(since.after(GRACE)))
    }

    /// Looks at the deadline. Returns whether it was missed for good.
    pub fn is_missed(&mut self, deadline: Moment, now: Moment) -> bool {
        if now < deadline {
            self.since = None;
            return false;
        }
        let since = *self.since.get_or_insert(now);
        since.after(GRACE) <= now
    }

    /// Forgets that the deadline had passed: it was kept.
    pub fn kept(&mut self) {
        self.since = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Moment {
        Moment::from_micros(millis * 1000)
    }

    #[test]
    fn only_the_second_look_counts() {
        let mut look = DeadlineConfirmation::default();
        let deadline = at(1000);
        assert_eq!(look.due(deadline), deadline);
        assert!(!look.is_missed(deadline, at(999)));
        // The clock jumped far over the deadline: that alone says nothing.
        assert!(!look.is_missed(deadline, at(60_000)));
        assert_eq!(look.due(deadline), at(60_250));
        assert!(!look.is_missed(deadline, at(60_249)));
        assert!(look.is_missed(deadline, at(60_250)));
    }

    #[test]
    fn a_deadline_that_was_kept_after_all_is_looked_at_twice_again() {
        let mut look = DeadlineConfirmation::default();
        assert!(!look.is_missed(at(1000), at(1000)));
        look.kept();
        assert_eq!(look.due(at(2000)), at(2000));
        assert!(!look.is_missed(at(2000), at(2000)));
        // A later deadline clears it by itself as well.
        assert!(!look.is_missed(at(3000), at(2250)));
        assert!(!look.is_missed(at(3000), at(3000)));
        assert!(look.is_missed(at(3000), at(3250)));
    }
}

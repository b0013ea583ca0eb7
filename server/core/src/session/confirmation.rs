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

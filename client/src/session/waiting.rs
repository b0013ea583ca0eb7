//! Acquire that has not been answered.

use std::time::Duration;

use super::{ids::Ids, spec::AcquireSpec};
use crate::{clock::Moment, error::Failure};

/// Extra time after its wait in which the coordinator may answer an acquire.
pub(super) const ANSWER_GRACE: Duration = Duration::from_secs(2);

/// An acquire that has not been answered.
pub(super) struct Waiting<A> {
    pub(super) reply: A,
    pub(super) spec: AcquireSpec,
    /// End of its wait.
    pub(super) deadline: Option<Moment>,
    /// Its request on the present stream, if it is there.
    pub(super) sent_as: Option<u64>,
    /// It waits in a queue there.
    pub(super) queued: bool,
    /// The ids by which its place can be resumed; `None` if it waits for several names, one after the other.
    pub(super) ticket: Option<Ids>,
    /// Reason for which the coordinator could not serve it when it was asked last.
    pub(super) failure: Option<Failure>,
    /// Pause before it is asked for again, if it fails so again.
    pub(super) retry_in: Duration,
    /// Time at which it is asked for again on the same stream.
    pub(super) retry_at: Option<Moment>,
}

impl<A> Waiting<A> {
    /// Notes that the stream that it was sent on does not serve it any more.
    pub(super) fn unsend(&mut self) {
        self.sent_as = None;
        self.queued = false;
        self.retry_at = None;
    }

    /// Returns the time left of its wait.
    pub(super) fn remaining(&self, now: Moment) -> Option<Duration> {
        match (self.spec.wait, self.deadline) {
            (Some(_), Some(deadline)) => Some(deadline.since(now)),
            (wait, _) => wait,
        }
    }

    /// Returns when it ends without an answer: later while a coordinator is about to give one.
    pub(super) fn ends_at(&self) -> Option<Moment> {
        let grace = self.sent_as.map_or(Duration::ZERO, |_| ANSWER_GRACE);
        self.deadline.map(|deadline| deadline.after(grace))
    }
}

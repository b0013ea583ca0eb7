//! Request of an operator to release a lock, as a holder receives it.

use std::{sync::Arc, time::Duration};

use crate::{
    clock::Moment,
    proto::{duration, v1},
};

/// Request of an operator to release a lock, as its guard receives it. The lock is held on: finish what must be finished and
/// release it, or go on.
///
/// ```
/// # leasehold_tests::doc(async |client| {
/// let guard = client.lock("orders/42").await?;
/// client.admin().request_release("orders/42").reason("maintenance").send().await?;
/// let request = guard.release_requested().await.expect("it is held");
/// assert_eq!((request.reason(), request.time_left()), ("maintenance", None));
/// guard.release().await?;
/// # Ok(()) });
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ReleaseRequest {
    reason: Arc<str>,
    until: Option<Moment>,
}

impl ReleaseRequest {
    pub(crate) fn received(asked: &v1::SessionReleaseRequested, now: Moment) -> Self {
        Self {
            reason: asked.reason.as_str().into(),
            until: duration(asked.within).map(|within| now.after(within)),
        }
    }

    /// Returns the reason, for people; empty if the operator gave none.
    pub fn reason(&self) -> &str {
        &self.reason
    }

    /// Returns the time left of that which the operator gave; zero once it is over, none if the operator gave none. Nothing
    /// happens when it is over.
    pub fn time_left(&self) -> Option<Duration> {
        let until = self.until?;
        Some(until.since(Moment::now()))
    }
}

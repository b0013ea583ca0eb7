//! Watch over the locks that a command runs under: one, or several that were granted together.

use std::{future::poll_fn, task::Poll, time::Duration};

use leasehold_client::{LockState, LockWatch, LostReason};

/// Watches all that is held: the command has to end with the first of it.
pub(crate) struct Watch(Vec<LockWatch>);

/// A lock that is no longer held, and why.
pub(super) struct Loss {
    pub(super) name: String,
    pub(super) reason: LostReason,
}

impl Watch {
    /// At least one lock, in the order in which they were named.
    pub(crate) fn new(locks: impl IntoIterator<Item = LockWatch>) -> Self {
        Self(locks.into_iter().collect())
    }

    pub(super) fn locks(&self) -> &[LockWatch] {
        &self.0
    }

    /// The names, for messages.
    pub(super) fn names(&self) -> String {
        let names: Vec<_> = self
            .0
            .iter()
            .map(|lock| format!("{:?}", lock.name()))
            .collect();
        names.join(", ")
    }

    /// Time left until some of it is lost, held or suspended; zero once some of it is.
    pub(super) fn lost_in(&self) -> Duration {
        let times = self.0.iter().map(LockWatch::lost_in);
        times.min().unwrap_or_default()
    }

    /// Whether some of it is suspended.
    pub(super) fn is_suspended(&self) -> bool {
        let mut states = self.0.iter().map(LockWatch::state);
        states.any(|state| state == LockState::Suspended)
    }

    /// Completes when some of it is lost. May be dropped and called again.
    pub(super) async fn lost(&self) -> Loss {
        let mut ends: Vec<_> = self
            .0
            .iter()
            .map(|lock| (lock, Box::pin(lock.lost())))
            .collect();
        poll_fn(|cx| {
            let mut lost = None;
            for (lock, end) in &mut ends {
                let Poll::Ready(reason) = end.as_mut().poll(cx) else {
                    continue;
                };
                let loss = Loss {
                    name: lock.name().to_owned(),
                    reason,
                };
                // The end of the session leaves the command a moment, anything else leaves it none.
                if reason != LostReason::SessionEnded {
                    return Poll::Ready(loss);
                }
                lost.get_or_insert(loss);
            }
            lost.map_or(Poll::Pending, Poll::Ready)
        })
        .await
    }
}

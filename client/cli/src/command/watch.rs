//! Watch over the locks that a command runs under: one, or several that were granted together.

use std::{
    future::{pending, poll_fn},
    task::Poll,
    time::Duration,
};

use leasehold_client::{LockState, LockWatch, LostReason, ReleaseRequest};

/// Watches all locks: the command must end with the first loss.
pub(crate) struct Watch(Vec<LockWatch>);

/// A lock that is no longer held, and why.
pub(super) struct Loss {
    pub(super) name: String,
    pub(super) reason: LostReason,
}

/// Time left of the locks, by what ends them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Left {
    /// Until the first lease runs out that is not renewed before. `None` if each lock reaches its bound first.
    pub(super) lease: Option<Duration>,
    /// Until the first bound on the time held. `None` if there is no bound.
    pub(super) bound: Option<Duration>,
}

impl Left {
    /// Returns the time until the first lock is lost, whatever ends it.
    pub(super) fn whole(self) -> Duration {
        self.lease
            .into_iter()
            .chain(self.bound)
            .min()
            .unwrap_or_default()
    }
}

impl Watch {
    /// Watches at least one lock, in the order in which they were named.
    pub(crate) fn new(locks: impl IntoIterator<Item = LockWatch>) -> Self {
        Self(locks.into_iter().collect())
    }

    pub(super) fn locks(&self) -> &[LockWatch] {
        &self.0
    }

    /// Returns the names, for messages.
    pub(super) fn names(&self) -> String {
        let names: Vec<_> = self
            .0
            .iter()
            .map(|lock| format!("{:?}", lock.name()))
            .collect();
        names.join(", ")
    }

    /// Returns the time left until the first lock is lost, held or suspended; none once one is.
    pub(super) fn left(&self) -> Left {
        let mut left = Left::default();
        for lock in &self.0 {
            // In this order: what has shrunk to the bound is at least the bound.
            let lost_in = lock.lost_in();
            let bound = lock.ends_in();
            if bound.is_none_or(|bound| lost_in < bound) {
                left.lease = Some(left.lease.map_or(lost_in, |lease| lease.min(lost_in)));
            }
            if let Some(bound) = bound {
                left.bound = Some(left.bound.map_or(bound, |least| least.min(bound)));
            }
        }
        left
    }

    /// Returns whether a lock is suspended.
    pub(super) fn is_suspended(&self) -> bool {
        let mut states = self.0.iter().map(LockWatch::state);
        states.any(|state| state == LockState::Suspended)
    }

    /// Completes when an operator asks for the release of a lock, with its name. May be dropped and called again.
    pub(super) async fn requested(&self) -> (String, ReleaseRequest) {
        let asked = |lock: &LockWatch| {
            let (name, request) = (lock.name().to_owned(), lock.release_requested());
            Box::pin(async move {
                match request.await {
                    Some(request) => (name, request),
                    None => pending().await,
                }
            })
        };
        let mut all: Vec<_> = self.0.iter().map(asked).collect();
        poll_fn(|cx| {
            let mut polled = all.iter_mut().map(|asked| asked.as_mut().poll(cx));
            polled.find(Poll::is_ready).unwrap_or(Poll::Pending)
        })
        .await
    }

    /// Completes when a lock is lost. May be dropped and called again.
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
                // The end of the session leaves the command time to end; any other loss leaves none.
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

//! What a command runs under: one lock, or several that were granted together.

use std::{future::poll_fn, slice, task::Poll, time::Duration};

use leasehold_client::{
    AcquireError, Client, HoldError, LockGuard, LockGuards, LockWatch, LostReason,
};

use super::options::RunOptions;

/// Holds it.
pub(super) enum Held {
    One(LockGuard),
    Together(LockGuards),
}

impl Held {
    /// Waits for what the options ask for.
    pub(super) async fn acquire(
        client: &Client,
        options: &RunOptions,
    ) -> Result<Self, AcquireError> {
        let value = options.value.as_str();
        let [name] = options.names.as_slice() else {
            let mut request = client
                .lock_all(options.names.iter().map(String::as_str))
                .value(value)
                .lock_delay(options.lock_delay);
            if options.shared {
                request = request.shared();
            }
            if let Some(wait) = options.wait {
                request = request.wait(wait);
            }
            return request.acquire().await.map(Self::Together);
        };
        if let Some(limit) = options.semaphore {
            let mut semaphore = client
                .semaphore(name.as_str(), limit)
                .value(value)
                .lock_delay(options.lock_delay);
            if let Some(wait) = options.wait {
                semaphore = semaphore.wait(wait);
            }
            return semaphore.acquire(options.permits).await.map(Self::One);
        }
        let mut request = client
            .lock(name.as_str())
            .value(value)
            .lock_delay(options.lock_delay);
        if options.shared {
            request = request.shared();
        }
        if let Some(wait) = options.wait {
            request = request.wait(wait);
        }
        request.acquire().await.map(Self::One)
    }

    /// At least one, in the order in which they were named.
    pub(super) fn guards(&self) -> &[LockGuard] {
        match self {
            Self::One(guard) => slice::from_ref(guard),
            Self::Together(guards) => guards.guards(),
        }
    }

    pub(super) fn watch(&self) -> Watch {
        Watch(self.guards().iter().map(LockGuard::watch).collect())
    }

    pub(super) async fn release(self) -> Result<(), HoldError> {
        match self {
            Self::One(guard) => guard.release().await,
            Self::Together(guards) => guards.release().await,
        }
    }
}

/// Watches all that is held: the command has to end with the first of it.
pub(super) struct Watch(Vec<LockWatch>);

/// A lock that is no longer held, and why.
pub(super) struct Loss {
    pub(super) name: String,
    pub(super) reason: LostReason,
}

impl Watch {
    /// The names, for messages.
    pub(super) fn names(&self) -> String {
        let names: Vec<_> = self
            .0
            .iter()
            .map(|lock| format!("{:?}", lock.name()))
            .collect();
        names.join(", ")
    }

    /// Time for which all of it is good; zero once some of it is lost.
    pub(super) fn valid_for(&self) -> Duration {
        let times = self.0.iter().map(LockWatch::valid_for);
        times.min().unwrap_or_default()
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

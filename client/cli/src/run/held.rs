//! Guards that a command runs under: one lock, or several that were granted together.

use std::{slice, time::Duration};

use leasehold_client::{AcquireError, Client, HoldError, LockGuard, LockGuards, LockRequest};

use super::options::RunOptions;
use crate::command::Watch;

/// The guards.
pub(super) enum Held {
    One(LockGuard),
    Together(LockGuards),
}

impl Held {
    /// Acquires the locks that the options name; waits without a limit if there is no `wait`.
    pub(super) async fn acquire(
        client: &Client,
        options: &RunOptions,
        wait: Option<Duration>,
    ) -> Result<Self, AcquireError> {
        let [name] = options.names.as_slice() else {
            let mut request = client.lock_all(options.names.iter().map(String::as_str));
            if options.shared {
                request = request.shared();
            }
            return with_options(request, options, wait)
                .await
                .map(Self::Together);
        };
        if let Some(limit) = options.semaphore {
            let semaphore = client.semaphore(name.as_str(), limit);
            let permit = with_options(semaphore.permits(options.permits), options, wait).await?;
            return Ok(Self::One(permit.into_guard()));
        }
        let mut request = client.lock(name.as_str());
        if options.shared {
            request = request.shared();
        }
        with_options(request, options, wait).await.map(Self::One)
    }

    /// Returns the guards, at least one, in the order in which the locks were named.
    fn guards(&self) -> &[LockGuard] {
        match self {
            Self::One(guard) => slice::from_ref(guard),
            Self::Together(guards) => guards.guards(),
        }
    }

    pub(super) fn watch(&self) -> Watch {
        Watch::new(self.guards().iter().map(LockGuard::watch))
    }

    pub(super) async fn release(self) -> Result<(), HoldError> {
        match self {
            Self::One(guard) => guard.release().await,
            Self::Together(guards) => guards.release().await,
        }
    }
}

/// Applies the options that requests of every kind have.
fn with_options<G>(
    request: LockRequest<G>,
    options: &RunOptions,
    wait: Option<Duration>,
) -> LockRequest<G> {
    let request = request
        .value(options.value.as_str())
        .lock_delay(options.lease.lock_delay);
    match wait {
        Some(wait) => request.wait(wait),
        None => request,
    }
}

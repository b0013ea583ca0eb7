//! Guards that a command runs under: one lock, or several that were granted together.

use std::{slice, time::Duration};

use leasehold_client::{AcquireError, Client, HoldError, LockGuard, LockGuards};

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
        let value = options.value.as_str();
        let [name] = options.names.as_slice() else {
            let mut request = client
                .lock_all(options.names.iter().map(String::as_str))
                .value(value)
                .lock_delay(options.lock_delay);
            if options.shared {
                request = request.shared();
            }
            if let Some(wait) = wait {
                request = request.wait(wait);
            }
            return request.acquire().await.map(Self::Together);
        };
        if let Some(limit) = options.semaphore {
            let mut semaphore = client
                .semaphore(name.as_str(), limit)
                .value(value)
                .lock_delay(options.lock_delay);
            if let Some(wait) = wait {
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
        if let Some(wait) = wait {
            request = request.wait(wait);
        }
        request.acquire().await.map(Self::One)
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

//! Locks that a command runs under: one, or several that were granted together.

use std::{pin::Pin, time::Duration};

use leasehold_client::{AcquireError, Client, HoldError, LockGuard, LockRequest};

use super::options::RunOptions;
use crate::command::Watch;

/// Locks while they are held.
pub(super) struct Held {
    pub(super) watch: Watch,
    /// Releases them, also if it is dropped.
    pub(super) release: Pin<Box<dyn Future<Output = Result<(), HoldError>>>>,
}

/// Acquires the locks that the options name; waits without a limit if there is no `wait`.
pub(super) async fn acquire(
    client: &Client,
    options: &RunOptions,
    wait: Option<Duration>,
) -> Result<Held, AcquireError> {
    let ([name], []) = (options.names.as_slice(), options.with_shared.as_slice()) else {
        let request = client.lock_all(options.locks());
        let guards = with_options(request, options, wait).await?;
        return Ok(Held {
            watch: Watch::new(guards.iter().map(LockGuard::watch)),
            release: Box::pin(guards.release()),
        });
    };
    let guard = if let Some(limit) = options.semaphore {
        let semaphore = client
            .semaphore(name.as_str(), limit)
            .limit_revision(options.limit_revision);
        let request = match options.permits_at_least {
            Some(least) => semaphore.permits_between(least..=options.permits),
            None => semaphore.permits(options.permits),
        };
        with_options(request, options, wait).await?.into_guard()
    } else {
        let mut request = client.lock(name.as_str());
        if options.shared {
            request = request.shared();
        }
        with_options(request, options, wait).await?
    };
    Ok(Held {
        watch: Watch::new([guard.watch()]),
        release: Box::pin(guard.release()),
    })
}

/// Applies the options that requests of every kind have.
fn with_options<G>(
    request: LockRequest<G>,
    options: &RunOptions,
    wait: Option<Duration>,
) -> LockRequest<G> {
    let request = request
        .value(options.value.as_str())
        .lock_delay(options.lease.lock_delay)
        // What the coordinator can't serve is said, and asked for again.
        .without_retries();
    let request = match options.max_hold {
        Some(max_hold) => request.max_hold(max_hold),
        None => request,
    };
    match wait {
        Some(wait) => request.wait(wait),
        None => request,
    }
}

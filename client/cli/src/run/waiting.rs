//! Wait for a lock, bounded as a whole from the first attempt to connect on.

use std::{pin::pin, time::Duration};

use anyhow::Context;
use leasehold_client::{AcquireError, Client, ConnectError, Failure};
use tokio::time::{Instant, sleep, timeout};

use super::{
    held::{self, Held},
    options::RunOptions,
    progress::Progress,
};
use crate::{command, connection::Connection, exit, outage::Outage, show::text};

/// Pauses between attempts: from the first to the second, doubling.
const PAUSES: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(2));

/// Extra time after the wait in which a coordinator may still answer.
const ANSWER: Duration = Duration::from_secs(1);

/// Time in which to get a lock.
pub(super) struct Wait {
    /// `None`: no limit.
    limit: Option<Duration>,
    begun: Instant,
    /// Pause before the next attempt.
    pause: Duration,
}

impl Wait {
    /// Begins it.
    pub(super) fn begin(limit: Option<Duration>) -> Self {
        Self {
            limit,
            begun: Instant::now(),
            pause: PAUSES.0,
        }
    }

    /// Returns the time left; `None` without a limit.
    fn left(&self) -> Option<Duration> {
        Some(self.limit?.saturating_sub(self.begun.elapsed()))
    }

    /// Pauses before another attempt, as long as the coordinator asked for. Returns false if no time is left for one.
    async fn pause(&mut self, failure: Option<&Failure>) -> bool {
        let asked = failure.and_then(Failure::retry_after).unwrap_or_default();
        let pause = self.pause.max(asked);
        self.pause = (self.pause * 2).min(PAUSES.1);
        match self.left() {
            Some(left) if left <= pause => {
                sleep(left).await;
                false
            }
            _ => {
                sleep(pause).await;
                true
            }
        }
    }

    /// Adds to the error that the wait is over.
    fn is_over<T>(&self, result: anyhow::Result<T>) -> anyhow::Result<T> {
        match self.limit {
            Some(limit) if !limit.is_zero() => {
                result.with_context(|| format!("gave up after {}", text::short(limit)))
            }
            _ => result,
        }
    }
}

/// Connects. Goes on trying only if there is a wait: without one, a coordinator must be reachable at the start.
pub(super) async fn connect(
    connection: &Connection,
    options: &RunOptions,
    wait: &mut Wait,
) -> anyhow::Result<Client> {
    let mut outage = Outage::new(options.quiet);
    let mut last = None;
    loop {
        let attempt = command::connect(connection, &options.lease);
        let limit = wait.limit.filter(|limit| !limit.is_zero());
        let attempt = match wait.left().filter(|_| limit.is_some()) {
            None => attempt.await,
            Some(left) => match timeout(left, attempt).await {
                Ok(attempt) => attempt,
                Err(_) => {
                    let error = last.unwrap_or_else(|| ConnectError::TimedOut {
                        endpoint: connection.endpoints().to_string(),
                        after: limit.unwrap_or_default(),
                    });
                    return wait.is_over(Err(error.into()));
                }
            },
        };
        let error = match attempt {
            Ok(client) => {
                outage.is_over();
                return Ok(client);
            }
            Err(error) => error,
        };
        if limit.is_none() || !error.is_retryable() {
            return Err(error.into());
        }
        outage.goes_on(&error.to_string());
        if !wait.pause(error.failure()).await {
            return wait.is_over(Err(error.into()));
        }
        last = Some(error);
    }
}

/// Waits for the lock. If a coordinator cannot serve now, asks again until the wait is over.
pub(super) async fn acquire(
    client: &Client,
    options: &RunOptions,
    wait: &mut Wait,
) -> anyhow::Result<Held> {
    let mut progress = Progress::begin(client, options, wait.begun.into_std());
    loop {
        let left = wait.left();
        let mut acquiring = pin!(held::acquire(client, options, left));
        let limit = left.filter(|left| !left.is_zero());
        let mut overdue = pin!(async {
            match limit {
                Some(limit) => sleep(limit + ANSWER).await,
                None => std::future::pending().await,
            }
        });
        let acquired = loop {
            tokio::select! {
                biased;
                acquired = &mut acquiring => break acquired,
                () = &mut overdue => {
                    progress.end();
                    let silent = ConnectError::TimedOut {
                        endpoint: client.endpoint().to_owned(),
                        after: wait.limit.unwrap_or_default(),
                    };
                    return Err(silent.into());
                }
                () = progress.tick() => {}
            }
        };
        let error = match acquired {
            Ok(held) => {
                progress.granted();
                return Ok(held);
            }
            Err(error) => told_whole(error, wait),
        };
        if !may_pass(&error) || wait.limit.is_some_and(|limit| limit.is_zero()) {
            progress.end();
            return Err(error.into());
        }
        progress.refused(&in_short(&error));
        if !wait.pause(error.failure()).await {
            progress.end();
            return wait.is_over(Err(error.into()));
        }
    }
}

/// Returns whether asking again makes sense: not after an outcome, such as a lock that did not come free in time.
fn may_pass(error: &AcquireError) -> bool {
    !exit::is_outcome(error) && error.is_retryable()
}

/// Returns the error with the whole wait, in place of the rest that was left after connecting.
fn told_whole(error: AcquireError, whole: &Wait) -> AcquireError {
    match (error, whole.limit) {
        (AcquireError::TimedOut { name, holder, .. }, Some(wait)) => {
            AcquireError::TimedOut { name, wait, holder }
        }
        (error, _) => error,
    }
}

/// Returns the reason of the refusal, in one line.
fn in_short(error: &AcquireError) -> String {
    match error.failure() {
        Some(failure) => failure.to_string(),
        None => error.to_string(),
    }
}

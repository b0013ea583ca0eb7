//! Work of one client: acquire, hold, release, again and again.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use leasehold_client::{AcquireError, Failure, HoldError, LockGuard, LostReason, Session};
use leasehold_load::{Exclusion, Grant, Violation};
use tokio::time::sleep;

use super::tally::{Cycle, Tally};
use crate::show::text;

/// Pause after a failed request.
const PAUSE: Duration = Duration::from_millis(100);

/// Worker for one of a client's concurrent acquires.
pub(super) struct Worker {
    pub(super) client: usize,
    pub(super) session: Session,
    pub(super) name: Arc<Exclusion>,
    pub(super) hold: Duration,
    pub(super) tally: Arc<Tally>,
}

/// Reason why a worker ended by itself. Otherwise it works until its future is dropped, which releases its lock.
#[derive(Debug)]
pub(super) enum Stop {
    Violation(Violation),
    /// A request that can never succeed.
    Refused(AcquireError),
}

impl Worker {
    pub(super) async fn work(self) -> Stop {
        loop {
            if let Err(stop) = self.cycle().await {
                return stop;
            }
        }
    }

    async fn cycle(&self) -> Result<(), Stop> {
        let asked = Instant::now();
        let request = self.session.lock(Arc::clone(self.name.name()));
        let wait = Wait::begin(self, asked);
        let acquired = request.await;
        let granted = Instant::now();
        wait.end();
        let guard = match acquired {
            Ok(guard) => guard,
            Err(error) if error.is_retryable() => {
                self.tally.error(kind(&error), &in_words(&error));
                sleep(PAUSE).await;
                return Ok(());
            }
            Err(error) => return Err(Stop::Refused(error)),
        };
        let (token, watch) = (Some(guard.fencing_token().get()), guard.watch());
        let grant = self.name.granted(token, move || watch.is_held(), granted);
        match grant.map_err(Stop::Violation)? {
            Grant::LostAlready => self.lost(guard.lost().await),
            Grant::Held { hand_off } => {
                if let Some((releasing, released)) = self.hold_and_release(guard).await {
                    let cycle = Cycle {
                        asked,
                        granted,
                        hand_off,
                        releasing,
                        released,
                    };
                    self.tally.cycle(self.client, &cycle);
                }
            }
        }
        Ok(())
    }

    /// Returns the times at which the release began and was confirmed; `None` if it was not.
    async fn hold_and_release(&self, guard: LockGuard) -> Option<(Instant, Instant)> {
        if !self.hold.is_zero() {
            tokio::select! {
                biased;
                reason = guard.lost() => {
                    self.lost(reason);
                    return None;
                }
                () = sleep(self.hold) => {}
            }
        }
        let releasing = Instant::now();
        let token = guard.fencing_token().get();
        self.name.released(Some(token), releasing);
        match guard.release().await {
            Ok(()) => return Some((releasing, Instant::now())),
            Err(HoldError::Lost { reason, .. }) => self.lost(reason),
            Err(error) => {
                let kind = match &error {
                    HoldError::Refused { source, .. } => reason(source),
                    _ => "release_unconfirmed",
                };
                self.tally.error(kind, &in_words(&error));
                sleep(PAUSE).await;
            }
        }
        None
    }

    fn lost(&self, reason: LostReason) {
        let kind = text::loss(reason).unwrap_or("unknown");
        self.tally.lost(kind, &reason.to_string());
    }
}

/// Acquire in flight; counted as unfinished if it is dropped.
struct Wait<'a> {
    worker: &'a Worker,
    asked: Instant,
    ended: bool,
}

impl<'a> Wait<'a> {
    fn begin(worker: &'a Worker, asked: Instant) -> Self {
        worker.name.asked();
        Self {
            worker,
            asked,
            ended: false,
        }
    }

    fn end(mut self) {
        self.ended = true;
    }
}

impl Drop for Wait<'_> {
    fn drop(&mut self) {
        self.worker.name.answered();
        if !self.ended {
            self.worker.tally.unfinished(self.asked);
        }
    }
}

fn kind(error: &AcquireError) -> &str {
    match error {
        AcquireError::Refused { source, .. }
        | AcquireError::Unauthenticated { source, .. }
        | AcquireError::PermissionDenied { source, .. }
        | AcquireError::LimitReached { source, .. } => reason(source),
        AcquireError::Unavailable { .. } => "no_connection",
        _ => "not_granted",
    }
}

/// Returns the documented reason; an answer of a proxy has none.
fn reason(failure: &Failure) -> &str {
    match failure.reason() {
        "" => failure.kind().as_str(),
        reason => reason,
    }
}

/// Returns an error with its cause.
fn in_words(error: &dyn std::error::Error) -> String {
    match error.source() {
        Some(source) => format!("{error}: {source}"),
        None => error.to_string(),
    }
}

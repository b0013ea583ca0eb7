//! Releases that nobody waits for: of holds whose client is gone, and of acquires that were cancelled or whose reply was
//! lost. They are detached from the request that left them behind, and tried until the store has surely let them expire.

use std::time::Duration;

use leasehold_core::{
    command::{End, Op, Reply},
    id::OwnerId,
    name::LockName,
    time::Moment,
};
use leasehold_store::{LockStore, Status, clock};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tracing::warn;

use super::Coordinator;
use crate::telemetry::Tracked;

/// Most releases that are sent in one batch.
const BATCH: usize = 256;
/// How long to wait before trying again while the store answers with errors.
const RETRY: Duration = Duration::from_millis(100);

/// A release that nobody waits for.
#[derive(Debug)]
pub struct Leftover {
    /// The lock.
    pub name: LockName,
    /// The hold or waiter.
    pub owner: OwnerId,
    /// Whether its client is known to have given it up.
    pub end: End,
    /// Until when an acquire of this owner id may still reach the store: a release before that may come too early.
    pub may_arrive_until: Option<Moment>,
    /// When the store has surely let it expire.
    pub gone_at: Moment,
    /// Counts it in the metrics while it is there.
    pub tracked: Tracked,
}

/// Takes leftovers in and sees to them until it is stopped.
pub async fn run(
    coordinator: Coordinator,
    mut leftovers: mpsc::UnboundedReceiver<Leftover>,
    stop: CancellationToken,
) {
    let mut batch = Vec::with_capacity(BATCH);
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            _ = leftovers.recv_many(&mut batch, BATCH) => {}
        }
        let batch = std::mem::replace(&mut batch, Vec::with_capacity(BATCH));
        // A task for each batch: one that the store does not answer holds up no other.
        let stop = stop.clone();
        let coordinator = coordinator.clone();
        tokio::spawn(async move { stop.run_until_cancelled(clean(coordinator, batch)).await });
    }
}

async fn clean(coordinator: Coordinator, mut batch: Vec<Leftover>) {
    let mut status = coordinator.store().status();
    while !batch.is_empty() {
        batch = release(&coordinator, batch).await;
        if batch.is_empty() {
            return;
        }
        tokio::time::sleep(RETRY).await;
        let patience = batch
            .iter()
            .map(|leftover| clock::now().until(leftover.gone_at))
            .max()
            .unwrap_or_default();
        let up = status.wait_for(|status| matches!(status, Status::Up { .. }));
        if !matches!(tokio::time::timeout(patience, up).await, Ok(Ok(_))) {
            return forget(&coordinator, batch);
        }
    }
}

/// Releases what it can and gives back what has to be tried again.
async fn release(coordinator: &Coordinator, batch: Vec<Leftover>) -> Vec<Leftover> {
    let commands = batch
        .iter()
        .map(|leftover| {
            let op = Op::Release {
                owner: leftover.owner,
                end: leftover.end,
            };
            coordinator.command(leftover.name.clone(), op)
        })
        .collect();
    let results = coordinator.store().execute_all(commands).await;
    let mut again = Vec::new();
    for (leftover, result) in batch.into_iter().zip(results) {
        let now = clock::now();
        match result {
            Ok(stamped) => {
                let found = matches!(
                    stamped.executed.reply,
                    Reply::Released { held: true, .. } | Reply::Released { waited: true, .. }
                );
                if let Reply::Released {
                    closed_for: Some(closed_for),
                    ..
                } = stamped.executed.reply
                {
                    coordinator.contention().recheck(&leftover.name, closed_for);
                }
                if !found
                    && leftover
                        .may_arrive_until
                        .is_some_and(|until| stamped.sent_at < until)
                {
                    again.push(leftover);
                } else {
                    coordinator.registry().forget(&leftover.owner);
                }
            }
            Err(error) if now < leftover.gone_at => {
                coordinator.metrics().store_errors.inc();
                if !error.is_retryable() {
                    warn!(lock = %leftover.name, %error, "a release in the background failed and will be tried again");
                }
                again.push(leftover);
            }
            Err(_) => forget(coordinator, vec![leftover]),
        }
    }
    again
}

/// Gives up on leftovers that the store has let expire by now.
fn forget(coordinator: &Coordinator, batch: Vec<Leftover>) {
    for leftover in batch {
        coordinator.registry().forget(&leftover.owner);
    }
}

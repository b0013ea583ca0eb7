//! Clean-up: releases that nobody waits for, of holds whose client is gone, and of acquires that were cancelled or whose reply was
//! lost. They are detached from the request that left them behind, and tried until the store has surely let them expire.

use std::{sync::Arc, time::Duration};

use leasehold_core::{
    command::{Op, Reply},
    session::PendingCleanup,
};
use leasehold_store::{LockStore, Status, StoreError, clock};
use tokio::sync::{Semaphore, mpsc};
use tokio_util::sync::CancellationToken;
use tracing::warn;

use super::Coordinator;
use crate::telemetry::Tracked;

/// Most releases that are sent in one batch.
const BATCH: usize = 256;
/// Most batches under way at a time, so that the death of a client with very many locks leaves room for others.
const AT_ONCE: usize = 8;
/// Time to wait before trying again while the store answers with errors.
const RETRY: Duration = Duration::from_millis(100);

/// The same while the store is down: one of its connections may be up all the same.
const DOWN_RETRY: Duration = Duration::from_secs(1);

/// A release that nobody waits for, counted in the metrics while there is one.
pub type Tracking = (PendingCleanup, Tracked);

/// Carries them out until it is stopped.
pub async fn run(
    coordinator: Coordinator,
    mut pending: mpsc::UnboundedReceiver<Tracking>,
    stop: CancellationToken,
) {
    let mut batch = Vec::with_capacity(BATCH);
    let places = Arc::new(Semaphore::new(AT_ONCE));
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            _ = pending.recv_many(&mut batch, BATCH) => {}
        }
        let batch = std::mem::replace(&mut batch, Vec::with_capacity(BATCH));
        // A task for each batch: one that the store does not answer holds up no other.
        let stop = stop.clone();
        let coordinator = coordinator.clone();
        let places = Arc::clone(&places);
        tokio::spawn(async move {
            stop.run_until_cancelled(clean(coordinator, batch, &places))
                .await
        });
    }
}

async fn clean(coordinator: Coordinator, mut batch: Vec<Tracking>, places: &Semaphore) {
    let mut status = coordinator.store().status();
    while !batch.is_empty() {
        // Never closed.
        let place = places.acquire().await;
        batch = release(&coordinator, batch).await;
        drop(place);
        if batch.is_empty() {
            return;
        }
        tokio::time::sleep(RETRY).await;
        // While the store is down, there is no use in asking more often than this.
        let up = status.wait_for(|status| matches!(status, Status::Up { .. }));
        let _ = tokio::time::timeout(DOWN_RETRY, up).await;
    }
}

/// Releases what it can and gives back what has to be tried again.
async fn release(coordinator: &Coordinator, batch: Vec<Tracking>) -> Vec<Tracking> {
    let commands = batch
        .iter()
        .map(|(cleanup, _)| {
            let op = Op::Release {
                owner: cleanup.owner,
                end: cleanup.end,
            };
            coordinator.command(cleanup.name.clone(), op)
        })
        .collect();
    let results = coordinator.store().execute_all(commands).await;
    let mut again = Vec::new();
    for ((cleanup, tracked), result) in batch.into_iter().zip(results) {
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
                    coordinator.contention().recheck(&cleanup.name, closed_for);
                }
                if !found
                    && cleanup
                        .may_arrive_until
                        .is_some_and(|until| stamped.sent_at < until)
                {
                    again.push((cleanup, tracked));
                } else {
                    coordinator.registry().forget(&cleanup.owner);
                }
            }
            // The key is not even a lock's: nothing of ours is there.
            Err(StoreError::WrongType { .. }) => coordinator.registry().forget(&cleanup.owner),
            Err(error) if now < cleanup.gone_at => {
                coordinator.metrics().store_errors.inc();
                if !error.is_retryable() {
                    warn!(lock = %cleanup.name, %error, "a release in the background failed and will be tried again");
                }
                again.push((cleanup, tracked));
            }
            // By now the store has let it expire.
            Err(_) => coordinator.registry().forget(&cleanup.owner),
        }
    }
    again
}

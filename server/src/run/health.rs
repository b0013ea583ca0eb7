//! What is told of whether this coordinator serves.

use leasehold_store::{LockStore, Status as StoreStatus, Store};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tonic_health::{ServingStatus, server::HealthReporter};

use crate::admin_http::Readiness;

/// The services that follow the store's health, and all of them together.
const SERVED: [&str; 4] = [
    "",
    "leasehold.v1.AdminService",
    "leasehold.v1.ElectionService",
    "leasehold.v1.LockService",
];
/// Why a coordinator that goes away is not ready.
const DRAINING: &str = "draining";

/// Waits until whoever asks is told that this coordinator goes away: before its sessions are, so that none of their clients
/// is sent back here.
pub(super) async fn said_to_be_leaving(mut ready: watch::Receiver<Readiness>) {
    // Whoever says so ends with the process, and then there is nothing to wait for.
    let _ = ready.wait_for(|state| state.reason == DRAINING).await;
}

/// Keeps gRPC health and readiness in step with the store, and with draining.
pub(super) async fn follow_health(
    store: Store,
    reporter: HealthReporter,
    readiness: watch::Sender<Readiness>,
    leaving: CancellationToken,
    background: CancellationToken,
) {
    let mut status = store.status();
    loop {
        let current = status.borrow_and_update().clone();
        let state = match (&current, leaving.is_cancelled()) {
            (_, true) => Readiness::not_ready(DRAINING),
            (StoreStatus::Up { .. }, false) => Readiness::ready(),
            (StoreStatus::Down { reason, .. }, false) => Readiness::not_ready(reason.to_string()),
        };
        let serving = if state.ready {
            ServingStatus::Serving
        } else {
            ServingStatus::NotServing
        };
        for service in SERVED {
            reporter.set_service_status(service, serving).await;
        }
        readiness.send_replace(state);
        tokio::select! {
            () = background.cancelled() => return,
            () = leaving.cancelled(), if !leaving.is_cancelled() => {}
            Ok(()) = status.changed() => {}
        }
    }
}

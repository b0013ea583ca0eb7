//! State of the coordinator as a whole, for `GetStatus`. Answers from memory, so that it works while the store is away.

use leasehold_core::time::Moment;
use leasehold_proto::v1::{GetStatusResponse, StoreState};
use leasehold_store::{Status as StoreStatus, clock};
use tokio::sync::watch;

use crate::{admin_http::Readiness, convert, coordinator::Coordinator, sessions::Load};

/// The coordinator as a whole, as `GetStatus` shows it.
#[derive(Clone, Debug)]
pub struct Overview {
    /// Time of its start.
    pub started: Moment,
    /// Whether it serves.
    pub ready: watch::Receiver<Readiness>,
    /// The URL of its store, passwords redacted.
    pub store: String,
}

impl Overview {
    /// Returns the status. `load` is that of the sessions; `None` for callers that may see neither it, nor the store, nor why
    /// the coordinator does not serve.
    pub(super) fn status(
        &self,
        coordinator: &Coordinator,
        load: Option<Load>,
    ) -> GetStatusResponse {
        let ready = self.ready.borrow().clone();
        let shown = GetStatusResponse {
            coordinator: coordinator.id().to_string(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            uptime: Some(convert::wire_duration(self.started.until(clock::now()))),
            serving: ready.ready,
            ..GetStatusResponse::default()
        };
        let Some(load) = load else {
            return shown;
        };
        let store_state = match *coordinator.store().status().borrow() {
            StoreStatus::Up { .. } => StoreState::Up,
            StoreStatus::Down { .. } => StoreState::Down,
        };
        GetStatusResponse {
            reason: if ready.ready {
                String::new()
            } else {
                ready.reason
            },
            store: self.store.clone(),
            store_state: store_state.into(),
            session_count: Some(load.sessions),
            hold_count: Some(load.holds),
            waiter_count: Some(load.waiters),
            ..shown
        }
    }
}

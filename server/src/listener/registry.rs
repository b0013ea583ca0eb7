//! The registry of live connections.

use std::{
    collections::HashMap,
    net::SocketAddr,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use tokio::{net::TcpStream, sync::Notify};

use super::ConnectionHandle;

/// The live connections of a listener. Clones share one registry.
#[derive(Clone, Debug, Default)]
pub struct Connections {
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    live: Mutex<HashMap<u64, ConnectionHandle>>,
    totals: ConnectionTotals,
    emptied: Notify,
}

/// What has happened to connections since the start; each only rises.
#[derive(Debug, Default)]
pub struct ConnectionTotals {
    /// Connections that were accepted and served.
    pub accepted: AtomicU64,
    /// Connections that were closed at once, because the limit was reached.
    pub refused: AtomicU64,
    /// Connections that were closed because their handshake did not arrive in time.
    pub handshake_timeouts: AtomicU64,
    /// Connections that were closed because nothing more was heard from their peer.
    pub silent: AtomicU64,
}

impl Connections {
    /// An empty registry.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The number of connections now alive.
    #[must_use]
    pub fn len(&self) -> usize {
        self.live().len()
    }

    /// Whether no connection is alive.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.live().is_empty()
    }

    /// Counters for the metrics.
    #[must_use]
    pub fn totals(&self) -> &ConnectionTotals {
        &self.shared.totals
    }

    /// Kills every connection that is alive now, without sending what is still buffered. Those accepted later are not
    /// affected: stop accepting first.
    pub fn kill_all(&self) {
        // Collected first: a kill wakes tasks that come back here to leave the registry.
        let live: Vec<ConnectionHandle> = self.live().values().cloned().collect();
        for connection in live {
            connection.kill();
        }
    }

    /// Waits until no connection is alive.
    pub async fn drained(&self) {
        loop {
            let emptied = self.shared.emptied.notified();
            tokio::pin!(emptied);
            // Registered before looking, so that an end in between is not missed.
            emptied.as_mut().enable();
            if self.is_empty() {
                return;
            }
            emptied.await;
        }
    }

    pub(super) fn admit(&self, socket: &Arc<TcpStream>, peer: SocketAddr) -> ConnectionHandle {
        let id = self.shared.totals.accepted.fetch_add(1, Ordering::Relaxed) + 1;
        let handle = ConnectionHandle::new(id, peer, socket);
        self.live().insert(id, handle.clone());
        handle
    }

    pub(super) fn remove(&self, id: u64) {
        let mut live = self.live();
        live.remove(&id);
        if live.is_empty() {
            self.shared.emptied.notify_waiters();
        }
    }

    fn live(&self) -> MutexGuard<'_, HashMap<u64, ConnectionHandle>> {
        // Nothing under this lock can panic half-way, so a poisoned map is still a good map.
        self.shared
            .live
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

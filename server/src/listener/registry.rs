//! The registry of live connections.

use std::{
    collections::HashMap,
    net::SocketAddr,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use tokio::{net::TcpStream, sync::Notify};

use super::ConnectionHandle;

/// How often operators are told that TLS handshakes fail, at most.
const TELL_EVERY: Duration = Duration::from_secs(60);

/// The live connections of a listener. Clones share one registry.
#[derive(Clone, Debug, Default)]
pub struct Connections {
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    live: Mutex<HashMap<u64, ConnectionHandle>>,
    totals: ConnectionTotals,
    /// When somebody was told last of a TLS handshake that failed.
    tls_told: Mutex<Option<Instant>>,
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
    /// Connections that were closed because their TLS handshake failed: no TLS at all, an old version, a certificate that one
    /// side refused.
    pub tls_failures: AtomicU64,
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

    /// Counts a TLS handshake that failed for a reason of TLS.
    pub(super) fn count_tls_failure(&self, peer: SocketAddr, reason: &str) {
        tracing::debug!(%peer, reason, "a TLS handshake failed");
        let shared = &self.shared;
        let failures = shared.totals.tls_failures.fetch_add(1, Ordering::Relaxed) + 1;
        // A flood must not become a flood of log lines. Operators are told now and then, of the latest one.
        let mut told = shared
            .tls_told
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if told.is_none_or(|told| told.elapsed() >= TELL_EVERY) {
            *told = Some(Instant::now());
            tracing::warn!(%peer, reason, failures, "a TLS handshake failed");
        }
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

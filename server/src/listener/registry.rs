//! Registry of live connections.

use std::{
    collections::HashMap,
    net::{IpAddr, SocketAddr},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use parking_lot::Mutex;
use prometheus_client::metrics::counter::Counter;
use tokio::{net::TcpStream, sync::Notify};

use super::ConnectionHandle;
use crate::network;

/// Shortest interval between warnings of failed TLS handshakes.
const TELL_EVERY: Duration = Duration::from_secs(60);

/// The live connections of a listener. Clones share one registry.
#[derive(Clone, Debug, Default)]
pub struct Connections {
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    live: Mutex<Live>,
    max: AtomicUsize,
    /// 0 is unlimited.
    max_per_address: AtomicUsize,
    totals: ConnectionTotals,
    /// Time of the last warning of a failed TLS handshake.
    tls_told: Mutex<Option<Instant>>,
    emptied: Notify,
}

#[derive(Debug, Default)]
struct Live {
    connections: HashMap<u64, ConnectionHandle>,
    /// Numbers of connections, by address or IPv6 network.
    by_address: HashMap<IpAddr, usize>,
}

/// Limit that leaves no room for a connection.
#[derive(Clone, Copy, Debug)]
pub(super) struct Full {
    /// The setting of the limit.
    pub(super) setting: &'static str,
    /// The limit.
    pub(super) limit: usize,
}

/// Counters of connections since the start.
#[derive(Debug, Default)]
pub struct ConnectionTotals {
    /// Connections that were accepted and served.
    pub accepted: Counter,
    /// Connections that were closed at once, because the limit was reached.
    pub refused: Counter,
    /// Connections that were closed because their handshake did not arrive in time.
    pub handshake_timeouts: Counter,
    /// Connections that were closed because their TLS handshake failed: no TLS at all, an old version, a certificate that one
    /// side refused.
    pub tls_failures: Counter,
    /// Connections that were closed because their peer fell silent.
    pub silent: Counter,
}

impl Connections {
    /// Returns an empty registry.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the number of live connections.
    #[must_use]
    pub fn len(&self) -> usize {
        self.shared.live.lock().connections.len()
    }

    /// Returns whether no connection is alive.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.shared.live.lock().connections.is_empty()
    }

    /// Sets the limits of live connections: of all, and of one address, where 0 is unlimited. Existing connections stay.
    pub fn bound(&self, max: usize, max_per_address: usize) {
        self.shared.max.store(max, Ordering::Relaxed);
        self.shared
            .max_per_address
            .store(max_per_address, Ordering::Relaxed);
    }

    /// Returns the bounds that [`bound`](Self::bound) has set.
    #[cfg(test)]
    pub(crate) fn bounds(&self) -> (usize, usize) {
        let Shared {
            max,
            max_per_address,
            ..
        } = &*self.shared;
        let load = |bound: &AtomicUsize| bound.load(Ordering::Relaxed);
        (load(max), load(max_per_address))
    }

    /// Returns the counters for the metrics.
    #[must_use]
    pub fn totals(&self) -> &ConnectionTotals {
        &self.shared.totals
    }

    /// Kills every live connection, without sending buffered data. Connections accepted later are not affected: stop
    /// accepting first.
    pub fn kill_all(&self) {
        // Collected first: a kill wakes tasks that come back here to leave the registry.
        let live: Vec<ConnectionHandle> = self
            .shared
            .live
            .lock()
            .connections
            .values()
            .cloned()
            .collect();
        for connection in live {
            connection.kill();
        }
    }

    /// Waits until no connection is alive.
    pub async fn drained(&self) {
        loop {
            let emptied = self.shared.emptied.notified();
            tokio::pin!(emptied);
            // Registers before it looks, so that it misses no end in between.
            emptied.as_mut().enable();
            if self.is_empty() {
                return;
            }
            emptied.await;
        }
    }

    /// Checks that there is room for one more connection from this address.
    pub(super) fn has_room(&self, address: IpAddr) -> Result<(), Full> {
        let max = self.shared.max.load(Ordering::Relaxed);
        let max_per_address = self.shared.max_per_address.load(Ordering::Relaxed);
        let live = self.shared.live.lock();
        if live.connections.len() >= max {
            return Err(Full {
                setting: "max-connections",
                limit: max,
            });
        }
        let here = live.by_address.get(&network::of(address));
        if max_per_address > 0 && here.is_some_and(|here| *here >= max_per_address) {
            return Err(Full {
                setting: "max-connections-per-address",
                limit: max_per_address,
            });
        }
        Ok(())
    }

    pub(super) fn admit(&self, socket: &Arc<TcpStream>, peer: SocketAddr) -> ConnectionHandle {
        let id = self.shared.totals.accepted.inc() + 1;
        let handle = ConnectionHandle::new(id, peer, socket);
        let mut live = self.shared.live.lock();
        live.connections.insert(id, handle.clone());
        *live.by_address.entry(network::of(peer.ip())).or_default() += 1;
        drop(live);
        handle
    }

    /// Counts a TLS handshake that failed for a reason of TLS.
    pub(super) fn count_tls_failure(&self, peer: SocketAddr, reason: &str) {
        tracing::debug!(%peer, reason, "a TLS handshake failed");
        let shared = &self.shared;
        let failures = shared.totals.tls_failures.inc() + 1;
        // Warns now and then, of the latest failure, so that a flood of failures is no flood of log lines.
        let mut told = shared.tls_told.lock();
        if told.is_none_or(|told| told.elapsed() >= TELL_EVERY) {
            *told = Some(Instant::now());
            tracing::warn!(%peer, reason, failures, "a TLS handshake failed");
        }
    }

    pub(super) fn remove(&self, id: u64) {
        let mut live = self.shared.live.lock();
        if let Some(handle) = live.connections.remove(&id) {
            let address = network::of(handle.peer_addr().ip());
            if let Some(here) = live.by_address.get_mut(&address) {
                *here -= 1;
                if *here == 0 {
                    live.by_address.remove(&address);
                }
            }
        }
        if live.connections.is_empty() {
            self.shared.emptied.notify_waiters();
        }
    }
}

#[cfg(test)]
mod tests;

//! Collector of the listener's numbers.

use std::{fmt, sync::atomic::Ordering};

use prometheus_client::{collector::Collector, encoding::DescriptorEncoder};

use super::shown::{Named, counters, gauges};
use crate::listener::Connections;

/// Collects the listener's numbers at each scrape.
#[derive(Debug)]
pub(super) struct ConnectionCollector(pub(super) Connections);

impl Collector for ConnectionCollector {
    fn encode(&self, mut encoder: DescriptorEncoder) -> fmt::Result {
        let live = i64::try_from(self.0.len()).unwrap_or(i64::MAX);
        let named = Named {
            name: "connections",
            help: "Connections that are open.",
        };
        gauges(&mut encoder, named, [([], live)])?;
        let totals = self.0.totals();
        for (name, help, value) in [
            (
                "connections_accepted",
                "Connections accepted.",
                &totals.accepted,
            ),
            (
                "connections_refused",
                "Connections closed at once because max-connections or max-connections-per-address was reached.",
                &totals.refused,
            ),
            (
                "connections_handshake_timeouts",
                "Connections closed because their handshake did not arrive in time.",
                &totals.handshake_timeouts,
            ),
            (
                "connections_tls_failures",
                "Connections closed because their TLS handshake failed.",
                &totals.tls_failures,
            ),
            (
                "connections_silent",
                "Connections closed because nothing more was heard from their peer.",
                &totals.silent,
            ),
        ] {
            let value = value.load(Ordering::Relaxed);
            counters(&mut encoder, Named { name, help }, [([], value)])?;
        }
        Ok(())
    }
}

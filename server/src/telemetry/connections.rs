//! The listener's numbers as metrics.

use std::{fmt, sync::atomic::Ordering};

use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeMetric},
    metrics::{counter::ConstCounter, gauge::ConstGauge},
};

use crate::listener::Connections;

/// Reads the listener's numbers at each scrape.
#[derive(Debug)]
pub(super) struct ConnectionCollector(pub(super) Connections);

impl Collector for ConnectionCollector {
    fn encode(&self, mut encoder: DescriptorEncoder) -> fmt::Result {
        let live = ConstGauge::new(i64::try_from(self.0.len()).unwrap_or(i64::MAX));
        let descriptor = encoder.encode_descriptor(
            "connections",
            "Connections that are open.",
            None,
            live.metric_type(),
        )?;
        live.encode(descriptor)?;
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
            let counter = ConstCounter::new(value.load(Ordering::Relaxed));
            let descriptor = encoder.encode_descriptor(name, help, None, counter.metric_type())?;
            counter.encode(descriptor)?;
        }
        Ok(())
    }
}

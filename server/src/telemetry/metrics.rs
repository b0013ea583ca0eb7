//! Handle on all metrics, for counting and for encoding.

use std::{ops::Deref, sync::Arc};

use super::{families::Families, text};
use crate::listener::Connections;

/// The coordinator's metrics. Clones share one set of values.
///
/// ```
/// use leasehold_server::telemetry::Metrics;
///
/// let metrics = Metrics::default();
/// let session = metrics.sessions.track();
/// metrics.grants.inc();
/// assert_eq!(metrics.sessions.value(), 1);
/// drop(session);
/// assert_eq!(metrics.sessions.value(), 0);
/// assert!(metrics.encode().contains("leasehold_grants_total 1"));
/// ```
#[derive(Clone, Debug)]
pub struct Metrics(Arc<Families>);

impl Metrics {
    /// Creates all metrics at zero, with the numbers of `connections`. Measures durations, sizes and calls by method only if
    /// `is_measured`.
    #[must_use]
    pub fn new(connections: Connections, is_measured: bool) -> Self {
        Self(Arc::new(Families::new(connections, is_measured)))
    }

    /// Returns everything in the older text format of Prometheus.
    #[must_use]
    pub fn encode_for_prometheus(&self) -> String {
        text::prometheus(&self.encode())
    }
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new(Connections::new(), true)
    }
}

impl Deref for Metrics {
    type Target = Families;

    fn deref(&self) -> &Families {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use leasehold_core::name::LockName;

    use super::*;

    #[tokio::test]
    async fn every_metric_is_encoded_under_its_name() {
        let metrics = Metrics::default();
        let name = LockName::parse("a").unwrap();
        metrics.lost(&name, None, "expired");
        metrics.lost(&name, Some("client"), "expired");
        let _session = metrics.sessions.track();
        metrics.grants.inc();
        let text = metrics.encode();
        for line in [
            "leasehold_sessions 1",
            "leasehold_holds 0",
            "leasehold_waiters 0",
            "leasehold_contended_names 0",
            "leasehold_inflight_cleanups 0",
            "leasehold_connections 0",
            "leasehold_connections_accepted_total 0",
            "leasehold_connections_refused_total 0",
            "leasehold_connections_handshake_timeouts_total 0",
            "leasehold_connections_tls_failures_total 0",
            "leasehold_connections_silent_total 0",
            "leasehold_grants_total 1",
            "leasehold_handoffs_total 0",
            "leasehold_lost_total{reason=\"expired\"} 2",
            "leasehold_renewals_total 0",
            "leasehold_slow_readers_total 0",
            "leasehold_store_errors_total 0",
        ] {
            assert!(
                text.lines().any(|found| found == line),
                "no {line:?} in\n{text}"
            );
        }
        assert!(text.contains("\nleasehold_tasks "), "{text}");
        assert!(text.ends_with("# EOF\n"), "{text}");
    }
}

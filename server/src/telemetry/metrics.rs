//! Metrics of the coordinator, for the code that counts and for scrapes.

use std::{ops::Deref, sync::Arc};

use leasehold_proto::v1::session_request::Request;

use super::{families::Families, rpc::RpcLayer, text};
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
    /// All metrics at zero, and the numbers of `connections` beside them. Times and sizes, and calls by method, are only
    /// measured where `is_measured`.
    #[must_use]
    pub fn new(connections: Connections, is_measured: bool) -> Self {
        Self(Arc::new(Families::new(connections, is_measured)))
    }

    /// Counts a lock that was lost in `leasehold_lost_total`, under the name of its reason in the API (`expired`,
    /// `forced`, …).
    pub fn count_lost(&self, reason: &'static str) {
        self.0.count_lost(reason);
    }

    /// Counts a pass of deadlock detection that this bound made incomplete.
    pub fn count_deadlock_bound(&self, bound: &'static str) {
        self.0.count_deadlock_bound(bound);
    }

    /// Counts a message of a client on its session.
    pub fn count_request(&self, request: Option<&Request>) {
        self.0.requests.count(request);
    }

    /// The layer that counts calls by method and code, for the gRPC server.
    #[must_use]
    pub fn rpc_layer(&self) -> RpcLayer {
        self.0.rpcs.clone()
    }

    /// Everything in the text format of OpenMetrics. Call it inside the runtime, whose tasks it counts.
    #[must_use]
    pub fn encode(&self) -> String {
        self.0.encode()
    }

    /// The same in the older text format of Prometheus.
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
    use super::*;

    #[tokio::test]
    async fn every_metric_is_encoded_under_its_name() {
        let metrics = Metrics::default();
        metrics.count_lost("expired");
        metrics.count_lost("expired");
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

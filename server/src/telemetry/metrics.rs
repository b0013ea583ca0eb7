//! The metrics by name.

use std::{ops::Deref, sync::Arc};

use prometheus_client::{
    encoding::{EncodeLabelSet, text},
    metrics::{counter::Counter, family::Family, gauge::Gauge},
    registry::Registry,
};

use super::{connections::ConnectionCollector, level::Level};
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

/// The values behind [`Metrics`].
#[derive(Debug)]
#[non_exhaustive]
pub struct Families {
    /// `leasehold_sessions`: sessions that are open here.
    pub sessions: Level,
    /// `leasehold_holds`: locks that sessions of this coordinator hold.
    pub holds: Level,
    /// `leasehold_waiters`: acquires of this coordinator's clients that wait.
    pub waiters: Level,
    /// `leasehold_contended_names`: names that somebody waits for here.
    pub contended_names: Level,
    /// `leasehold_inflight_cleanups`: releases of grants that nobody wants any more, not yet answered by the store.
    pub inflight_cleanups: Level,
    /// `leasehold_watchers`: streams that are told what happens to locks.
    pub watchers: Level,
    /// `leasehold_observers`: streams that are told who leads.
    pub observers: Level,
    /// `leasehold_watch_gaps_total`: watchers that were told of a gap, because they did not read in time.
    pub watch_gaps: Counter,
    /// `leasehold_grants_total`: locks granted.
    pub grants: Counter,
    /// `leasehold_handoffs_total`: locks that commands of this coordinator handed to the next waiter, here or elsewhere; to
    /// one that was just leaving, too.
    pub handoffs: Counter,
    /// `leasehold_resumed_total`: locks and places in queues that sessions here took over from another stream.
    pub resumed: Counter,
    /// `leasehold_renewals_total`: leases renewed.
    pub renewals: Counter,
    /// `leasehold_deadlocks_total`: waits of this coordinator's clients that were ended because of a deadlock.
    pub deadlocks: Counter,
    /// `leasehold_slow_readers_total`: clients cut off because they did not read.
    pub slow_readers: Counter,
    /// `leasehold_store_operations_total`: operations asked of the store, before they are coalesced into calls.
    pub store_operations: Counter,
    /// `leasehold_store_errors_total`: store commands that failed or were not answered.
    pub store_errors: Counter,
    lost: Family<LostLabels, Counter>,
    tasks: Gauge,
    registry: Registry,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct LostLabels {
    reason: &'static str,
}

impl Metrics {
    /// All metrics at zero, and the numbers of `connections` beside them.
    #[must_use]
    pub fn new(connections: Connections) -> Self {
        let mut registry = Registry::with_prefix("leasehold");
        let mut level = |name: &str, help: &str| {
            let gauge = Gauge::<i64>::default();
            registry.register(name, help, gauge.clone());
            Level(gauge)
        };
        let sessions = level("sessions", "Sessions that are open");
        let holds = level("holds", "Locks held by sessions of this coordinator");
        let waiters = level("waiters", "Acquires that wait");
        let contended_names = level("contended_names", "Names that somebody waits for");
        let inflight_cleanups = level(
            "inflight_cleanups",
            "Releases of unwanted grants that the store has not answered yet",
        );
        let watchers = level("watchers", "Streams that are told what happens to locks");
        let observers = level("observers", "Streams that are told who leads");
        let Level(tasks) = level("tasks", "Tasks alive in the asynchronous runtime");
        let mut counter = |name: &str, help: &str| {
            let counter = Counter::default();
            registry.register(name, help, counter.clone());
            counter
        };
        let grants = counter("grants", "Locks granted");
        let handoffs = counter(
            "handoffs",
            "Locks that this coordinator's commands handed to the next waiter, here or elsewhere",
        );
        let resumed = counter(
            "resumed",
            "Locks and places in queues taken over from another stream",
        );
        let renewals = counter("renewals", "Leases renewed");
        let deadlocks = counter("deadlocks", "Waits that were ended because of a deadlock");
        let slow_readers = counter("slow_readers", "Clients cut off because they did not read");
        let watch_gaps = counter(
            "watch_gaps",
            "Watchers that were told of a gap, because they did not read in time",
        );
        let store_operations = counter(
            "store_operations",
            "Operations asked of the store, before they are coalesced into calls",
        );
        let store_errors = counter(
            "store_errors",
            "Store commands that failed or were not answered",
        );
        let lost = Family::default();
        registry.register(
            "lost",
            "Locks that were lost before their holder released them",
            lost.clone(),
        );
        registry.register_collector(Box::new(ConnectionCollector(connections)));
        Self(Arc::new(Families {
            sessions,
            holds,
            waiters,
            contended_names,
            inflight_cleanups,
            watchers,
            observers,
            watch_gaps,
            grants,
            handoffs,
            resumed,
            renewals,
            deadlocks,
            slow_readers,
            store_operations,
            store_errors,
            lost,
            tasks,
            registry,
        }))
    }

    /// Counts a lock that was lost in `leasehold_lost_total`, under the name of its reason in the API (`expired`,
    /// `force_released`, …).
    pub fn count_lost(&self, reason: &'static str) {
        self.0.lost.get_or_create(&LostLabels { reason }).inc();
    }

    /// Everything in the text format of OpenMetrics, which Prometheus reads. Call it inside the runtime, whose tasks it
    /// counts.
    #[must_use]
    pub fn encode(&self) -> String {
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            let tasks = runtime.metrics().num_alive_tasks();
            self.0.tasks.set(i64::try_from(tasks).unwrap_or(i64::MAX));
        }
        let mut out = String::new();
        // Writing to a string does not fail.
        let _ = text::encode(&mut out, &self.0.registry);
        out
    }
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new(Connections::new())
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

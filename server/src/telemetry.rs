//! Logging and metrics.

use std::{
    fmt,
    io::IsTerminal,
    ops::Deref,
    sync::{Arc, atomic::Ordering},
};

use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric, text},
    metrics::{
        counter::{ConstCounter, Counter},
        family::Family,
        gauge::{ConstGauge, Gauge},
    },
    registry::Registry,
};
use tracing_subscriber::{EnvFilter, layer::SubscriberExt, util::SubscriberInitExt};

use crate::{
    config::{Config, LogFormat},
    listener::Connections,
};

/// Why logging could not be set up.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoggingError {
    /// The directives do not parse; [`Config::from_args`] lets no such configuration through.
    #[error("failed to read the log directives: {0}")]
    Filter(#[from] tracing_subscriber::filter::ParseError),
    /// The process logs elsewhere already.
    #[error("failed to set up logging: {0}")]
    AlreadySet(#[from] tracing_subscriber::util::TryInitError),
}

/// Sends log lines to stderr, as `log` and `log-format` say, for the whole process.
///
/// # Errors
///
/// When the directives are wrong, or the process has set up logging before.
pub fn init_logging(config: &Config) -> Result<(), LoggingError> {
    let filter = EnvFilter::try_new(&config.log)?;
    let registry = tracing_subscriber::registry().with(filter);
    let lines = tracing_subscriber::fmt::layer().with_writer(std::io::stderr);
    match config.log_format {
        LogFormat::Human => {
            // https://no-color.org: any non-empty value means no colours.
            let plain = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
            let colours = !plain && std::io::stderr().is_terminal();
            registry.with(lines.with_ansi(colours)).try_init()?;
        }
        LogFormat::Json => registry.with(lines.json()).try_init()?,
    }
    Ok(())
}

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

/// A number of things that exist now. It changes through guards, so that nothing is counted beyond its life, however
/// that ends.
#[derive(Clone, Debug)]
pub struct Level(Gauge);

impl Level {
    /// Counts one thing until the guard is dropped.
    pub fn track(&self) -> Tracked {
        let mut tracked = self.track_none();
        tracked.set(1);
        tracked
    }

    /// A guard that counts nothing yet: for a collection whose size goes up and down, see [`Tracked::set`].
    pub fn track_none(&self) -> Tracked {
        Tracked {
            level: self.0.clone(),
            amount: 0,
        }
    }

    /// The number now.
    #[must_use]
    pub fn value(&self) -> i64 {
        self.0.get()
    }
}

/// Counts things in a [`Level`] until it is dropped.
#[derive(Debug)]
#[must_use = "what it counts is no longer counted when it is dropped"]
pub struct Tracked {
    level: Gauge,
    amount: i64,
}

impl Tracked {
    /// Counts `amount` things instead of what it counted before.
    pub fn set(&mut self, amount: usize) {
        let amount = i64::try_from(amount).unwrap_or(i64::MAX);
        self.level.inc_by(amount - self.amount);
        self.amount = amount;
    }
}

impl Drop for Tracked {
    fn drop(&mut self) {
        self.level.dec_by(self.amount);
    }
}

/// Reads the listener's numbers at each scrape.
#[derive(Debug)]
struct ConnectionCollector(Connections);

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
                "Connections closed at once because max-connections was reached.",
                &totals.refused,
            ),
            (
                "connections_handshake_timeouts",
                "Connections closed because their handshake did not arrive in time.",
                &totals.handshake_timeouts,
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn guards_count_while_they_live() {
        let metrics = Metrics::default();
        let mut holds = metrics.holds.track_none();
        let one = metrics.holds.track();
        holds.set(5);
        assert_eq!(metrics.holds.value(), 6);
        holds.set(2);
        drop(one);
        assert_eq!(metrics.clone().holds.value(), 2);
        drop(holds);
        assert_eq!(metrics.holds.value(), 0);
    }

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

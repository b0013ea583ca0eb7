//! The metrics by name.

use std::{
    ops::Deref,
    sync::{Arc, atomic::AtomicU64},
};

use leasehold_core::{command::Loss, deadlock::share::BOUNDS, name::LockName};
use leasehold_store::measure::{Measures, Meter};
use prometheus_client::{
    collector::Collector,
    encoding::text::{encode_eof, encode_registry},
    metrics::{counter::Counter, family::Family, gauge::Gauge},
    registry::{Metric, Registry, Unit},
};

use super::{
    certificates::Certificates,
    level::Level,
    process::ProcessCollector,
    rpc::{RpcCollector, RpcLayer, Rpcs},
    store::StoreCollector,
    waits::{Clocks, REQUESTS, RequestKind, Times, TimesCollector},
};
use crate::{
    config::Config, convert, layered::Front, limits::most_connections, listener::Connections,
};

/// Message of the log line about a lock that its holder has lost.
pub const LOST_LOCK: &str = "a lock was lost";

/// Label with the reason of a loss, the bound that was reached, or the like.
type Reason = [(&'static str, &'static str); 1];

/// The limits that are shown, in the order in which [`Families::set_limits`] has them.
const LIMITS: [&str; 3] = ["max-connections", "max-sessions", "max-watchers"];

/// Declares every counter and level without labels once: its field, which has the metric's name, and its help.
macro_rules! counts {
    ($($(#[doc = $help:literal])+ $name:ident: $type:ty,)+) => {
        /// Counters and levels without labels. `leasehold_` is before the name of each, and `_total` after that of a counter.
        #[derive(Debug)]
        #[non_exhaustive]
        pub struct Counts {
            $($(#[doc = $help])+ pub $name: $type,)+
        }

        impl Counts {
            fn register(registry: &mut Registry) -> Self {
                Self { $($name: register(registry, stringify!($name), concat!($($help),+)),)+ }
            }
        }
    };
}

counts! {
    /// Sessions that are open.
    sessions: Level,
    /// Locks held by sessions of this coordinator.
    holds: Level,
    /// Acquires that wait.
    waiters: Level,
    /// Names that have waiters.
    contended_names: Level,
    /// Releases of unwanted grants that the store has not answered yet.
    inflight_cleanups: Level,
    /// Streams that watch locks.
    watchers: Level,
    /// Streams that observe elections.
    observers: Level,
    /// Watchers that got a gap because they did not read in time.
    watch_gaps: Counter,
    /// Locks granted.
    grants: Counter,
    /// Locks that this coordinator's commands handed to the next waiter, here or elsewhere.
    handoffs: Counter,
    /// Locks and places in queues resumed from another stream.
    resumed: Counter,
    /// Leases renewed.
    renewals: Counter,
    /// Waits that were ended because of a deadlock.
    deadlocks: Counter,
    /// Clients cut off because they did not read.
    slow_readers: Counter,
    /// Operations asked of the store, before they are coalesced into calls.
    store_operations: Counter,
    /// Store commands that failed or were not answered.
    store_errors: Counter,
    /// Times that the store went out of reach.
    store_outages: Counter,
    /// Fencing tokens that were asked about and are not the newest of their lock any more.
    fenced_refusals: Counter,
    /// Lines written to the audit log.
    audit_lines: Counter,
    /// Lines of the audit log that were dropped, because too many waited or because it could not be written.
    audit_dropped: Counter,
    /// Answers that wait because their clients do not read.
    unread_answers: Level,
    /// News of waiters that the task which keeps contended names has not seen to yet.
    contention_queue: Level,
    /// Whether this coordinator is ready to serve: 1 if it is.
    ready: Gauge,
    /// Whether this coordinator is going away: 1 if it is.
    draining: Gauge,
    /// Whether the store is in reach: 1 if it is.
    store_up: Gauge,
    /// Sessions whose locks should have been renewed by now.
    late_renewals: Gauge,
    /// Connections that are open.
    connections: Gauge,
    /// Tasks alive in the asynchronous runtime.
    tasks: Gauge,
    /// Tasks that wait in the runtime's common queue for a thread to run them.
    runtime_queue: Gauge,
}

/// The values behind [`Metrics`](super::Metrics).
#[derive(Debug)]
#[non_exhaustive]
pub struct Families {
    counts: Counts,
    /// `leasehold_scheduling_lag_seconds`: delay of the runtime at the last look at the coordinator's health.
    pub scheduling_lag: Gauge<f64, AtomicU64>,
    /// `leasehold_tls_certificate_expiry_timestamp_seconds`: expiry of the certificates in force.
    pub(crate) certificates: Certificates,
    /// Durations of acquires, waits and renewals.
    pub clocks: Clocks,
    /// Meter of the store's commands.
    pub meter: Meter,
    rpcs: RpcLayer,
    live: Connections,
    requests: [Counter; REQUESTS.len()],
    lost: Family<Reason, Counter>,
    limits: Family<Reason, Gauge>,
    deadlock_bounds: Family<Reason, Counter>,
    registry: Registry,
    /// Metrics of the process, whose names have no prefix.
    of_process: Registry,
}

impl Deref for Families {
    type Target = Counts;

    fn deref(&self) -> &Counts {
        &self.counts
    }
}

impl Families {
    pub(super) fn new(connections: Connections, is_measured: bool) -> Self {
        let mut registry = Registry::with_prefix("leasehold");
        let measures = Arc::new(Measures::default());
        let rpcs = Arc::new(Rpcs::default());
        let times = Arc::new(Times::default());
        let collectors: [Box<dyn Collector>; 3] = [
            Box::new(StoreCollector(Arc::clone(&measures))),
            Box::new(RpcCollector(Arc::clone(&rpcs))),
            Box::new(TimesCollector(Arc::clone(&times))),
        ];
        for collector in collectors {
            registry.register_collector(collector);
        }
        let mut of_process = Registry::default();
        of_process.register_collector(Box::new(ProcessCollector::new()));
        let counts = Counts::register(&mut registry);
        let totals = connections.totals();
        for (name, help, total) in [
            ("accepted", "Connections accepted", &totals.accepted),
            (
                "refused",
                "Connections closed at once because max-connections or max-connections-per-address was reached",
                &totals.refused,
            ),
            (
                "handshake_timeouts",
                "Connections closed because their handshake did not arrive in time",
                &totals.handshake_timeouts,
            ),
            (
                "tls_failures",
                "Connections closed because their TLS handshake failed",
                &totals.tls_failures,
            ),
            (
                "silent",
                "Connections closed because nothing more was heard from their peer",
                &totals.silent,
            ),
        ] {
            registry.register(format!("connections_{name}"), help, total.clone());
        }
        let build: Family<Reason, Gauge> =
            register(&mut registry, "build_info", "The coordinator's version.");
        build
            .get_or_create(&[("version", env!("CARGO_PKG_VERSION"))])
            .set(1);
        let scheduling_lag = Gauge::default();
        registry.register_with_unit(
            "scheduling_lag",
            "How late the runtime was with the last look at the coordinator's health",
            Unit::Seconds,
            scheduling_lag.clone(),
        );
        let limits: Family<Reason, Gauge> = register(
            &mut registry,
            "limit",
            "Limits of this coordinator as a whole, by the name of their setting.",
        );
        for limit in LIMITS {
            drop(limits.get_or_create(&[("limit", limit)]));
        }
        let losses = [Loss::Expired, Loss::Deleted, Loss::Taken, Loss::Forced];
        let reasons = losses.map(convert::lost_reason_label);
        let requests = family(
            &mut registry,
            "session_requests",
            "Messages of clients on their sessions, candidacies included, after the one that opened it.",
            REQUESTS.into_iter().map(|request| ("request", request)),
        );
        Self {
            counts,
            scheduling_lag,
            lost: family(
                &mut registry,
                "lost",
                "Locks that were lost before their holder released them.",
                reasons
                    .into_iter()
                    .chain(["permission_revoked", "max_hold"])
                    .map(|reason| ("reason", reason)),
            ),
            limits,
            deadlock_bounds: family(
                &mut registry,
                "deadlock_bounds",
                "Passes of deadlock detection that left something out because of a bound.",
                BOUNDS.into_iter().map(|bound| ("bound", bound)),
            ),
            certificates: register(
                &mut registry,
                "tls_certificate_expiry_timestamp_seconds",
                "When the first certificate of the chain that is shown expires, in seconds since 1970.",
            ),
            live: connections,
            clocks: Clocks::new(is_measured.then_some(times)),
            meter: if is_measured {
                Meter::new(measures)
            } else {
                Meter::default()
            },
            rpcs: RpcLayer(is_measured.then_some(rpcs)),
            requests: REQUESTS.map(|request| requests.get_or_create_owned(&[("request", request)])),
            registry,
            of_process,
        }
    }

    /// Counts a lock that its holder has lost in `leasehold_lost_total`, and logs it, under the name of its reason in the API
    /// (`expired`, `forced`, …). `client` is the holder's name, if it is still known.
    pub fn lost(&self, lock: &LockName, client: Option<&str>, reason: &'static str) {
        self.lost.get_or_create(&[("reason", reason)]).inc();
        tracing::info!(%lock, client, reason, "{LOST_LOCK}");
    }

    /// Shows the limits of the configuration in force.
    pub fn set_limits(&self, config: &Config) {
        let numbers = [
            most_connections(config.max_connections),
            config.max_sessions,
            config.max_watchers,
        ];
        for (limit, number) in LIMITS.into_iter().zip(numbers) {
            let number = i64::try_from(number).unwrap_or(i64::MAX);
            self.limits.get_or_create(&[("limit", limit)]).set(number);
        }
    }

    /// Counts a pass of deadlock detection that a bound made incomplete.
    pub fn count_deadlock_bound(&self, bound: &'static str) {
        self.deadlock_bounds
            .get_or_create(&[("bound", bound)])
            .inc();
    }

    /// Counts a message of a client on its session.
    pub fn count_request(&self, kind: RequestKind) {
        self.requests[kind as usize].inc();
    }

    /// Returns the gRPC server's layer that counts calls by method and code.
    #[must_use]
    pub fn rpc_layer(&self) -> Front<RpcLayer> {
        Front(self.rpcs.clone())
    }

    /// Returns everything in the text format of OpenMetrics. Call it inside the runtime, whose tasks it counts.
    #[must_use]
    pub fn encode(&self) -> String {
        let whole = |number: usize| i64::try_from(number).unwrap_or(i64::MAX);
        self.connections.set(whole(self.live.len()));
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            let runtime = runtime.metrics();
            self.tasks.set(whole(runtime.num_alive_tasks()));
            self.runtime_queue.set(whole(runtime.global_queue_depth()));
        }
        let mut out = String::new();
        // Writing to a string does not fail.
        let _ = encode_registry(&mut out, &self.registry)
            .and_then(|()| encode_registry(&mut out, &self.of_process))
            .and_then(|()| encode_eof(&mut out));
        out
    }
}

/// Registers a metric. Its help ends with a full stop, which the registry adds itself.
fn register<M: Metric + Clone + Default>(registry: &mut Registry, name: &str, help: &str) -> M {
    let metric = M::default();
    registry.register(name, help.trim().trim_end_matches('.'), metric.clone());
    metric
}

/// Registers a counter with labels. Each label is shown from the start, so that its first count is seen as an increase.
fn family(
    registry: &mut Registry,
    name: &str,
    help: &str,
    labels: impl Iterator<Item = (&'static str, &'static str)>,
) -> Family<Reason, Counter> {
    let family: Family<Reason, Counter> = register(registry, name, help);
    for label in labels {
        drop(family.get_or_create(&[label]));
    }
    family
}

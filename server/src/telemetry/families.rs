//! The metrics by name.

use std::sync::{Arc, atomic::AtomicU64};

use leasehold_core::command::Loss;
use leasehold_store::measure::{Measures, Meter};
use prometheus_client::{
    collector::Collector,
    encoding::text::{encode_eof, encode_registry},
    metrics::{counter::Counter, family::Family, gauge::Gauge},
    registry::{Registry, Unit},
};

use super::{
    certificates::Certificates,
    connections::ConnectionCollector,
    level::Level,
    process::ProcessCollector,
    rpc::{RpcCollector, RpcLayer, Rpcs},
    store::StoreCollector,
    waits::{Clocks, Requests, Times, TimesCollector},
};
use crate::{convert, coordinator::deadlock, listener::Connections};

/// Why a lock was lost, or which bound was reached.
type Reason = [(&'static str, &'static str); 1];

/// The values behind [`Metrics`](super::Metrics).
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
    /// `leasehold_store_outages_total`: how often the store went out of reach.
    pub store_outages: Counter,
    /// `leasehold_fenced_refusals_total`: fencing tokens that were asked about and are not the newest any more.
    pub fenced_refusals: Counter,
    /// `leasehold_unread_answers`: answers that wait for clients to read.
    pub unread_answers: Level,
    /// `leasehold_contention_queue`: what was told to the task that keeps contended names, and not seen to yet.
    pub contention_queue: Level,
    /// `leasehold_ready`: 1 while it is ready to serve.
    pub ready: Gauge,
    /// `leasehold_draining`: 1 once it goes away.
    pub draining: Gauge,
    /// `leasehold_store_up`: 1 while the store is in reach.
    pub store_up: Gauge,
    /// `leasehold_late_renewals`: sessions whose locks should have been renewed by now.
    pub late_renewals: Gauge,
    /// `leasehold_scheduling_lag_seconds`: how late the runtime was with the last look at the coordinator's health.
    pub scheduling_lag: Gauge<f64, AtomicU64>,
    /// `leasehold_tls_certificate_expiry_timestamp_seconds`: when the certificates that are shown expire.
    pub(crate) certificates: Certificates,
    /// How long things take.
    pub clocks: Clocks,
    /// For the store, to measure what it is asked.
    pub meter: Meter,
    pub(super) rpcs: RpcLayer,
    pub(super) requests: Requests,
    lost: Family<Reason, Counter>,
    deadlock_bounds: Family<Reason, Counter>,
    tasks: Gauge,
    runtime_queue: Gauge,
    registry: Registry,
    /// Under the names that every program has for it.
    of_process: Registry,
}

impl Families {
    pub(super) fn new(connections: Connections, is_measured: bool) -> Self {
        let mut registry = Registry::with_prefix("leasehold");
        let measures = Arc::new(Measures::default());
        let rpcs = Arc::new(Rpcs::default());
        let times = Arc::new(Times::default());
        let requests = Requests::default();
        let certificates = Certificates::default();
        let collectors: [Box<dyn Collector>; 6] = [
            Box::new(certificates.clone()),
            Box::new(ConnectionCollector(connections)),
            Box::new(StoreCollector(Arc::clone(&measures))),
            Box::new(RpcCollector(Arc::clone(&rpcs))),
            Box::new(TimesCollector(Arc::clone(&times))),
            Box::new(requests.clone()),
        ];
        for collector in collectors {
            registry.register_collector(collector);
        }
        let mut of_process = Registry::default();
        of_process.register_collector(Box::new(ProcessCollector));
        Self {
            sessions: level(&mut registry, "sessions", "Sessions that are open"),
            holds: level(
                &mut registry,
                "holds",
                "Locks held by sessions of this coordinator",
            ),
            waiters: level(&mut registry, "waiters", "Acquires that wait"),
            contended_names: level(
                &mut registry,
                "contended_names",
                "Names that somebody waits for",
            ),
            inflight_cleanups: level(
                &mut registry,
                "inflight_cleanups",
                "Releases of unwanted grants that the store has not answered yet",
            ),
            watchers: level(
                &mut registry,
                "watchers",
                "Streams that are told what happens to locks",
            ),
            observers: level(
                &mut registry,
                "observers",
                "Streams that are told who leads",
            ),
            watch_gaps: counter(
                &mut registry,
                "watch_gaps",
                "Watchers that were told of a gap, because they did not read in time",
            ),
            grants: counter(&mut registry, "grants", "Locks granted"),
            handoffs: counter(
                &mut registry,
                "handoffs",
                "Locks that this coordinator's commands handed to the next waiter, here or elsewhere",
            ),
            resumed: counter(
                &mut registry,
                "resumed",
                "Locks and places in queues taken over from another stream",
            ),
            renewals: counter(&mut registry, "renewals", "Leases renewed"),
            deadlocks: counter(
                &mut registry,
                "deadlocks",
                "Waits that were ended because of a deadlock",
            ),
            slow_readers: counter(
                &mut registry,
                "slow_readers",
                "Clients cut off because they did not read",
            ),
            store_operations: counter(
                &mut registry,
                "store_operations",
                "Operations asked of the store, before they are coalesced into calls",
            ),
            store_errors: counter(
                &mut registry,
                "store_errors",
                "Store commands that failed or were not answered",
            ),
            store_outages: counter(
                &mut registry,
                "store_outages",
                "Times that the store went out of reach",
            ),
            fenced_refusals: counter(
                &mut registry,
                "fenced_refusals",
                "Fencing tokens that were asked about and are not the newest of their lock any more",
            ),
            unread_answers: level(
                &mut registry,
                "unread_answers",
                "Answers that wait because their clients do not read",
            ),
            contention_queue: level(
                &mut registry,
                "contention_queue",
                "News of waiters that the task which keeps contended names has not seen to yet",
            ),
            ready: gauge(
                &mut registry,
                "ready",
                "Whether this coordinator is ready to serve: 1 if it is",
            ),
            draining: gauge(
                &mut registry,
                "draining",
                "Whether this coordinator is going away: 1 if it is",
            ),
            store_up: gauge(
                &mut registry,
                "store_up",
                "Whether the store is in reach: 1 if it is",
            ),
            late_renewals: gauge(
                &mut registry,
                "late_renewals",
                "Sessions whose locks should have been renewed by now",
            ),
            scheduling_lag: {
                let lag = Gauge::default();
                let help =
                    "How late the runtime was with the last look at the coordinator's health";
                registry.register_with_unit("scheduling_lag", help, Unit::Seconds, lag.clone());
                lag
            },
            certificates,
            clocks: Clocks::new(is_measured.then_some(times)),
            meter: if is_measured {
                Meter::new(measures)
            } else {
                Meter::default()
            },
            rpcs: RpcLayer(is_measured.then_some(rpcs)),
            requests,
            lost: lost(&mut registry),
            deadlock_bounds: deadlock_bounds(&mut registry),
            tasks: gauge(
                &mut registry,
                "tasks",
                "Tasks alive in the asynchronous runtime",
            ),
            runtime_queue: gauge(
                &mut registry,
                "runtime_queue",
                "Tasks that wait in the runtime's common queue for a thread to run them",
            ),
            registry,
            of_process,
        }
    }

    pub(super) fn count_lost(&self, reason: &'static str) {
        self.lost.get_or_create(&[("reason", reason)]).inc();
    }

    pub(super) fn count_deadlock_bound(&self, bound: &'static str) {
        self.deadlock_bounds
            .get_or_create(&[("bound", bound)])
            .inc();
    }

    pub(super) fn encode(&self) -> String {
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            let runtime = runtime.metrics();
            let whole = |number: usize| i64::try_from(number).unwrap_or(i64::MAX);
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

fn gauge(registry: &mut Registry, name: &str, help: &str) -> Gauge {
    let gauge = Gauge::default();
    registry.register(name, help, gauge.clone());
    gauge
}

fn level(registry: &mut Registry, name: &str, help: &str) -> Level {
    Level(gauge(registry, name, help))
}

fn counter(registry: &mut Registry, name: &str, help: &str) -> Counter {
    let counter = Counter::default();
    registry.register(name, help, counter.clone());
    counter
}

/// Each reason is there from the start, so that the first loss is seen to be one.
fn lost(registry: &mut Registry) -> Family<Reason, Counter> {
    let lost = Family::<Reason, Counter>::default();
    for loss in [Loss::Expired, Loss::Deleted, Loss::Taken, Loss::Forced] {
        drop(lost.get_or_create(&[("reason", convert::lost_reason_label(loss))]));
    }
    drop(lost.get_or_create(&[("reason", "permission_revoked")]));
    registry.register(
        "lost",
        "Locks that were lost before their holder released them",
        lost.clone(),
    );
    lost
}

fn deadlock_bounds(registry: &mut Registry) -> Family<Reason, Counter> {
    let bounds = Family::<Reason, Counter>::default();
    for bound in deadlock::BOUNDS {
        drop(bounds.get_or_create(&[("bound", bound)]));
    }
    registry.register(
        "deadlock_bounds",
        "Passes of deadlock detection that left something out because of a bound",
        bounds.clone(),
    );
    bounds
}

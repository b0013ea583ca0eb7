//! Every abuse, one after the other, of the same coordinator. `ABUSE=KIND` has but one of them; with `PROTOCOL=json` they are those
//! that can be said in JSON.

use std::time::Duration;

use leasehold_tests::{
    Abuser, Coordinator, Latencies, RedisServer, raw::speaks_json, report, soak, usage::resident,
};

use super::{
    deadlocked,
    neighbours::{Measured, Neighbours},
};

/// An abuse, with what of `docs/limits.md`'s table it makes the coordinator keep at most.
struct Abuse {
    kind: &'static str,
    connections: u64,
    /// Streams on which much is unread.
    unread: u64,
    /// Connections on which much is sent that is not complete.
    filled: u64,
    /// Locks that are held, and acquires that wait, with their names.
    locks: u64,
}

const fn abuse(kind: &'static str, connections: u64, unread: u64, filled: u64) -> Abuse {
    Abuse {
        kind,
        connections,
        unread,
        filled,
        locks: 0,
    }
}

/// Sessions whose actors hold locks and wait for very many others.
const BLOCKED: Abuse = Abuse {
    locks: 4_400,
    ..abuse("blocked-waits", 20, 0, 0)
};

/// Ten sessions, each with 16 acquires of 64 names.
const SEVERAL: Abuse = Abuse {
    locks: 10 * 16 * 64,
    ..abuse("flood-several", 10, 10, 0)
};

/// Fifty locks, each shared by a hundred actors, with values that are as large as may be.
const fn read(kind: &'static str) -> Abuse {
    Abuse {
        locks: 50 * 100,
        ..abuse(kind, 10, 10, 0)
    }
}

const ABUSES: [Abuse; 17] = [
    BLOCKED,
    abuse("slow", 1000, 0, 0),
    abuse("unread-sessions", 40, 40, 0),
    abuse("unread-watches", 20, 100, 0),
    abuse("flood-one-name", 20, 20, 0),
    abuse("flood-names", 20, 20, 0),
    abuse("flood-limits", 20, 20, 0),
    SEVERAL,
    abuse("flood-requests", 20, 10, 0),
    abuse("flood-one-session", 1, 40, 0),
    read("read-locks"),
    read("end-sessions"),
    abuse("end-own-sessions", 16, 0, 0),
    abuse("malformed", 16, 0, 16),
    abuse("huge", 8, 0, 8),
    abuse("rapid-reset", 20, 0, 20),
    abuse("connections", 10_000, 0, 0),
];
/// Of the measuring clients: each has one for its session and one for calls.
const CONNECTIONS: u64 = 200;
/// Before the first abuse, and after each.
const QUIET: Duration = Duration::from_secs(2);
const SETTLE: Duration = Duration::from_secs(1);
const ABUSE: Duration = Duration::from_secs(3);
/// The short form divides both times by this.
const SHORTER: u32 = 2;
/// Quantile that the short form compares: its parts have fifty samples of shared names, too few for the 99th percentile.
const SHORT_QUANTILE: f64 = 0.9;

const KIB: u64 = 1024;
const MIB: u64 = 1024 * KIB;

impl Abuse {
    /// Returns whether it makes calls. The others write bytes of HTTP/2 themselves.
    fn makes_calls(&self) -> bool {
        ["flood-", "read-", "end-"]
            .iter()
            .any(|calls| self.kind.starts_with(calls))
            || self.kind == BLOCKED.kind
    }

    /// Returns the most memory that the coordinator needs according to `docs/limits.md`.
    fn memory(&self) -> u64 {
        64 * MIB
            + (CONNECTIONS + self.connections) * 48 * KIB
            + self.unread * MIB
            + self.filled * 6 * MIB
            + self.locks * 5 * KIB / 2
    }
}

/// One of the kinds of names that a measurement keeps apart.
type Of = fn(&Measured) -> &Latencies;

/// Latencies to compare, with their names.
const NAMES: [(&str, Of); 2] = [
    ("own names", |measured| &measured.own),
    ("shared names", |measured| &measured.shared),
];

/// Returns the median of the parts' quantiles, without the longest that the machine itself stood still.
fn median(parts: &[Measured], of: Of, quantile: f64) -> Duration {
    let disturbed = |part: &Measured| of(part).quantile(quantile).saturating_sub(part.stall);
    let mut each: Vec<_> = parts.iter().map(disturbed).collect();
    each.sort_unstable();
    each[each.len() / 2]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_that_behave_are_not_disturbed() {
    let shorter = soak::either(1, SHORTER);
    let redis = RedisServer::start();
    let mut coordinator = Coordinator::process().store(redis.url()).start();
    let neighbours = Neighbours::start(&coordinator.endpoint()).await;
    let mut quiet = neighbours.measure("quiet", QUIET / shorter).await;
    report(format!("quiet: {} MiB", resident(coordinator.id()) / MIB));
    let mut abused = Vec::new();
    let mut wrong = Vec::new();
    let only = std::env::var("ABUSE").ok();
    let mut at_most = 0;
    for abuse in ABUSES {
        let kind = abuse.kind;
        if only.as_ref().is_some_and(|only| only != kind) || speaks_json() && !abuse.makes_calls() {
            continue;
        }
        let abuser = Abuser::start(&coordinator.endpoint(), kind).await;
        // What came at once at its beginning is served.
        tokio::time::sleep(SETTLE).await;
        let mut parts = if kind == BLOCKED.kind {
            let deadlocks = deadlocked::measure(&coordinator, ABUSE / shorter);
            let measure = neighbours.measure_in_parts(kind, ABUSE / shorter);
            let (parts, ()) = tokio::join!(measure, deadlocks);
            let bounded = coordinator.metrics().await;
            let bounded = bounded.sum("leasehold_deadlock_bounds_total");
            report(format!("{kind}: {bounded} passes reached a bound"));
            if bounded == 0.0 {
                wrong.push(format!("{kind}: no bound was reached"));
            }
            parts
        } else {
            neighbours.measure_in_parts(kind, ABUSE / shorter).await
        };
        let memory = resident(coordinator.id());
        let did = abuser.stop().await;
        // What was needed before may still be there.
        at_most = at_most.max(abuse.memory());
        report(format!(
            "{kind}: {} MiB of {} MiB at most; {did}",
            memory / MIB,
            at_most / MIB
        ));
        if memory > at_most {
            wrong.push(format!("{kind}: {memory} bytes of memory, of {at_most}"));
        }
        for part in &mut parts {
            wrong.append(&mut part.wrong);
            part.own.print();
            part.shared.print();
        }
        abused.push((kind, parts));
        // What the abuser left is seen to. The machine may be slower now than it was at first.
        tokio::time::sleep(SETTLE).await;
        quiet.add(neighbours.measure("quiet", QUIET / shorter).await);
    }
    quiet.own.print();
    quiet.shared.print();
    let quantile = soak::either(0.99, SHORT_QUANTILE);
    for (kind, parts) in &abused {
        for (names, of) in NAMES {
            let now = median(parts, of, quantile);
            let quiet = of(&quiet).quantile(quantile);
            let compared = format!("{kind}: {names}: {now:?}, and {quiet:?} when it is quiet");
            report(&compared);
            if now >= quiet * 10 {
                wrong.push(compared);
            }
        }
    }
    wrong.extend(quiet.wrong);
    wrong.extend(neighbours.stop().await);
    if !coordinator.child().is_running() {
        wrong.push("the coordinator has ended".to_owned());
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

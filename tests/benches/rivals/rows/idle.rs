//! Row 7: sessions that hold nothing and send heartbeats.

use std::time::Duration;

use anyhow::ensure;
use serde_json::json;

use super::Bench;
use crate::{
    crowd::{Crowd, TTL},
    figures::{Check, Limit, Maybe, Row, Spread},
    options::Sizes,
    stage::{Spent, Stage, allow_files},
};

/// The two ways: many sessions on a connection, and a connection for each.
pub(crate) const SHARED: usize = 100;
/// File descriptors of a process beside those of its clients.
pub(crate) const OTHERS: u64 = 200;

/// Figures of a run.
#[derive(Clone)]
pub(crate) struct Idle {
    pub(crate) sessions: usize,
    pub(crate) per_connection: usize,
    pub(crate) spent: Spent,
    heartbeats: usize,
    rss_before_kib: f64,
}

impl Idle {
    pub(crate) fn kib_each(&self) -> f64 {
        (self.spent.rss_kib - self.rss_before_kib) / self.sessions as f64
    }

    fn json(&self) -> serde_json::Value {
        json!({
            "sessions": self.sessions,
            "sessions_per_connection": self.per_connection,
            "heartbeats": self.heartbeats,
            "rss_before_kib": self.rss_before_kib,
            "spent": self.spent.json(),
        })
    }
}

/// Keeps `sessions` open for as long as `time`, in which each sends one heartbeat if that is the time of a rest; first of all sees
/// that there are file descriptors for it.
pub(crate) async fn run(
    sizes: &Sizes,
    sessions: usize,
    per_connection: usize,
    time: Duration,
) -> anyhow::Result<Maybe<Idle>> {
    let connections = sessions.div_ceil(per_connection);
    if let Err(reason) = allow_files(connections as u64 + OTHERS) {
        return Ok(Err(reason));
    }
    let mut stage = Stage::start(1, sizes).await;
    let endpoint = stage.endpoints().remove(0);
    let rss_before_kib = stage.read().await?.rss_kib;
    let mut crowd = Crowd::open(&endpoint, sessions, per_connection, 0, TTL).await?;
    crowd.live(sizes.settle).await?;
    let before = stage.read().await?;
    crowd.live(time).await?;
    let spent = stage.read().await?.since(&before);
    let kept = crowd.release().await?;
    // Each sends its first within a third of the TTL, and then rests; the machine may be slow.
    ensure!(
        2 * kept.heartbeats > sessions,
        "only {} heartbeats were sent",
        kept.heartbeats
    );
    Ok(Ok(Idle {
        sessions,
        per_connection,
        spent,
        heartbeats: kept.heartbeats,
        rss_before_kib,
    }))
}

pub(crate) async fn row(bench: &mut Bench) -> anyhow::Result<Row> {
    let sessions = bench.sizes.idle_sessions;
    let (mut checks, mut beside, mut raw) = (Vec::new(), Vec::new(), Vec::new());
    let mut means = Vec::new();
    for (per_connection, kib, way) in [
        (
            SHARED,
            24.0,
            format!("over {} connections", sessions.div_ceil(SHARED)),
        ),
        (1, 44.0, "with a connection each".to_owned()),
    ] {
        let idle = run(&bench.sizes, sessions, per_connection, bench.sizes.idle).await?;
        let check = |what: String, value: fn(&Idle) -> f64, limit, unit| Check {
            what,
            measured: idle
                .as_ref()
                .map(|idle| Spread::once(value(idle)))
                .map_err(Clone::clone),
            limit: Limit::AtMost(limit),
            unit,
            digits: 1,
            from: String::new(),
        };
        checks.push(check(
            format!("coordinator's memory, each session, {way}"),
            Idle::kib_each,
            kib,
            " KiB",
        ));
        checks.push(check(
            format!("coordinator's CPU, {way}"),
            |idle| idle.spent.coordinator_share(),
            2.0,
            " % of a core",
        ));
        let Ok(idle) = idle else { continue };
        beside.push((
            format!("Leasehold {way}"),
            format!(
                "open for {:.0} s: {}",
                idle.spent.seconds,
                idle.spent.shares()
            ),
        ));
        raw.push(idle.json());
        means.push(format!(
            "{:.1} % of a core and {:.1} KiB each {way}",
            idle.spent.coordinator_share(),
            idle.kib_each()
        ));
        bench.idle.push(idle);
    }
    Ok(Row {
        number: "7",
        work: format!(
            "{sessions} sessions, idle, TTL {} s, with heartbeats",
            TTL.as_secs()
        ),
        checks,
        beside,
        compared: Vec::new(),
        meaning: (!means.is_empty()).then(|| {
            let text = format!(
                "{sessions} clients that hold nothing and send heartbeats cost the coordinator {}.",
                means.join(", and ")
            );
            ("Idle clients", text)
        }),
        raw: json!(raw),
    })
}

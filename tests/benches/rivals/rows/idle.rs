//! Row 7: sessions that hold nothing and send heartbeats.

use anyhow::ensure;

use super::Bench;
use crate::{
    figures::{Check, Limit, Maybe, Row, Spread},
    options::Sizes,
    shared::{
        crowd::{Crowd, TTL},
        stage::{OTHER_FILES, Spent, Stage, allow_files},
    },
};

/// Sessions on a connection, where many share one.
const SHARED: usize = 100;

/// Figures of a run.
struct Idle {
    kib_each: f64,
    spent: Spent,
}

/// Keeps the sessions open for as long as they rest, so that each sends one heartbeat; first of all sees that there are file
/// descriptors for it.
async fn run(sizes: &Sizes, per_connection: usize) -> anyhow::Result<Maybe<Idle>> {
    let sessions = sizes.idle_sessions;
    let connections = sessions.div_ceil(per_connection);
    if let Err(reason) = allow_files(connections as u64 + OTHER_FILES) {
        return Ok(Err(reason));
    }
    let mut stage = Stage::start(1).await;
    let endpoint = stage.endpoints().remove(0);
    let rss_before_kib = stage.read().await?.rss_kib;
    let mut crowd = Crowd::open(&endpoint, sessions, per_connection, 0, TTL).await?;
    let (_, spent) = crowd.spend(&mut stage, sizes.settle, sizes.idle).await?;
    let kept = crowd.release().await?;
    // Each sends its first within a third of the TTL, and then rests; the machine may be slow.
    ensure!(
        2 * kept.heartbeats > sessions,
        "only {} heartbeats were sent",
        kept.heartbeats
    );
    Ok(Ok(Idle {
        kib_each: (spent.rss_kib - rss_before_kib) / sessions as f64,
        spent,
    }))
}

pub(super) async fn row(bench: &mut Bench) -> anyhow::Result<Row> {
    let sessions = bench.sizes.idle_sessions;
    let (mut checks, mut beside, mut means) = (Vec::new(), Vec::new(), Vec::new());
    let shared = format!("over {} connections", sessions.div_ceil(SHARED));
    let alone = "with a connection each".to_owned();
    for (per_connection, kib, way) in [(SHARED, 24.0, shared), (1, 44.0, alone)] {
        let idle = run(&bench.sizes, per_connection).await?;
        let mut check = |what: &str, value: fn(&Idle) -> f64, limit, unit| {
            let measured = idle.as_ref().map(|idle| Spread::once(value(idle)));
            let measured = measured.map_err(Clone::clone);
            let what = format!("coordinator's {what}, {way}");
            checks.push(Check::new(what, measured, Limit::AtMost(limit), unit, 1));
        };
        check("memory, each session", |idle| idle.kib_each, kib, " KiB");
        let share = |idle: &Idle| idle.spent.coordinator_share();
        check("CPU", share, 2.0, " % of a core");
        let Ok(idle) = idle else { continue };
        means.push(format!(
            "{:.1} % of a core and {:.1} KiB each {way}",
            share(&idle),
            idle.kib_each
        ));
        let (seconds, shares) = (idle.spent.seconds, idle.spent.shares());
        beside.push((
            format!("Leasehold {way}"),
            format!("open for {seconds:.0} s: {shares}"),
        ));
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
    })
}

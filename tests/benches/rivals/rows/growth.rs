//! Growth of costs with waiters, held locks, sessions and coordinators.

use std::time::Duration;

use leasehold_tests::load::millis;
use serde_json::{Value, json};

use super::{Bench, held, idle};
use crate::{
    chart::{Axis, Curve, Panel},
    cycles,
    handoff::{self, Plan},
    options::{CLIENTS, WAITERS},
    stage::Stage,
};

/// Streams that share a connection where waiters grow.
const WAITERS_PER_CONNECTION: usize = 10;

/// One table of growth, and its drawings.
pub(crate) struct Growth {
    pub(crate) title: &'static str,
    pub(crate) header: &'static [&'static str],
    pub(crate) rows: Vec<Vec<String>>,
    pub(crate) panels: Vec<Panel>,
    pub(crate) raw: Value,
}

/// Points by the curve that they belong to.
fn curve<T>(name: &str, points: &[T], point: impl Fn(&T) -> (f64, f64)) -> Curve {
    Curve::new(name, points.iter().map(point).collect())
}

/// Measures hand-offs of one name with more and more waiters, which hold it only briefly.
pub(crate) async fn waiters(bench: &Bench) -> anyhow::Result<Growth> {
    let mut points = Vec::new();
    for &waiters in bench.sizes.growth.waiters {
        let mut stage = Stage::start(1, &bench.sizes).await;
        let plan = Plan {
            waiters,
            per_connection: WAITERS_PER_CONNECTION,
            hold: Duration::ZERO,
            measured: bench.sizes.growth.window,
            waiting: None,
        };
        points.push(handoff::run(&mut stage, &plan).await?);
    }
    let each = |seconds: f64, count: u64| 1e6 * seconds / count.max(1) as f64;
    let rows = points.iter().map(|run| {
        let count = run.gaps.count();
        vec![
            run.waiters.to_string(),
            format!("{:.2} ms", millis(run.gaps.quantile(0.5))),
            format!("{:.2} ms", millis(run.gaps.quantile(0.99))),
            format!("{:.0} µs", each(run.spent.redis_cpu, count)),
            format!("{:.0} µs", each(run.spent.coordinator_cpu, count)),
            count.to_string(),
        ]
    });
    let rows = rows.collect();
    let by_waiters = || Axis::log("waiters for one name");
    let panels = vec![
        Panel {
            title: "Hand-off latency, held for no time".to_owned(),
            x: by_waiters(),
            y: Axis::linear("release to next grant, ms"),
            curves: vec![
                curve("p50", &points, |run| {
                    (run.waiters as f64, millis(run.gaps.quantile(0.5)))
                }),
                curve("p99", &points, |run| {
                    (run.waiters as f64, millis(run.gaps.quantile(0.99)))
                }),
            ],
        },
        Panel {
            title: "CPU time of a hand-off".to_owned(),
            x: by_waiters(),
            y: Axis::linear("µs"),
            curves: vec![
                curve("coordinator", &points, |run| {
                    (
                        run.waiters as f64,
                        each(run.spent.coordinator_cpu, run.gaps.count()),
                    )
                }),
                curve("Redis", &points, |run| {
                    (
                        run.waiters as f64,
                        each(run.spent.redis_cpu, run.gaps.count()),
                    )
                }),
            ],
        },
    ];
    Ok(Growth {
        title: "Waiters",
        header: &[
            "waiters",
            "p50",
            "p99",
            "Redis CPU, each",
            "coordinator CPU, each",
            "hand-offs",
        ],
        rows,
        panels,
        raw: points.iter().map(crate::handoff::HandOffs::json).collect(),
    })
}

/// Measures held locks over the same number of sessions.
pub(crate) async fn locks(bench: &mut Bench) -> anyhow::Result<Growth> {
    let sessions = bench.sizes.holding_sessions;
    let mut points = Vec::new();
    for &locks in bench.sizes.growth.locks {
        // The largest is row 6, which was measured for longer.
        let measured = bench.held.take_if(|held| held.locks == locks);
        points.push(match measured {
            Some(held) => held,
            None => held::run(&bench.sizes, sessions, locks, bench.sizes.growth.held).await?,
        });
    }
    let rows = points.iter().map(|held| {
        vec![
            held.locks.to_string(),
            format!("{:.1} %", held.spent.coordinator_share()),
            format!("{:.1} %", held.spent.redis_share()),
            format!("{:.2} KiB", held.kib_each()),
            held.lost().to_string(),
        ]
    });
    let rows = rows.collect();
    let panels = vec![Panel {
        title: format!(
            "CPU for held locks, {} sessions",
            bench.sizes.holding_sessions
        ),
        x: Axis::log("held locks"),
        y: Axis::linear("% of a core"),
        curves: vec![
            curve("coordinator", &points, |held| {
                (held.locks as f64, held.spent.coordinator_share())
            }),
            curve("Redis", &points, |held| {
                (held.locks as f64, held.spent.redis_share())
            }),
        ],
    }];
    let raw = points.iter().map(|held| {
        json!({"locks": held.locks, "lost": held.lost(), "kib_each": held.kib_each(), "spent": held.spent.json()})
    });
    Ok(Growth {
        title: "Held locks",
        header: &[
            "locks",
            "coordinator, of a core",
            "Redis, of a core",
            "memory, each",
            "lost",
        ],
        rows,
        raw: raw.collect(),
        panels,
    })
}

/// Measures idle sessions, in both ways.
pub(crate) async fn sessions(bench: &Bench) -> anyhow::Result<Growth> {
    let mut rows = Vec::new();
    let mut curves = Vec::new();
    let mut raw = Vec::new();
    for (per_connection, way) in [
        (idle::SHARED, "100 streams a connection"),
        (1, "a connection each"),
    ] {
        let mut points = Vec::new();
        for &sessions in bench.sizes.growth.sessions {
            // The largest are row 7.
            let measured = bench
                .idle
                .iter()
                .find(|idle| idle.sessions == sessions && idle.per_connection == per_connection);
            let idle = match measured {
                Some(idle) => Ok(idle.clone()),
                None => idle::run(&bench.sizes, sessions, per_connection, bench.sizes.idle).await?,
            };
            match idle {
                Ok(idle) => {
                    rows.push(vec![
                        format!("{sessions}, {way}"),
                        format!("{:.1} KiB", idle.kib_each()),
                        format!("{:.1} %", idle.spent.coordinator_share()),
                    ]);
                    raw.push(json!({
                        "sessions": sessions,
                        "sessions_per_connection": per_connection,
                        "kib_each": idle.kib_each(),
                        "coordinator_share": idle.spent.coordinator_share(),
                    }));
                    points.push((sessions as f64, idle.kib_each()));
                }
                Err(reason) => rows.push(vec![format!("{sessions}, {way}"), reason, String::new()]),
            }
        }
        curves.push(Curve::new(way, points));
    }
    Ok(Growth {
        title: "Idle sessions",
        header: &["sessions", "memory, each", "coordinator, of a core"],
        rows,
        panels: vec![Panel {
            title: "Memory of an idle session".to_owned(),
            x: Axis::log("sessions"),
            y: Axis::linear("KiB each"),
            curves,
        }],
        raw: json!(raw),
    })
}

/// Measures the same load on more and more coordinators of one Redis, all on this machine.
pub(crate) async fn coordinators(bench: &Bench) -> anyhow::Result<Growth> {
    let mut points = Vec::new();
    for &coordinators in bench.sizes.growth.coordinators {
        let mut stage = Stage::start(coordinators, &bench.sizes).await;
        let rate = cycles::ours(&mut stage, CLIENTS, 1, &bench.sizes).await?;
        let plan = Plan {
            waiters: WAITERS,
            per_connection: 1,
            hold: Duration::from_millis(1),
            measured: bench.sizes.growth.window,
            waiting: None,
        };
        let run = handoff::run(&mut stage, &plan).await?;
        points.push((coordinators, rate.per_second, run));
    }
    let rows = points.iter().map(|(coordinators, rate, run)| {
        vec![
            coordinators.to_string(),
            format!("{:.1} k/s", rate / 1e3),
            format!("{:.2} ms", millis(run.gaps.quantile(0.5))),
            format!("{:.2} ms", millis(run.gaps.quantile(0.99))),
            format!(
                "{:.0} %",
                100.0 * run.crossings as f64 / run.gaps.count().max(1) as f64
            ),
        ]
    });
    let rows = rows.collect();
    let by_coordinators = || Axis::linear("coordinators").from(1.0);
    let panels = vec![
        Panel {
            title: "Rate of 64 clients, one at a time each".to_owned(),
            x: by_coordinators(),
            y: Axis::linear("thousand cycles a second"),
            curves: vec![curve("acquire + release", &points, |(n, rate, _)| {
                (*n as f64, rate / 1e3)
            })],
        },
        Panel {
            title: "Hand-off between coordinators, 100 waiters".to_owned(),
            x: by_coordinators(),
            y: Axis::linear("release to next grant, ms"),
            curves: vec![
                curve("p50", &points, |(n, _, run)| {
                    (*n as f64, millis(run.gaps.quantile(0.5)))
                }),
                curve("p99", &points, |(n, _, run)| {
                    (*n as f64, millis(run.gaps.quantile(0.99)))
                }),
            ],
        },
    ];
    let raw = points.iter().map(|(coordinators, rate, run)| {
        json!({"coordinators": coordinators, "per_second": rate, "hand_off": run.json()})
    });
    Ok(Growth {
        title: "Coordinators",
        header: &[
            "coordinators",
            "rate, 64 clients",
            "hand-off p50",
            "hand-off p99",
            "crossed",
        ],
        rows,
        raw: raw.collect(),
        panels,
    })
}

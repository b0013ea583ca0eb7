//! Row 5: the number of Redis operations while many clients wait for one name.

use std::time::Duration;

use super::Bench;
use crate::{
    figures::{Check, Comparison, Limit, Maybe, Row, Spread},
    polling,
    shared::{
        handoff::{self, HandOffs, Plan},
        stage::Stage,
    },
};

const HOLD: Duration = Duration::from_millis(1);
const NOT_COUNTED: &str = "not measured: the coordinator has no leasehold_store_operations_total";

pub(super) async fn row(bench: &mut Bench) -> anyhow::Result<Row> {
    let waiters = bench.sizes.contenders;
    let (mut checks, mut beside) = (Vec::new(), Vec::new());
    let mut ours = None;
    for (coordinators, limit, place) in [
        (1, 2.1, "on one coordinator"),
        (2, 3.1, "across two coordinators"),
    ] {
        let mut stage = Stage::start(coordinators).await;
        let plan = Plan {
            waiters,
            per_connection: 1,
            hold: HOLD,
            measured: bench.sizes.contended,
            waiting: Some(bench.sizes.waiting),
        };
        let run = handoff::run(&mut stage, &plan).await?;
        let mut check = |what: String, measured: Maybe<f64>, limit, digits| {
            let (what, measured) = (format!("{what} {place}"), measured.map(Spread::once));
            checks.push(Check::new(what, measured, Limit::AtMost(limit), "", digits));
        };
        let figures = Figures::of(&run);
        let a_cycle = figures.as_ref().map(|figures| figures.a_cycle);
        let what = "operations a contended cycle".to_owned();
        check(what, a_cycle.map_err(Clone::clone), limit, 3);
        if let Some(waiting) = &run.waiting {
            // One refresh for each coordinator, name and second. One refresh more than seconds may fall into the measured time.
            let what = format!(
                "operations a coordinator in {:.1} s of waiting only,",
                waiting.seconds
            );
            let operations = waiting.operations.ok_or_else(|| NOT_COUNTED.to_owned());
            let each = operations.map(|operations| operations / coordinators as f64);
            check(what, each, waiting.seconds.round() + 1.0, 1);
        }
        beside.push((format!("Leasehold {place}"), shown(&run)));
        ours = ours.or(figures.ok());
    }
    let mut direct = Stage::start(0).await;
    let polled = polling::run(&mut direct, waiters, HOLD, bench.sizes.contended).await?;
    let theirs = Figures::polled(&polled);
    let every = polling::EVERY.as_millis();
    let count = polled.gaps.count().max(1) as f64;
    let shown = format!(
        "{:.0} operations a cycle, Redis CPU {:.0} µs; {:.0} operations a second, Redis {:.0} % of a core, {count} cycles",
        theirs.a_cycle,
        1e6 * polled.spent.redis_cpu / count,
        theirs.a_second,
        polled.spent.redis_share(),
    );
    beside.push((format!("polling every {every} ms"), shown));
    let compared = |what: &str, ours: f64, polled: f64| {
        let what = format!("{waiters} waiters: Redis operations {what}");
        let mut line = Comparison::new(what, format!("{ours:.1}"));
        line.polling = Some(format!("{polled:.0}"));
        line
    };
    Ok(Row {
        number: "5",
        work: format!("Redis operations, {waiters} waiters"),
        checks,
        beside,
        compared: ours.as_ref().map_or_else(Vec::new, |ours| {
            vec![
                compared("a cycle", ours.a_cycle, theirs.a_cycle),
                compared("a second of waiting", ours.a_second, theirs.a_second),
            ]
        }),
        meaning: ours.map(|ours| {
            let text = format!(
                "While {waiters} clients wait for one lock and nobody releases it, a coordinator asks Redis for {:.1} operations a \
                 second. The same clients polling every {every} ms, with hand-offs going on, ask for {:.0}.",
                ours.a_second, theirs.a_second
            );
            ("Load on Redis", text)
        }),
    })
}

/// Redis's load during one measurement.
struct Figures {
    a_cycle: f64,
    /// While all wait; of those who poll, over the whole run.
    a_second: f64,
}

impl Figures {
    fn of(run: &HandOffs) -> Maybe<Self> {
        let waiting = run.waiting.as_ref().ok_or("not measured")?;
        let count = run.gaps.count().max(1) as f64;
        Ok(Self {
            a_cycle: run.spent.operations.ok_or(NOT_COUNTED)? / count,
            a_second: waiting.operations.ok_or(NOT_COUNTED)? / waiting.seconds,
        })
    }

    fn polled(run: &HandOffs) -> Self {
        let operations = run.spent.calls("set") + run.spent.calls("evalsha");
        Self {
            a_cycle: operations / run.gaps.count().max(1) as f64,
            a_second: operations / run.spent.seconds,
        }
    }
}

fn shown(run: &HandOffs) -> String {
    let count = run.gaps.count();
    let waiting = run.waiting.as_ref().map_or_else(String::new, |waiting| {
        format!(
            "; while waiting only: {:.0} EVALSHA calls in {:.1} s, {}",
            waiting.scripts.calls,
            waiting.seconds,
            waiting.shares()
        )
    });
    format!(
        "each cycle {}; {}, {:.0} % of them crossed{waiting}",
        run.spent.each(count as f64),
        run.shown(),
        100.0 * run.crossings as f64 / count.max(1) as f64,
    )
}

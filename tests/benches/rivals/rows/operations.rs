//! Row 5: the number of Redis operations while many clients wait for one name.

use std::time::Duration;

use serde_json::json;

use super::Bench;
use crate::{
    figures::{Check, Comparison, Limit, Maybe, Row, Spread},
    handoff::{self, HandOffs, Plan},
    polling,
    stage::Stage,
};

const HOLD: Duration = Duration::from_millis(1);
const NOT_COUNTED: &str = "not measured: the coordinator has no leasehold_store_operations_total";

pub(crate) async fn row(bench: &mut Bench) -> anyhow::Result<Row> {
    let waiters = bench.sizes.contenders;
    let mut checks = Vec::new();
    let mut beside = Vec::new();
    let mut raw = serde_json::Map::new();
    let mut alone = None;
    for (coordinators, limit) in [(1, 2.1), (2, 3.1)] {
        let mut stage = Stage::start(coordinators, &bench.sizes).await;
        let plan = Plan {
            waiters,
            per_connection: 1,
            hold: HOLD,
            measured: bench.sizes.contended,
            waiting: Some(bench.sizes.waiting),
        };
        let run = handoff::run(&mut stage, &plan).await?;
        let place = match coordinators {
            1 => "on one coordinator",
            _ => "across two coordinators",
        };
        checks.push(Check {
            what: format!("operations a contended cycle {place}"),
            measured: a_cycle(&run),
            limit: Limit::AtMost(limit),
            unit: "",
            digits: 3,
            from: String::new(),
        });
        checks.extend(free(&run, coordinators, place));
        beside.push((format!("Leasehold {place}"), shown(&run)));
        raw.insert(format!("coordinators_{coordinators}"), run.json());
        alone.get_or_insert(run);
    }
    let mut direct = Stage::start(0, &bench.sizes).await;
    let polled = polling::run(&mut direct, waiters, HOLD, bench.sizes.contended).await?;
    beside.push((
        format!("polling every {} ms", polling::EVERY.as_millis()),
        polled_shown(&polled),
    ));
    raw.insert("polling".to_owned(), polled.json());
    let ours = alone.as_ref().and_then(Figures::of);
    let theirs = Figures::polled(&polled);
    Ok(Row {
        number: "5",
        work: format!("Redis operations, {waiters} waiters"),
        checks,
        beside,
        compared: ours.iter().flat_map(|ours| compared(waiters, ours, &theirs)).collect(),
        meaning: ours.map(|ours| {
            let text = format!(
                "While {waiters} clients wait for one lock and nobody releases it, a coordinator asks Redis for {:.1} operations a \
                 second. The same clients polling every {} ms, with hand-offs going on, ask for {:.0}.",
                ours.a_second,
                polling::EVERY.as_millis(),
                theirs.a_second
            );
            ("Load on Redis", text)
        }),
        raw: json!(raw),
    })
}

/// Redis's load during one measurement.
struct Figures {
    a_cycle: f64,
    /// While all wait; of those who poll, over the whole run.
    a_second: f64,
}

impl Figures {
    fn of(run: &HandOffs) -> Option<Self> {
        let waiting = run.waiting.as_ref()?;
        Some(Self {
            a_cycle: a_cycle(run).ok()?.median(),
            a_second: waiting.operations? / waiting.seconds,
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

fn compared(waiters: usize, ours: &Figures, polled: &Figures) -> [Comparison; 2] {
    [
        Comparison::new(
            format!("{waiters} waiters: Redis operations a cycle"),
            format!("{:.1}", ours.a_cycle),
        )
        .polling(format!("{:.0}", polled.a_cycle)),
        Comparison::new(
            format!("{waiters} waiters: Redis operations a second of waiting"),
            format!("{:.1}", ours.a_second),
        )
        .polling(format!("{:.0}", polled.a_second)),
    ]
}

fn a_cycle(run: &HandOffs) -> Maybe<Spread> {
    let operations = run.spent.operations.ok_or(NOT_COUNTED)?;
    Ok(Spread::once(operations / run.gaps.count().max(1) as f64))
}

/// Checks the operations while waiting only: one refresh for each coordinator, name and second. One refresh more than seconds
/// may fall into the measured time.
fn free(run: &HandOffs, coordinators: usize, place: &str) -> Option<Check> {
    let waiting = run.waiting.as_ref()?;
    let per_coordinator = |operations: f64| operations / coordinators as f64;
    Some(Check {
        what: format!(
            "operations a coordinator in {:.1} s of waiting only, {place}",
            waiting.seconds
        ),
        measured: waiting
            .operations
            .map(|operations| Spread::once(per_coordinator(operations)))
            .ok_or_else(|| NOT_COUNTED.to_owned()),
        limit: Limit::AtMost(waiting.seconds.round() + 1.0),
        unit: "",
        digits: 1,
        from: String::new(),
    })
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
        "each cycle {}; {count} cycles, {:.0} % of the hand-offs crossed{waiting}",
        run.spent.each(count as f64),
        100.0 * run.crossings as f64 / count.max(1) as f64,
    )
}

fn polled_shown(polled: &HandOffs) -> String {
    let count = polled.gaps.count().max(1) as f64;
    let figures = Figures::polled(polled);
    format!(
        "{:.0} operations a cycle, Redis CPU {:.0} µs; {:.0} operations a second, Redis {:.0} % of a core, {count} cycles",
        figures.a_cycle,
        1e6 * polled.spent.redis_cpu / count,
        figures.a_second,
        polled.spent.redis_share(),
    )
}

//! Row 4: hand-offs between waiters who hold for a few milliseconds.

use std::time::Duration;

use serde_json::json;

use super::{Bench, rates::json_of};
use crate::{
    chart::{Curve, Panel},
    distribution::{Distribution, millis},
    figures::{Check, Limit, Maybe, Row, Spread, told},
    handoff::{self, Plan},
    peers::{Rival, Told},
    polling,
    stage::Stage,
};

const WAITERS: usize = 100;
const HOLD: Duration = Duration::from_millis(5);

pub(crate) async fn row(bench: &mut Bench) -> anyhow::Result<Row> {
    let mut stage = Stage::start(1).await;
    let mut direct = Stage::start(0).await;
    let measured = bench.sizes.hand_off;
    let plan = Plan {
        waiters: WAITERS,
        per_connection: 1,
        hold: HOLD,
        measured,
        waiting: None,
    };
    let (mut p50, mut p99, mut fairness) = (Vec::new(), Vec::new(), Vec::new());
    let (mut gaps, mut raw, mut last) = (Distribution::new()?, Vec::new(), None);
    for _ in 0..bench.sizes.repetitions {
        let run = handoff::run(&mut stage, &plan).await?;
        p50.push(millis(run.gaps.quantile(0.5)));
        p99.push(millis(run.gaps.quantile(0.99)));
        fairness.push(run.fairness());
        gaps.add(&run.gaps)?;
        raw.push(run.json());
        last = Some(run);
    }
    let polled = polling::run(&mut direct, WAITERS, HOLD, measured).await?;
    let mut curves = vec![Curve::new("Leasehold", gaps.points())];
    let mut beside = Vec::new();
    if let Some(run) = last {
        let each = run.spent.each(run.gaps.count());
        let shown = format!("last of {}: {}; each {each}", p50.len(), run.shown());
        beside.push(("Leasehold".to_owned(), shown));
    }
    let mut rivals = serde_json::Map::new();
    for rival in [Rival::Etcd, Rival::Rslock] {
        let told_by = bench.peers.hand_off(rival, WAITERS, HOLD).await;
        rivals.insert(rival.name().to_owned(), json_of(&told_by));
        if let Ok(run) = &told_by {
            curves.push(Curve::new(rival.name(), run.points()));
        }
        let name = told_by
            .as_ref()
            .map_or_else(|_| rival.name().to_owned(), Told::version);
        beside.push((name, told(&shown(&told_by))));
    }
    beside.push((
        format!("polling every {} ms", polling::EVERY.as_millis()),
        polled.shown(),
    ));
    curves.push(Curve::new("polling", polled.gaps.points()));
    bench.distributions.push(Panel::latency(
        "Hand-off: release to next grant, 100 waiters, 5 ms held",
        curves,
    ));
    let check = |what: &str, values: Vec<f64>, limit, unit| Check {
        what: what.to_owned(),
        measured: Ok(Spread::from_iter(values)),
        limit: Limit::AtMost(limit),
        unit,
        digits: 2,
        from: String::new(),
    };
    Ok(Row {
        number: "4",
        work: format!("hand-off, {WAITERS} waiters, {} ms held", HOLD.as_millis()),
        checks: vec![
            check("p50, release to next grant", p50, 0.3, " ms"),
            check("p99", p99, 1.0, " ms"),
            check("worst wait, of waiters × mean hold", fairness, 1.1, " ×"),
        ],
        beside,
        raw: json!({"turns": raw, "polling": polled.json(), "rivals": rivals}),
    })
}

fn shown(told_by: &Maybe<Told>) -> Maybe<String> {
    let told = told_by.as_ref().map_err(Clone::clone)?;
    let (worst, hold) = (told.number("worst_wait_ms")?, told.number("mean_hold_ms")?);
    Ok(format!(
        "p50 {:.2} ms, p99 {:.2} ms, worst wait {worst:.0} ms = {:.2} × (waiters × mean hold of {hold:.2} ms), {} hand-offs{}",
        told.number("p50_us")? / 1e3,
        told.number("p99_us")? / 1e3,
        worst / (WAITERS as f64 * hold),
        told.number("grants")?,
        told.settings(),
    ))
}

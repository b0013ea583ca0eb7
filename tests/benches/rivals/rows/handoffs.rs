//! Row 4: hand-offs between waiters who hold for a few milliseconds.

use std::time::Duration;

use leasehold_tests::load::{Distribution, millis, points};
use serde_json::json;

use super::{Bench, rates::json_of};
use crate::{
    chart::{Curve, Panel},
    figures::{Check, Comparison, Limit, Maybe, Row, Spread, told},
    handoff::{self, HandOffs, Plan},
    options::WAITERS,
    peers::{Rival, Told},
    polling,
    stage::Stage,
};

const HOLD: Duration = Duration::from_millis(5);

pub(crate) async fn row(bench: &mut Bench) -> anyhow::Result<Row> {
    let mut stage = Stage::start(1, &bench.sizes).await;
    let mut direct = Stage::start(0, &bench.sizes).await;
    let measured = bench.sizes.hand_off;
    let plan = Plan {
        waiters: WAITERS,
        per_connection: 1,
        hold: HOLD,
        measured,
        waiting: None,
    };
    let (mut p50, mut p99, mut fairness) = (Vec::new(), Vec::new(), Vec::new());
    let mut commands = Vec::new();
    let (mut gaps, mut raw, mut last) = (Distribution::new()?, Vec::new(), None);
    for _ in 0..bench.sizes.repetitions {
        let run = handoff::run(&mut stage, &plan).await?;
        p50.push(millis(run.gaps.quantile(0.5)));
        p99.push(millis(run.gaps.quantile(0.99)));
        fairness.push(run.fairness());
        commands.push(run.spent.commands_each(run.gaps.count() as f64));
        gaps.add(&run.gaps);
        raw.push(run.json());
        last = Some(run);
    }
    let polled = polling::run(&mut direct, WAITERS, HOLD, measured).await?;
    let mut curves = vec![Curve::new("Leasehold", points(&gaps))];
    let mut beside = Vec::new();
    if let Some(run) = last {
        let each = run.spent.each(run.gaps.count() as f64);
        let shown = format!("last of {}: {}; each {each}", p50.len(), run.shown());
        beside.push(("Leasehold".to_owned(), shown));
    }
    let middle = |values: &[f64]| values.iter().copied().collect::<Spread>().median();
    let ours = [middle(&p50), middle(&p99), middle(&fairness)];
    let mut others = Vec::new();
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
        others.push((rival, told_by.and_then(|told| figures(&told))));
    }
    beside.push((
        format!("polling every {} ms", polling::EVERY.as_millis()),
        polled.shown(),
    ));
    curves.push(Curve::new("polling", points(&polled.gaps)));
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
            check("p99", p99, 0.8, " ms"),
            check("worst wait, of waiters × mean hold", fairness, 1.1, " ×"),
            check("Redis commands a cycle", commands, 10.0, ""),
        ],
        beside,
        compared: compared(ours, &others, &polled),
        meaning: Some(("Contention", meaning(ours, &others, polled.fairness()))),
        raw: json!({"turns": raw, "polling": polled.json(), "rivals": rivals}),
    })
}

/// p50 and p99 in milliseconds, and the worst wait as a multiple of a fair one.
type Figures = [f64; 3];

fn figures(told: &Told) -> Maybe<Figures> {
    let (worst, hold) = (told.number("worst_wait_ms")?, told.number("mean_hold_ms")?);
    let millis = |field| told.number(field).map(|micros| micros / 1e3);
    Ok([
        millis("p50_us")?,
        millis("p99_us")?,
        worst / (WAITERS as f64 * hold),
    ])
}

fn compared(
    ours: Figures,
    others: &[(Rival, Maybe<Figures>)],
    polled: &HandOffs,
) -> Vec<Comparison> {
    let polled = [
        millis(polled.gaps.quantile(0.5)),
        millis(polled.gaps.quantile(0.99)),
        polled.fairness(),
    ];
    let lines = [
        ("hand-off, p50", " ms"),
        ("hand-off, p99", " ms"),
        ("longest wait, of a fair one", " ×"),
    ];
    (0..)
        .zip(lines)
        .map(|(place, (what, unit)): (usize, _)| {
            let shown = |figures: &Figures| format!("{:.2}{unit}", figures[place]);
            let what = format!("{WAITERS} waiters, {} ms held: {what}", HOLD.as_millis());
            let line = Comparison::new(what, shown(&ours)).polling(shown(&polled));
            others.iter().fold(line, |line, (rival, figures)| {
                let figure = figures.as_ref().map(shown).map_err(Clone::clone);
                match rival {
                    Rival::Etcd => line.etcd(&figure),
                    Rival::Rslock => line.rslock(&figure),
                }
            })
        })
        .collect()
}

fn meaning(ours: Figures, others: &[(Rival, Maybe<Figures>)], polled: f64) -> String {
    let [p50, _, fairness] = ours;
    let others: String = others
        .iter()
        .filter_map(|(rival, figures)| {
            let [.., fairness] = figures.as_ref().ok()?;
            Some(format!("{fairness:.1} times with {}, ", rival.name()))
        })
        .collect();
    format!(
        "With {WAITERS} clients in the queue, the next one has the lock {p50:.2} ms after its release at p50. The unluckiest client \
         waited {fairness:.1} times as long as a fair queue would have it wait; {others}and {polled:.1} times where clients poll \
         (waits are cut off at the end of the run)."
    )
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

//! Row 4: hand-offs between waiters who hold for a few milliseconds.

use std::time::Duration;

use leasehold_tests::load::{Distribution, millis, points};

use super::Bench;
use crate::{
    figures::{Check, Comparison, Limit, Maybe, Row, Spread, told},
    options::WAITERS,
    peers::{Rival, Told},
    polling,
    shared::{
        chart::{Curve, Panel},
        handoff::{self, HandOffs, Plan},
        stage::Stage,
    },
};

const HOLD: Duration = Duration::from_millis(5);

pub(super) async fn row(bench: &mut Bench) -> anyhow::Result<Row> {
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
    let mut runs = Vec::new();
    let mut gaps = Distribution::new()?;
    for _ in 0..bench.sizes.repetitions {
        let run = handoff::run(&mut stage, &plan).await?;
        gaps.add(&run.gaps);
        runs.push(run);
    }
    let polled = polling::run(&mut direct, WAITERS, HOLD, measured).await?;
    let of = |figure: fn(&HandOffs) -> f64| runs.iter().map(figure).collect::<Spread>();
    let (p50, p99) = (of(|run| ours(run)[0]), of(|run| ours(run)[1]));
    let fairness = of(HandOffs::fairness);
    let commands = of(|run| run.spent.commands_each(run.gaps.count() as f64));
    let middle = [p50.median(), p99.median(), fairness.median()];

    let mut curves = vec![Curve::new("Leasehold", points(&gaps))];
    let mut beside = Vec::new();
    if let Some(run) = runs.last() {
        let each = run.spent.each(run.gaps.count() as f64);
        let shown = format!("last of {}: {}; each {each}", runs.len(), run.shown());
        beside.push(("Leasehold".to_owned(), shown));
    }
    let etcd = bench.peers.hand_off(Rival::Etcd, WAITERS, HOLD).await;
    let rslock = bench.peers.hand_off(Rival::Rslock, WAITERS, HOLD).await;
    for (rival, told_by) in [(Rival::Etcd, &etcd), (Rival::Rslock, &rslock)] {
        curves.extend(rival.curve(told_by));
        beside.push((rival.shown(told_by), told(shown(told_by))));
    }
    let name = format!("polling every {} ms", polling::EVERY.as_millis());
    beside.push((name, polled.shown()));
    curves.push(Curve::new("polling", points(&polled.gaps)));
    let title = "Hand-off: release to next grant, 100 waiters, 5 ms held";
    bench.distributions.push(Panel::latency(title, curves));

    let (etcd, rslock) = (figures(&etcd), figures(&rslock));
    let lines = [
        ("hand-off, p50", " ms"),
        ("hand-off, p99", " ms"),
        ("longest wait, of a fair one", " ×"),
    ];
    let compared = (0..).zip(lines).map(|(place, (what, unit)): (usize, _)| {
        let shown = |figures: Figures| format!("{:.2}{unit}", figures[place]);
        let what = format!("{WAITERS} waiters, {} ms held: {what}", HOLD.as_millis());
        Comparison {
            what,
            ours: shown(middle),
            etcd: Some(etcd.clone().map(shown)),
            rslock: Some(rslock.clone().map(shown)),
            polling: Some(shown(ours(&polled))),
        }
    });
    let check = |what: &str, measured, limit, unit| {
        Check::new(what, Ok(measured), Limit::AtMost(limit), unit, 2)
    };
    Ok(Row {
        number: "4",
        work: format!("hand-off, {WAITERS} waiters, {} ms held", HOLD.as_millis()),
        beside,
        compared: compared.collect(),
        meaning: Some((
            "Contention",
            meaning(middle, &etcd, &rslock, polled.fairness()),
        )),
        checks: vec![
            check("p50, release to next grant", p50, 0.3, " ms"),
            check("p99", p99, 0.8, " ms"),
            check("worst wait, of waiters × mean hold", fairness, 1.1, " ×"),
            check("Redis commands a cycle", commands, 10.0, ""),
        ],
    })
}

/// p50 and p99 in milliseconds, and the worst wait as a multiple of a fair one.
type Figures = [f64; 3];

fn ours(run: &HandOffs) -> Figures {
    let quantile = |share| millis(run.gaps.quantile(share));
    [quantile(0.5), quantile(0.99), run.fairness()]
}

fn figures(told_by: &Maybe<Told>) -> Maybe<Figures> {
    let told = told_by.as_ref().map_err(Clone::clone)?;
    let fair = WAITERS as f64 * told.number("mean_hold_ms")?;
    Ok([
        told.number("p50_us")? / 1e3,
        told.number("p99_us")? / 1e3,
        told.number("worst_wait_ms")? / fair,
    ])
}

fn shown(told_by: &Maybe<Told>) -> Maybe<String> {
    let [p50, p99, fairness] = figures(told_by)?;
    let told = told_by.as_ref().map_err(Clone::clone)?;
    let (worst, hold) = (told.number("worst_wait_ms")?, told.number("mean_hold_ms")?);
    Ok(format!(
        "p50 {p50:.2} ms, p99 {p99:.2} ms, worst wait {worst:.0} ms = {fairness:.2} × (waiters × mean hold of {hold:.2} ms), {} \
         hand-offs{}",
        told.number("grants")?,
        told.settings(),
    ))
}

fn meaning(ours: Figures, etcd: &Maybe<Figures>, rslock: &Maybe<Figures>, polled: f64) -> String {
    let [p50, _, fairness] = ours;
    let of = |name: &str, figures: &Maybe<Figures>| {
        let [.., fairness] = figures.as_ref().ok()?;
        Some(format!("{fairness:.1} times with {name}, "))
    };
    let others = of("etcd", etcd).into_iter().chain(of("rslock", rslock));
    format!(
        "With {WAITERS} clients in the queue, the next one has the lock {p50:.2} ms after its release at p50. The unluckiest client \
         waited {fairness:.1} times as long as a fair queue would have it wait; {}and {polled:.1} times where clients poll \
         (waits are cut off at the end of the run).",
        others.collect::<String>()
    )
}

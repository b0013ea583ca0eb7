//! Rows 1 to 3: uncontended cycles.

use leasehold_tests::load::{Distribution, micros, points};
use serde_json::json;

use super::Bench;
use crate::{
    chart::{Curve, Panel},
    cycles::{self, Cycles},
    figures::{Check, Comparison, Limit, Maybe, Row, Spread, ratios, told},
    handoff::times_json,
    options::{CLIENTS, CYCLES_IN_FLIGHT},
    peers::{Rival, Told},
    pipeline,
    stage::Stage,
};

/// Measures row 1: one cycle in flight on each stream, beside etcd and the echo.
pub(crate) async fn one_each(bench: &mut Bench) -> anyhow::Result<Row> {
    let mut turns = Turns::run(bench, 1, Rival::Etcd).await?;
    let mut row = turns.row("1", "acquire + release, 64 clients, one at a time each");
    row.checks = vec![
        turns.against("etcd", &turns.theirs, Limit::AtLeast(10.0)),
        turns.against(
            "the stream echo",
            &Ok(turns.echo.clone()),
            Limit::AtLeast(0.8),
        ),
    ];
    turns.tell(&mut row);
    let (ours, etcd) = (middle(&turns.ours), turns.their_rate());
    row.compared = vec![
        Comparison::new("64 clients, one cycle at a time each", thousands(ours))
            .etcd(&etcd.clone().map(thousands)),
    ];
    let times = etcd.map_or_else(
        |_| String::new(),
        |etcd| {
            format!(
                ", {:.1} times as many as one etcd member. etcd syncs every commit to its disk, and Redis kept nothing on disk \
                 here: Redis with `appendfsync always` is slower, and promises more",
                ours / etcd
            )
        },
    );
    row.meaning = Some((
        "Throughput",
        format!(
            "One coordinator served {} to 64 clients that each wait for one answer at a time{times}.",
            thousands(ours)
        ),
    ));
    Ok(row)
}

/// Measures row 2: many cycles in flight on each stream, beside rslock.
pub(crate) async fn many_each(bench: &mut Bench) -> anyhow::Result<Row> {
    let mut turns = Turns::run(bench, CYCLES_IN_FLIGHT, Rival::Rslock).await?;
    let mut row = turns.row("2", "the same, 16 in flight on each of 64 streams");
    let limit = Limit::AtLeast(1.3);
    row.checks = vec![turns.against("rslock", &turns.theirs, limit)];
    turns.tell(&mut row);
    let what = "64 clients, 16 cycles in flight each";
    row.compared = vec![
        Comparison::new(what, thousands(middle(&turns.ours)))
            .rslock(&turns.their_rate().map(thousands)),
    ];
    Ok(row)
}

/// Returns the median.
fn middle(values: &[f64]) -> f64 {
    values.iter().copied().collect::<Spread>().median()
}

fn thousands(rate: f64) -> String {
    format!("{:.1} k cycles/s", rate / 1e3)
}

/// Ours, the echo and a rival, in turns.
struct Turns {
    ours: Vec<f64>,
    echo: Vec<f64>,
    theirs: Maybe<Vec<f64>>,
    version: String,
    settings: String,
    piped: f64,
    cost: String,
    times: Distribution,
    raw: Vec<serde_json::Value>,
}

impl Turns {
    async fn run(bench: &mut Bench, depth: usize, rival: Rival) -> anyhow::Result<Self> {
        let mut stage = Stage::start(1, &bench.sizes).await;
        let direct = Stage::start(0, &bench.sizes).await;
        let mut turns = Self {
            ours: Vec::new(),
            echo: Vec::new(),
            theirs: Ok(Vec::new()),
            version: rival.name().to_owned(),
            settings: String::new(),
            piped: 0.0,
            cost: String::new(),
            times: Distribution::new()?,
            raw: Vec::new(),
        };
        for _ in 0..bench.sizes.repetitions {
            let echo = cycles::echo(&bench.echo, CLIENTS, depth, &bench.sizes).await?;
            let ours = cycles::ours(&mut stage, CLIENTS, depth, &bench.sizes).await?;
            let told = bench.peers.cycles(rival, CLIENTS, depth).await;
            turns.echo.push(echo.per_second);
            turns.ours.push(ours.per_second);
            turns.take(&told);
            turns.times.add(&ours.times);
            let spent = ours.spent.as_ref();
            turns.cost = spent.map_or_else(String::new, |spent| {
                format!(
                    "{}; {}",
                    spent.each(ours.times.count() as f64),
                    spent.shares()
                )
            });
            turns.raw.push(json!({
                "per_second": ours.per_second,
                "echo_per_second": echo.per_second,
                "spent": spent.map(crate::stage::Spent::json),
                "rival": told.as_ref().ok().map(Told::json),
            }));
        }
        turns.piped = pipeline::rate(direct.redis(), &bench.sizes).await?;
        Ok(turns)
    }

    fn their_rate(&self) -> Maybe<f64> {
        self.theirs
            .as_ref()
            .map(|rates| middle(rates))
            .map_err(Clone::clone)
    }

    fn take(&mut self, told: &Maybe<Told>) {
        let rate = told.as_ref().map_err(Clone::clone);
        let rate = rate.and_then(|told| told.number("per_second"));
        match (&mut self.theirs, rate) {
            (Ok(rates), Ok(rate)) => rates.push(rate),
            (theirs, Err(reason)) => *theirs = Err(reason),
            (Err(_), Ok(_)) => {}
        }
        if let Ok(told) = told {
            self.version = told.version();
            self.settings = told.settings();
        }
    }

    fn against(&self, whom: &str, theirs: &Maybe<Vec<f64>>, limit: Limit) -> Check {
        let both = theirs
            .as_ref()
            .map(|theirs| format!(": {} to {}", shown(&self.ours), shown(theirs)));
        Check {
            what: format!("rate, of that of {whom}"),
            measured: ratios(&self.ours, theirs),
            limit,
            unit: " ×",
            digits: 2,
            from: both.unwrap_or_default(),
        }
    }

    fn row(&mut self, number: &'static str, work: &str) -> Row {
        let raw = json!({
            "turns": std::mem::take(&mut self.raw),
            "pipelined_redis_per_second": self.piped,
            "times": times_json(&self.times),
        });
        Row {
            number,
            work: work.to_owned(),
            checks: Vec::new(),
            beside: Vec::new(),
            compared: Vec::new(),
            meaning: None,
            raw,
        }
    }

    fn tell(&self, row: &mut Row) {
        let theirs = self.theirs.as_ref();
        let theirs = theirs.map(|rates| format!("{}{}", shown(rates), self.settings));
        let to_echo =
            told(&ratios(&self.ours, &Ok(self.echo.clone())).map(|spread| spread.show(2)));
        row.beside = vec![
            (
                "Leasehold".to_owned(),
                format!("{}; {}", shown(&self.ours), self.cost),
            ),
            (
                "stream echo".to_owned(),
                format!("{}; Leasehold reaches {to_echo} of it", shown(&self.echo)),
            ),
            (self.version.clone(), told(&theirs.map_err(Clone::clone))),
            (
                "pipelined Redis".to_owned(),
                format!("{:.1} k/s", self.piped / 1e3),
            ),
        ];
    }
}

fn shown(rates: &[f64]) -> String {
    let spread: Spread = rates.iter().map(|rate| rate / 1e3).collect();
    format!("{} k/s", spread.show(1))
}

/// Measures row 3: one client alone, beside the round trips that it needs at least.
pub(crate) async fn alone(bench: &mut Bench) -> anyhow::Result<Row> {
    let mut stage = Stage::start(1, &bench.sizes).await;
    let mut direct = Stage::start(0, &bench.sizes).await;
    let (mut ours, mut limit) = (Vec::new(), Vec::new());
    let (mut each, mut each_of_limit) = (String::new(), String::new());
    let mut commands = Err("not counted".to_owned());
    let (mut times, mut raw) = (Distribution::new()?, Vec::new());
    let (mut echoes, mut trips) = (Distribution::new()?, Distribution::new()?);
    for _ in 0..bench.sizes.repetitions {
        let echo = cycles::echo(&bench.echo, 1, 1, &bench.sizes).await?.times;
        let Cycles {
            times: measured,
            spent,
            ..
        } = cycles::ours(&mut stage, 1, 1, &bench.sizes).await?;
        let before = direct.read().await?;
        let redis = pipeline::alone(direct.redis(), &bench.sizes).await?;
        let spent_directly = direct.read().await?.since(&before);
        if let Some(spent) = spent {
            let count = measured.count() as f64;
            each = spent.each(count);
            commands = Ok(Spread::once(spent.commands_each(count)));
        }
        // Cycles of the warm-up count too: each has one SET.
        each_of_limit = spent_directly.each_in_redis(spent_directly.calls("set"));
        ours.push(micros(measured.quantile(0.5)));
        limit.push(micros(echo.quantile(0.5)) + micros(redis.quantile(0.5)));
        raw.push(json!({
            "ours": times_json(&measured), "echo": times_json(&echo), "redis": times_json(&redis),
        }));
        times.add(&measured);
        echoes.add(&echo);
        trips.add(&redis);
    }
    let etcd = bench.peers.cycles(Rival::Etcd, 1, 1).await;
    let rslock = bench.peers.cycles(Rival::Rslock, 1, 1).await;

    let mut curves = vec![Curve::new("Leasehold", points(&times))];
    let mut beside = vec![
        (
            "Leasehold".to_owned(),
            format!(
                "p50 {} µs, p99 {:.0} µs; in the last turn, a cycle took {each}",
                ours.iter().copied().collect::<Spread>().show(0),
                micros(times.quantile(0.99))
            ),
        ),
        (
            "limit: two stream and two Redis round trips".to_owned(),
            format!(
                "p50 {} µs (of it the streams {:.0} µs, Redis {:.0} µs); in the last turn, a cycle took {each_of_limit}",
                limit.iter().copied().collect::<Spread>().show(0),
                micros(echoes.quantile(0.5)),
                micros(trips.quantile(0.5))
            ),
        ),
    ];
    for (rival, told_by) in [(Rival::Etcd, &etcd), (Rival::Rslock, &rslock)] {
        let (name, figure) = alone_beside(rival, told_by, micros(times.quantile(0.5)));
        curves.extend(
            told_by
                .as_ref()
                .ok()
                .map(|told| Curve::new(rival.name(), told.points())),
        );
        beside.push((name, figure));
    }
    curves.push(Curve::new("two Redis round trips", points(&trips)));
    bench.distributions.push(Panel::latency(
        "One client alone: acquire + release",
        curves,
    ));
    let micros_of = |values: &[f64]| values.iter().copied().collect::<Spread>().show(0);
    let from = format!(": {} to {} µs", micros_of(&ours), micros_of(&limit));
    let p99 = micros(times.quantile(0.99));
    let compared = alone_compared(middle(&ours), p99, &etcd, &rslock);
    let meaning = alone_means(middle(&ours), &etcd, &rslock);
    Ok(Row {
        number: "3",
        work: "one client alone, p50 of a cycle".to_owned(),
        checks: vec![
            Check {
                what: "p50, of two stream and two Redis round trips".to_owned(),
                measured: ratios(&ours, &Ok(limit)),
                limit: Limit::AtMost(1.1),
                unit: " ×",
                digits: 2,
                from,
            },
            Check {
                what: "Redis commands a cycle".to_owned(),
                measured: commands,
                limit: Limit::AtMost(6.0),
                unit: "",
                digits: 1,
                from: String::new(),
            },
        ],
        beside,
        compared,
        meaning: Some(("Latency", meaning)),
        raw: json!({"turns": raw, "etcd": json_of(&etcd), "rslock": json_of(&rslock)}),
    })
}

fn alone_compared(p50: f64, p99: f64, etcd: &Maybe<Told>, rslock: &Maybe<Told>) -> Vec<Comparison> {
    [("p50", p50), ("p99", p99)]
        .into_iter()
        .map(|(quantile, ours)| {
            let shown = |micros: f64| format!("{micros:.0} µs");
            let theirs = |told: &Maybe<Told>| {
                let told = told.as_ref().map_err(Clone::clone)?;
                told.number(&format!("{quantile}_us")).map(shown)
            };
            Comparison::new(
                format!("one client alone, {quantile} of a cycle"),
                shown(ours),
            )
            .etcd(&theirs(etcd))
            .rslock(&theirs(rslock))
        })
        .collect()
}

fn alone_means(ours: f64, etcd: &Maybe<Told>, rslock: &Maybe<Told>) -> String {
    let p50 = |told: &Maybe<Told>| told.as_ref().ok()?.number("p50_us").ok();
    let mut text = format!(
        "A client alone acquires and releases a lock that nobody else wants in {ours:.0} µs at p50"
    );
    if let Some(etcd) = p50(etcd) {
        text += &format!(", and in {etcd:.0} µs with etcd");
    }
    text += ".";
    if let Some(rslock) = p50(rslock) {
        text += &format!(
            " rslock, a library that speaks to Redis without a coordinator in between, takes {rslock:.0} µs: if all you need is a \
             key with a TTL, and neither a queue nor leases nor fencing tokens, a library is faster."
        );
    }
    text
}

fn alone_beside(rival: Rival, told_by: &Maybe<Told>, ours: f64) -> (String, String) {
    let figures = told_by.as_ref().map_err(Clone::clone).and_then(|told| {
        let (p50, p99) = (told.number("p50_us")?, told.number("p99_us")?);
        Ok(format!(
            "p50 {p50:.0} µs, p99 {p99:.0} µs; Leasehold takes {:.2} × as long{}",
            ours / p50,
            told.settings(),
        ))
    });
    let name = told_by
        .as_ref()
        .map_or_else(|_| rival.name().to_owned(), Told::version);
    (name, told(&figures))
}

pub(crate) fn json_of(told_by: &Maybe<Told>) -> serde_json::Value {
    match told_by {
        Ok(told) => told.json(),
        Err(reason) => json!(reason),
    }
}

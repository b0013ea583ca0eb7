//! Rows 1 to 3: uncontended cycles.

use leasehold_tests::load::{Distribution, micros, points};

use super::Bench;
use crate::{
    figures::{Check, Comparison, Limit, Maybe, Row, Spread, ratios, told},
    options::{CLIENTS, CYCLES_IN_FLIGHT},
    peers::{Rival, Told},
    pipeline,
    shared::{
        chart::{Curve, Panel},
        cycles::{self, Cycles},
        stage::Stage,
    },
};

/// Measures row 1: one cycle in flight on each stream, beside etcd and the echo.
pub(super) async fn one_each(bench: &mut Bench) -> anyhow::Result<Row> {
    let turns = Turns::run(bench, 1, Rival::Etcd).await?;
    let (ours, etcd) = (Spread::of(&turns.ours).median(), turns.their_rate());
    let mut compared = Comparison::new("64 clients, one cycle at a time each", thousands(ours));
    compared.etcd = Some(etcd.clone().map(thousands));
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
    let meaning = format!(
        "One coordinator served {} to 64 clients that each wait for one answer at a time{times}.",
        thousands(ours)
    );
    let echo = Ok(turns.echo.clone());
    Ok(Row {
        number: "1",
        work: "acquire + release, 64 clients, one at a time each".to_owned(),
        checks: vec![
            turns.against("etcd", &turns.theirs, 10.0),
            turns.against("the stream echo", &echo, 0.8),
        ],
        beside: turns.beside(),
        compared: vec![compared],
        meaning: Some(("Throughput", meaning)),
    })
}

/// Measures row 2: many cycles in flight on each stream, beside rslock.
pub(super) async fn many_each(bench: &mut Bench) -> anyhow::Result<Row> {
    let turns = Turns::run(bench, CYCLES_IN_FLIGHT, Rival::Rslock).await?;
    let ours = thousands(Spread::of(&turns.ours).median());
    let mut compared = Comparison::new("64 clients, 16 cycles in flight each", ours);
    compared.rslock = Some(turns.their_rate().map(thousands));
    Ok(Row {
        number: "2",
        work: "the same, 16 in flight on each of 64 streams".to_owned(),
        checks: vec![turns.against("rslock", &turns.theirs, 1.3)],
        beside: turns.beside(),
        compared: vec![compared],
        meaning: None,
    })
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
}

impl Turns {
    async fn run(bench: &mut Bench, depth: usize, rival: Rival) -> anyhow::Result<Self> {
        let mut stage = Stage::start(1).await;
        let direct = Stage::start(0).await;
        let mut turns = Self {
            ours: Vec::new(),
            echo: Vec::new(),
            theirs: Ok(Vec::new()),
            version: rival.name().to_owned(),
            settings: String::new(),
            piped: 0.0,
            cost: String::new(),
        };
        for _ in 0..bench.sizes.repetitions {
            let echo = cycles::echo(&bench.echo, CLIENTS, depth, &bench.sizes).await?;
            let ours = cycles::ours(&mut stage, CLIENTS, depth, &bench.sizes).await?;
            turns.echo.push(echo.per_second);
            turns.ours.push(ours.per_second);
            turns.take(&bench.peers.cycles(rival, CLIENTS, depth).await);
            if let Some(spent) = &ours.spent {
                let each = spent.each(ours.times.count() as f64);
                turns.cost = format!("{each}; {}", spent.shares());
            }
        }
        turns.piped = pipeline::rate(direct.redis(), &bench.sizes).await?;
        Ok(turns)
    }

    fn their_rate(&self) -> Maybe<f64> {
        let rates = self.theirs.as_ref().map_err(Clone::clone)?;
        Ok(Spread::of(rates).median())
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

    fn against(&self, whom: &str, theirs: &Maybe<Vec<f64>>, at_least: f64) -> Check {
        let what = format!("rate, of that of {whom}");
        let ratio = ratios(&self.ours, theirs);
        let check = Check::new(what, ratio, Limit::AtLeast(at_least), " ×", 2);
        match theirs {
            Ok(theirs) => check.from(format!(": {} to {}", shown(&self.ours), shown(theirs))),
            Err(_) => check,
        }
    }

    fn beside(&self) -> Vec<(String, String)> {
        let theirs = self.theirs.as_ref();
        let theirs = theirs.map(|rates| format!("{}{}", shown(rates), self.settings));
        let to_echo = ratios(&self.ours, &Ok(self.echo.clone()));
        let to_echo = told(to_echo.map(|spread| spread.show(2)));
        let echo = format!("{}; Leasehold reaches {to_echo} of it", shown(&self.echo));
        let ours = format!("{}; {}", shown(&self.ours), self.cost);
        vec![
            ("Leasehold".to_owned(), ours),
            ("stream echo".to_owned(), echo),
            (self.version.clone(), told(theirs.map_err(Clone::clone))),
            ("pipelined Redis".to_owned(), shown(&[self.piped])),
        ]
    }
}

fn shown(rates: &[f64]) -> String {
    let spread: Spread = rates.iter().map(|rate| rate / 1e3).collect();
    format!("{} k/s", spread.show(1))
}

/// Measures row 3: one client alone, beside the round trips that it needs at least.
pub(super) async fn alone(bench: &mut Bench) -> anyhow::Result<Row> {
    let mut stage = Stage::start(1).await;
    let mut direct = Stage::start(0).await;
    let (mut ours, mut limit) = (Vec::new(), Vec::new());
    let (mut each, mut each_of_limit) = (String::new(), String::new());
    let mut commands = Err("not counted".to_owned());
    let mut times = Distribution::new()?;
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
        times.add(&measured);
        echoes.add(&echo);
        trips.add(&redis);
    }
    let etcd = bench.peers.cycles(Rival::Etcd, 1, 1).await;
    let rslock = bench.peers.cycles(Rival::Rslock, 1, 1).await;

    let (our_p50, of_limit) = (Spread::of(&ours), Spread::of(&limit));
    let mut curves = vec![Curve::new("Leasehold", points(&times))];
    let mut beside = vec![
        (
            "Leasehold".to_owned(),
            format!(
                "p50 {} µs, p99 {:.0} µs; in the last turn, a cycle took {each}",
                our_p50.show(0),
                micros(times.quantile(0.99))
            ),
        ),
        (
            "limit: two stream and two Redis round trips".to_owned(),
            format!(
                "p50 {} µs (of it the streams {:.0} µs, Redis {:.0} µs); in the last turn, a cycle took {each_of_limit}",
                of_limit.show(0),
                micros(echoes.quantile(0.5)),
                micros(trips.quantile(0.5))
            ),
        ),
    ];
    for (rival, told_by) in [(Rival::Etcd, &etcd), (Rival::Rslock, &rslock)] {
        let ours = micros(times.quantile(0.5));
        let figures = told_by.as_ref().map_err(Clone::clone).and_then(|told| {
            let (p50, p99) = (told.number("p50_us")?, told.number("p99_us")?);
            Ok(format!(
                "p50 {p50:.0} µs, p99 {p99:.0} µs; Leasehold takes {:.2} × as long{}",
                ours / p50,
                told.settings(),
            ))
        });
        beside.push((rival.shown(told_by), told(figures)));
        curves.extend(rival.curve(told_by));
    }
    curves.push(Curve::new("two Redis round trips", points(&trips)));
    let title = "One client alone: acquire + release";
    bench.distributions.push(Panel::latency(title, curves));

    let p99 = micros(times.quantile(0.99));
    let compared = [("p50", our_p50.median()), ("p99", p99)].map(|(quantile, ours)| {
        let shown = |micros: f64| format!("{micros:.0} µs");
        let theirs = |told: &Maybe<Told>| {
            let told = told.as_ref().map_err(Clone::clone)?;
            told.number(&format!("{quantile}_us")).map(shown)
        };
        let what = format!("one client alone, {quantile} of a cycle");
        let mut line = Comparison::new(what, shown(ours));
        (line.etcd, line.rslock) = (Some(theirs(&etcd)), Some(theirs(&rslock)));
        line
    });
    let from = format!(": {} to {} µs", our_p50.show(0), of_limit.show(0));
    let ratio = ratios(&ours, &Ok(limit));
    let what = "p50, of two stream and two Redis round trips";
    Ok(Row {
        number: "3",
        work: "one client alone, p50 of a cycle".to_owned(),
        checks: vec![
            Check::new(what, ratio, Limit::AtMost(1.1), " ×", 2).from(from),
            Check::new(
                "Redis commands a cycle",
                commands,
                Limit::AtMost(6.0),
                "",
                1,
            ),
        ],
        beside,
        compared: compared.to_vec(),
        meaning: Some(("Latency", alone_means(our_p50.median(), &etcd, &rslock))),
    })
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

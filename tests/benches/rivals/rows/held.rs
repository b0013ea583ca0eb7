//! Row 6: locks that are held for long, and cost renewals and memory.

use std::time::Duration;

use serde_json::json;

use super::{Bench, idle::OTHERS};
use crate::{
    crowd::{Crowd, Kept, TTL},
    figures::{Check, Limit, Maybe, Row, Spread, told},
    options::Sizes,
    stage::{Spent, Stage, allow_files},
};

/// Figures of a run.
pub(crate) struct Held {
    pub(crate) locks: usize,
    sessions: usize,
    pub(crate) kept: Kept,
    /// Over the time in which all were held.
    pub(crate) spent: Spent,
    rss_before_kib: f64,
}

impl Held {
    /// Returns the number of locks that were reported or found lost. If a client's own deadline passed, all of its locks count.
    pub(crate) fn lost(&self) -> usize {
        self.kept.told_lost + self.kept.found_lost + self.kept.lapses * (self.locks / self.sessions)
    }

    pub(crate) fn kib_each(&self) -> f64 {
        (self.spent.rss_kib - self.rss_before_kib) / self.locks as f64
    }

    fn shown(&self) -> String {
        format!(
            "held for {:.0} s: {}; {} heartbeats in all; {} told lost, {} found lost at the release of each, {} deadlines of clients passed",
            self.spent.seconds,
            self.spent.shares(),
            self.kept.heartbeats,
            self.kept.told_lost,
            self.kept.found_lost,
            self.kept.lapses,
        )
    }

    fn json(&self) -> serde_json::Value {
        json!({
            "locks": self.locks,
            "sessions": self.sessions,
            "granted": self.kept.granted,
            "told_lost": self.kept.told_lost,
            "found_lost": self.kept.found_lost,
            "lapses": self.kept.lapses,
            "heartbeats": self.kept.heartbeats,
            "rss_before_kib": self.rss_before_kib,
            "spent": self.spent.json(),
        })
    }
}

/// Holds `locks` over `sessions`, each with a connection of its own, for as long as `time`.
pub(crate) async fn run(
    sizes: &Sizes,
    sessions: usize,
    locks: usize,
    time: Duration,
) -> anyhow::Result<Held> {
    let mut stage = Stage::start(1, sizes).await;
    let endpoint = stage.endpoints().remove(0);
    let mut crowd = Crowd::open(&endpoint, sessions, 1, locks / sessions, TTL).await?;
    crowd.live(sizes.settle).await?;
    let rss_before_kib = stage.read().await?.rss_kib;
    crowd.acquire().await?;
    crowd.live(sizes.settle).await?;
    let before = stage.read().await?;
    crowd.live(time).await?;
    let spent = stage.read().await?.since(&before);
    let kept = crowd.release().await?;
    anyhow::ensure!(kept.granted == locks, "{} of {locks} granted", kept.granted);
    Ok(Held {
        locks,
        sessions,
        kept,
        spent,
        rss_before_kib,
    })
}

pub(crate) async fn row(bench: &mut Bench) -> anyhow::Result<Row> {
    let (locks, sessions) = (bench.sizes.held_locks, bench.sizes.holding_sessions);
    let held = run(&bench.sizes, sessions, locks, bench.sizes.held).await?;
    let many = bench.sizes.many_holding_sessions;
    let by_many = match allow_files(many as u64 + OTHERS) {
        Ok(()) => Ok(run(&bench.sizes, many, locks, bench.sizes.held).await?),
        Err(reason) => Err(reason),
    };
    let lost_by_many = by_many.as_ref().map(|held| held.lost() as f64);
    let of_all = |value: f64| Ok(Spread::once(value));
    let check = |what: &str, measured: Maybe<Spread>, limit, unit, digits| Check {
        what: what.to_owned(),
        measured,
        limit: Limit::AtMost(limit),
        unit,
        digits,
        from: String::new(),
    };
    let row = Row {
        number: "6",
        work: format!(
            "{locks} held locks over {sessions} sessions, TTL {} s",
            TTL.as_secs()
        ),
        checks: vec![
            check("lost", of_all(held.lost() as f64), 0.0, "", 0),
            check(
                &format!("lost, over {many} sessions"),
                lost_by_many.map(Spread::once).map_err(Clone::clone),
                0.0,
                "",
                0,
            ),
            check(
                "coordinator's CPU",
                of_all(held.spent.coordinator_share()),
                15.0,
                " % of a core",
                1,
            ),
            check(
                "coordinator's memory, each lock",
                of_all(held.kib_each()),
                1.0,
                " KiB",
                2,
            ),
        ],
        beside: vec![
            ("Leasehold".to_owned(), held.shown()),
            ("Redis, by command".to_owned(), held.spent.by_command()),
            (
                format!("Leasehold, the locks over {many} sessions"),
                told(&by_many.as_ref().map(Held::shown).map_err(Clone::clone)),
            ),
        ],
        compared: Vec::new(),
        meaning: Some((
            "Held locks",
            format!(
                "{locks} locks that {sessions} clients hold take {:.1} % of a core and {:.2} KiB for each lock in the coordinator, \
                 and {:.1} % of a core in Redis.",
                held.spent.coordinator_share(),
                held.kib_each(),
                held.spent.redis_share(),
            ),
        )),
        raw: json!([held.json(), by_many.as_ref().ok().map(Held::json)]),
    };
    bench.held = Some(held);
    Ok(row)
}

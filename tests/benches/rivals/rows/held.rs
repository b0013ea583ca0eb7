//! Row 6: locks that are held for long, and cost renewals and memory.

use super::Bench;
use crate::{
    figures::{Check, Limit, Maybe, Row, Spread, told},
    options::Sizes,
    shared::{
        crowd::{Crowd, Kept, TTL},
        stage::{OTHER_FILES, Spent, Stage, allow_files},
    },
};

/// Figures of a run.
struct Held {
    locks: usize,
    sessions: usize,
    kept: Kept,
    /// Over the time in which all were held.
    spent: Spent,
    rss_before_kib: f64,
}

impl Held {
    /// Holds as many locks as `sizes` has over `sessions`, each with a connection of its own.
    async fn run(sizes: &Sizes, sessions: usize) -> anyhow::Result<Self> {
        let locks = sizes.held_locks;
        let mut stage = Stage::start(1).await;
        let endpoint = stage.endpoints().remove(0);
        let mut crowd = Crowd::open(&endpoint, sessions, 1, locks / sessions, TTL).await?;
        crowd.live(sizes.settle).await?;
        let rss_before_kib = stage.read().await?.rss_kib;
        crowd.acquire().await?;
        let (_, spent) = crowd.spend(&mut stage, sizes.settle, sizes.held).await?;
        let kept = crowd.release().await?;
        anyhow::ensure!(kept.granted == locks, "{} of {locks} granted", kept.granted);
        Ok(Self {
            locks,
            sessions,
            kept,
            spent,
            rss_before_kib,
        })
    }

    /// Returns the number of locks that were reported or found lost. If a client's own deadline passed, all of its locks count.
    fn lost(&self) -> f64 {
        let lapsed = self.kept.lapses * (self.locks / self.sessions);
        (self.kept.told_lost + self.kept.found_lost + lapsed) as f64
    }

    fn kib_each(&self) -> f64 {
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
}

pub(super) async fn row(bench: &mut Bench) -> anyhow::Result<Row> {
    let (locks, sessions) = (bench.sizes.held_locks, bench.sizes.holding_sessions);
    let held = Held::run(&bench.sizes, sessions).await?;
    let many = bench.sizes.many_holding_sessions;
    let by_many: Maybe<Held> = match allow_files(many as u64 + OTHER_FILES) {
        Ok(()) => Ok(Held::run(&bench.sizes, many).await?),
        Err(reason) => Err(reason),
    };
    let by_many = by_many.as_ref().map_err(Clone::clone);
    let check = |what: &str, measured: Maybe<f64>, limit, unit, digits| {
        let measured = measured.map(Spread::once);
        Check::new(what, measured, Limit::AtMost(limit), unit, digits)
    };
    let share = held.spent.coordinator_share();
    Ok(Row {
        number: "6",
        work: format!(
            "{locks} held locks over {sessions} sessions, TTL {} s",
            TTL.as_secs()
        ),
        checks: vec![
            check("lost", Ok(held.lost()), 0.0, "", 0),
            check(
                &format!("lost, over {many} sessions"),
                by_many.clone().map(Held::lost),
                0.0,
                "",
                0,
            ),
            check("coordinator's CPU", Ok(share), 15.0, " % of a core", 1),
            check(
                "coordinator's memory, each lock",
                Ok(held.kib_each()),
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
                told(by_many.map(Held::shown)),
            ),
        ],
        compared: Vec::new(),
        meaning: Some((
            "Held locks",
            format!(
                "{locks} locks that {sessions} clients hold take {share:.1} % of a core and {:.2} KiB for each lock in the \
                 coordinator, and {:.1} % of a core in Redis.",
                held.kib_each(),
                held.spent.redis_share(),
            ),
        )),
    })
}

//! Checks of the model: loads that no constant was measured with, beside what the model predicts.

use anyhow::{Context, ensure};

use crate::{
    constants,
    model::{Constants, Load, Needed},
    options::{CLIENTS, SHARED, Sizes},
    shared::{
        crowd::TTL,
        cycles,
        stage::{Reading, Spent, Stage},
    },
};

/// Coordinators of the check on a cluster.
const COORDINATORS: usize = 3;

/// A figure that was predicted and measured.
pub(crate) struct Figure {
    pub(crate) what: &'static str,
    pub(crate) unit: &'static str,
    pub(crate) predicted: f64,
    pub(crate) measured: f64,
}

/// A load, and its figures.
pub(crate) struct Check {
    pub(crate) load: String,
    pub(crate) figures: Vec<Figure>,
}

impl Check {
    /// Puts what was spent beside what is needed, and the memory that was taken since `before`, if it has to do with the load.
    fn new(load: String, needed: &Needed, spent: &Spent, before: Option<&Reading>) -> Self {
        const MIB: f64 = 1024.0 * 1024.0;
        let mut figures = Vec::new();
        let mut figure = |what, unit, predicted, measured| {
            // Nothing is predicted of what the load does not use.
            if predicted > 0.0 {
                figures.push(Figure {
                    what,
                    unit,
                    predicted,
                    measured,
                });
            }
        };
        let cpu = " % of a core";
        let (ours, redis) = (100.0 * needed.coordinator_cores, 100.0 * needed.redis_cores);
        figure("coordinators, CPU", cpu, ours, spent.coordinator_share());
        figure("Redis, CPU", cpu, redis, spent.redis_share());
        let traffic = spent.redis_traffic / spent.seconds / 1e6;
        figure(
            "Redis, traffic",
            " MB/s",
            needed.redis_traffic / 1e6,
            traffic,
        );
        if let Some(before) = before {
            let ours = (spent.rss_kib - before.rss_kib) / 1024.0;
            let redis = (spent.redis_bytes - before.redis_bytes) / MIB;
            let (needs, redis_needs) = (needed.coordinator_bytes / MIB, needed.redis_bytes / MIB);
            figure("coordinators, memory", " MiB", needs, ours);
            figure("Redis, memory", " MiB", redis_needs, redis);
        }
        Self { load, figures }
    }
}

/// Checks many held locks, with a longer TTL than that of the constants.
pub(crate) async fn held(sizes: &Sizes, constants: &Constants) -> anyhow::Result<Check> {
    let (sessions, locks_each) = sizes.check_holders;
    let locks = sessions * locks_each;
    let mut stage = Stage::start(1).await;
    let before = stage.read().await?;
    let mut crowd = constants::open(&stage, sessions, 1, locks_each, sizes.check_ttl).await?;
    crowd.acquire().await?;
    let (_, spent) = crowd.spend(&mut stage, sizes.settle, sizes.rest).await?;
    let kept = crowd.release().await?;
    ensure!(
        kept.told_lost + kept.found_lost == 0,
        "locks were lost: {kept:?}"
    );
    let ttl = sizes.check_ttl.as_secs_f64();
    let load = Load::held(sessions as f64, locks as f64, ttl);
    let what = format!(
        "{locks} held locks of {sessions} sessions, TTL {} s, none lost",
        sizes.check_ttl.as_secs()
    );
    let needed = constants.needed(&load);
    Ok(Check::new(what, &needed, &spent, Some(&before)))
}

/// Checks many sessions that rest.
pub(crate) async fn resting(sizes: &Sizes, constants: &Constants) -> anyhow::Result<Check> {
    let sessions = sizes.check_sessions;
    let mut stage = Stage::start(1).await;
    let before = stage.read().await?;
    let mut crowd = constants::open(&stage, sessions, SHARED, 0, TTL).await?;
    let (_, spent) = crowd.spend(&mut stage, sizes.settle, sizes.rest).await?;
    let load = Load::resting(sessions as f64);
    let what = format!("{sessions} sessions that hold nothing, {SHARED} on a connection");
    let needed = constants.needed(&load);
    Ok(Check::new(what, &needed, &spent, Some(&before)))
}

/// Checks cycles on three coordinators and a cluster of three shards. The rate and the calls are the measured ones.
pub(crate) async fn cluster(sizes: &Sizes, constants: &Constants) -> anyhow::Result<Check> {
    let mut stage = Stage::on_cluster(COORDINATORS).await;
    let run = cycles::ours(&mut stage, COORDINATORS * CLIENTS, 1, sizes).await?;
    let spent = run.spent.context("nothing was read")?;
    let calls = spent.scripts.calls / run.times.count().max(1) as f64;
    let load = Load {
        calls: Some(calls),
        ..Load::cycles(run.per_second)
    };
    let what = format!(
        "{:.1} k acquires and releases a second in {calls:.2} calls each, {} clients, {COORDINATORS} coordinators, a cluster of three \
         shards",
        run.per_second / 1e3,
        COORDINATORS * CLIENTS
    );
    Ok(Check::new(what, &constants.needed(&load), &spent, None))
}

//! Measurement of the model's constants, each from loads of one kind.

use std::time::Duration;

use anyhow::{Context, ensure};
use leasehold_tests::raw;

use crate::{
    model::{Constants, Cost, Room, solve},
    options::{CLIENTS, IN_FLIGHT, SHARED, Sizes},
    shared::{
        crowd::{Crowd, TTL},
        cycles,
        handoff::{self, Plan},
        stage::{OTHER_FILES, Reading, Spent, Stage, allow_files},
        stream::Stream,
    },
};

/// Long enough that nothing is renewed meanwhile.
pub(crate) const QUIET: Duration = Duration::from_secs(300);
/// Clients that keep a machine busy, though nearly each of their requests is a call of its own.
const FEW: usize = 4;
/// Connections of waiters, however many there are: answers of one connection are written together.
const CONNECTIONS: usize = 10;

/// Opens sessions on the first coordinator, which will acquire as many locks each; fails if there are not enough file descriptors.
pub(crate) async fn open(
    stage: &Stage,
    sessions: usize,
    per_connection: usize,
    locks_each: usize,
    ttl: Duration,
) -> anyhow::Result<Crowd> {
    let connections = sessions.div_ceil(per_connection) as u64;
    allow_files(connections + OTHER_FILES).map_err(anyhow::Error::msg)?;
    let endpoint = stage.endpoints().remove(0);
    Crowd::open(&endpoint, sessions, per_connection, locks_each, ttl).await
}

fn room(before: &Reading, after: &Reading, count: usize) -> Room {
    Room {
        coordinator: 1024.0 * (after.rss_kib - before.rss_kib) / count as f64,
        redis: (after.redis_bytes - before.redis_bytes) / count as f64,
    }
}

fn each(spent: &Spent, count: f64) -> Cost {
    Cost {
        coordinator: spent.coordinator_cpu / count,
        redis: spent.redis_cpu / count,
        client_traffic: spent.client_traffic / count,
        redis_traffic: spent.redis_traffic / count,
        calls: spent.scripts.calls / count,
    }
}

/// Measures sessions that hold nothing: those on shared connections, and those on their own.
pub(crate) async fn resting(sizes: &Sizes, into: &mut Constants) -> anyhow::Result<()> {
    for per_connection in [SHARED, 1] {
        let mut stage = Stage::start(1).await;
        let before = stage.read().await?;
        let mut crowd = open(&stage, sizes.idle_sessions, per_connection, 0, TTL).await?;
        let (opened, spent) = crowd.spend(&mut stage, sizes.settle, sizes.rest).await?;
        let session = room(&before, &opened, sizes.idle_sessions);
        let rest = each(&spent, sizes.idle_sessions as f64);
        if per_connection == 1 {
            (into.rest_alone, into.session_alone) = (rest, session);
        } else {
            (into.rest, into.session) = (rest, session);
            into.nothing = Room {
                coordinator: 1024.0 * before.rss_kib,
                redis: before.redis_bytes,
            };
        }
    }
    // A session that rests asks Redis for nothing: what was counted is what Redis and the coordinator do for themselves.
    for cost in [&mut into.rest, &mut into.rest_alone] {
        (cost.redis, cost.redis_traffic, cost.calls) = (0.0, 0.0, 0.0);
    }
    (into.session.redis, into.session_alone.redis) = (0.0, 0.0);
    Ok(())
}

/// Measures heartbeats and renewals, from many locks of few sessions and few locks of many.
pub(crate) async fn held(sizes: &Sizes, into: &mut Constants) -> anyhow::Result<()> {
    let mut runs = Vec::new();
    for (sessions, locks_each) in sizes.holders {
        let mut stage = Stage::start(1).await;
        let mut crowd = open(&stage, sessions, 1, locks_each, TTL).await?;
        crowd.live(sizes.settle).await?;
        let before = stage.read().await?;
        crowd.acquire().await?;
        let (held, spent) = crowd.spend(&mut stage, sizes.settle, sizes.held).await?;
        let kept = crowd.release().await?;
        ensure!(kept.told_lost + kept.found_lost == 0, "locks were lost");
        if runs.is_empty() {
            into.lock = room(&before, &held, sessions * locks_each);
        }
        let beats = sessions as f64 * spent.seconds * 3.0 / TTL.as_secs_f64();
        runs.push((beats, spent));
    }
    let [(few, of_few), (many, of_many)] =
        <[_; 2]>::try_from(runs).map_err(|_| anyhow::anyhow!("two measurements"))?;
    let renewals = |spent: &Spent| spent.calls("getex");
    let both = |of: fn(&Spent) -> f64| {
        solve(
            [few, renewals(&of_few), of(&of_few)],
            [many, renewals(&of_many), of(&of_many)],
        )
    };
    (into.beat.coordinator, into.renewal.coordinator) = both(|spent| spent.coordinator_cpu);
    (into.beat.redis, into.renewal.redis) = both(|spent| spent.redis_cpu);
    (into.beat.calls, into.renewal.calls) = both(|spent| spent.scripts.calls);
    (into.beat.redis_traffic, into.renewal.redis_traffic) = both(|spent| spent.redis_traffic);
    Ok(())
}

/// Measures uncontended acquires with their releases: medians of several runs.
pub(crate) async fn cycles(sizes: &Sizes, into: &mut Constants) -> anyhow::Result<()> {
    let mut stage = Stage::start(1).await;
    into.few_each = cycles_of(&mut stage, FEW, 1, sizes).await?;
    into.one_each = cycles_of(&mut stage, CLIENTS, 1, sizes).await?;
    into.many_each = cycles_of(&mut stage, CLIENTS, IN_FLIGHT, sizes).await?;
    Ok(())
}

/// Returns what a cycle costs, in the middle of several runs.
async fn cycles_of(
    stage: &mut Stage,
    clients: usize,
    depth: usize,
    sizes: &Sizes,
) -> anyhow::Result<Cost> {
    let mut costs = Vec::new();
    for _ in 0..sizes.repetitions {
        costs.push(cycle(stage, clients, depth, sizes).await?);
    }
    Ok(middle(costs))
}

/// Returns what a cycle costs in one run.
pub(crate) async fn cycle(
    stage: &mut Stage,
    clients: usize,
    depth: usize,
    sizes: &Sizes,
) -> anyhow::Result<Cost> {
    let run = cycles::ours(stage, clients, depth, sizes).await?;
    let count = run.times.count().max(1) as f64;
    let spent = run.spent.context("nothing was counted")?;
    Ok(each(&spent, count))
}

/// Returns the cost in the middle, by the coordinator's CPU.
pub(crate) fn middle(mut costs: Vec<Cost>) -> Cost {
    costs.sort_by(|one, other| one.coordinator.total_cmp(&other.coordinator));
    costs.get(costs.len() / 2).copied().unwrap_or_default()
}

/// Measures hand-offs, on one coordinator and between two, and the room that a waiter takes.
pub(crate) async fn hand_offs(sizes: &Sizes, into: &mut Constants) -> anyhow::Result<()> {
    for coordinators in [1, 2] {
        let mut stage = Stage::start(coordinators).await;
        let cost = hand_offs_of(&mut stage, sizes.contenders, sizes).await?;
        if coordinators == 1 {
            into.hand_off = cost;
        } else {
            into.crossing = cost;
        }
    }
    let mut stage = Stage::start(1).await;
    let mut streams =
        Stream::open_many(&stage.endpoints(), sizes.idle_sessions, SHARED, None).await?;
    let before = stage.read().await?;
    for stream in &streams {
        stream.acquire(1, "waited-for").await?;
    }
    // All but the one that was granted it.
    for stream in &mut streams {
        stream.next_of_all().await?;
    }
    into.waiter = room(&before, &stage.read().await?, sizes.idle_sessions);
    Ok(())
}

/// Returns what a hand-off costs, in the middle of several runs.
async fn hand_offs_of(stage: &mut Stage, waiters: usize, sizes: &Sizes) -> anyhow::Result<Cost> {
    let mut costs = Vec::new();
    for _ in 0..sizes.repetitions {
        costs.push(hand_off(stage, waiters, sizes).await?);
    }
    Ok(middle(costs))
}

/// Returns what a hand-off costs in one run among so many waiters, who hold the lock for no time.
pub(crate) async fn hand_off(
    stage: &mut Stage,
    waiters: usize,
    sizes: &Sizes,
) -> anyhow::Result<Cost> {
    let plan = Plan {
        waiters,
        per_connection: waiters.div_ceil(CONNECTIONS),
        hold: Duration::ZERO,
        measured: sizes.cycles,
        waiting: None,
    };
    let run = handoff::run(stage, &plan).await?;
    Ok(each(&run.spent, run.gaps.count().max(1) as f64))
}

/// Measures the record that the name of a released lock leaves.
pub(crate) async fn records(sizes: &Sizes, into: &mut Constants) -> anyhow::Result<()> {
    let mut stage = Stage::start(1).await;
    let (sessions, locks) = (100, sizes.idle_sessions / 100);
    let before = stage.read().await?;
    let mut crowd = open(&stage, sessions, SHARED, locks, QUIET).await?;
    crowd.acquire().await?;
    crowd.release().await?;
    let after = stage.read().await?;
    into.record.redis = room(&before, &after, sessions * locks).redis;
    Ok(())
}

/// Measures the bytes between clients and coordinators, by proxies in between that count.
pub(crate) async fn traffic(sizes: &Sizes, into: &mut Constants) -> anyhow::Result<()> {
    let mut stage = Stage::start(1).await;
    stage.count_bytes().await;
    let one_each = cycles_of(&mut stage, CLIENTS, 1, sizes).await?;
    into.one_each.client_traffic = one_each.client_traffic;
    let many_each = cycles_of(&mut stage, CLIENTS, IN_FLIGHT, sizes).await?;
    into.many_each.client_traffic = many_each.client_traffic;
    into.few_each.client_traffic = into.one_each.client_traffic;
    let hand_off = hand_offs_of(&mut stage, sizes.contenders, sizes).await?;
    into.hand_off.client_traffic = hand_off.client_traffic;
    into.crossing.client_traffic = hand_off.client_traffic;

    // One session beats by itself: what a heartbeat and its answer take, whoever sends them.
    const BEATS: u64 = 100;
    let mut stream = Stream::open_on(raw::connect(&stage.endpoints()[0]).await, TTL).await?;
    let before = stage.read().await?;
    for beat in 1..=BEATS {
        stream.heartbeat(beat + 1, beat).await?;
        stream.next().await?;
    }
    let spent = stage.read().await?.since(&before);
    let beat = spent.client_traffic / BEATS as f64;
    for cost in [&mut into.beat, &mut into.rest, &mut into.rest_alone] {
        cost.client_traffic = beat;
    }
    Ok(())
}

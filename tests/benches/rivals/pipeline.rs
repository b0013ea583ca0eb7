//! Baseline of Redis alone: a SET NX PX and a compare-and-delete script for each cycle.

use std::time::{Duration, Instant};

use anyhow::ensure;
use leasehold_tests::{
    RedisServer,
    load::{Distribution, Window},
};
use redis::{Value, aio::MultiplexedConnection};
use tokio::task::JoinSet;

use crate::options::Sizes;

/// Deletes the key if it has the owner's value.
pub(crate) const RELEASE: &str =
    "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0";
const PIPELINES: usize = 16;
const PAIRS: usize = 64;

/// Cycles a second with pipelines of many pairs on one connection.
pub(crate) async fn rate(redis: &RedisServer, sizes: &Sizes) -> anyhow::Result<f64> {
    let connection = redis.async_connection().await;
    let hash = load(&mut connection.clone()).await?;
    let window = Window::after(sizes.warm_up, sizes.cycles);
    let mut running = JoinSet::new();
    for task in 0..PIPELINES {
        running.spawn(pairs(connection.clone(), hash.clone(), task, PAIRS, window));
    }
    let mut count = 0;
    while let Some(times) = running.join_next().await {
        count += times??.len() as u64 * PAIRS as u64;
    }
    Ok(window.rate(count))
}

/// Returns the times of a cycle of two round trips, alone.
pub(crate) async fn alone(redis: &RedisServer, sizes: &Sizes) -> anyhow::Result<Distribution> {
    let mut connection = redis.async_connection().await;
    let hash = load(&mut connection).await?;
    let window = Window::after(sizes.warm_up, sizes.cycles);
    let mut times = Distribution::new()?;
    while Instant::now() < window.until {
        let began = Instant::now();
        let set: Value = set("alone").query_async(&mut connection).await?;
        let released: Value = release(&hash, "alone").query_async(&mut connection).await?;
        ensure!(set == Value::Okay && released == Value::Int(1), "not alone");
        if began >= window.from {
            times.record(began.elapsed());
        }
    }
    Ok(times)
}

async fn load(connection: &mut MultiplexedConnection) -> anyhow::Result<String> {
    let mut load = redis::cmd("SCRIPT");
    Ok(load
        .arg("LOAD")
        .arg(RELEASE)
        .query_async(connection)
        .await?)
}

fn set(name: &str) -> redis::Cmd {
    let mut set = redis::cmd("SET");
    set.arg(name).arg("owner").arg("NX").arg("PX").arg(30_000);
    set
}

fn release(hash: &str, name: &str) -> redis::Cmd {
    let mut release = redis::cmd("EVALSHA");
    release.arg(hash).arg(1).arg(name).arg("owner");
    release
}

async fn pairs(
    mut connection: MultiplexedConnection,
    hash: String,
    task: usize,
    count: usize,
    window: Window,
) -> anyhow::Result<Vec<Duration>> {
    let mut pipe = redis::pipe();
    for pair in 0..count {
        let name = format!("limit/{task}/{pair}");
        pipe.add_command(set(&name));
        pipe.add_command(release(&hash, &name));
    }
    let mut times = Vec::new();
    while Instant::now() < window.until {
        let began = Instant::now();
        let replies: Vec<Value> = pipe.query_async(&mut connection).await?;
        let good = [Value::Okay, Value::Int(1)];
        ensure!(
            replies.len() == 2 * count && replies.chunks(2).all(|pair| pair == good),
            "a pair failed"
        );
        let now = Instant::now();
        if window.has(now) {
            times.push(now - began);
        }
    }
    Ok(times)
}

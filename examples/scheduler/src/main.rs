//! Jobs that are due at every tick, and an elected leader that runs them: each tick is run once, whatever happens to the
//! *processes* that could run it.
//!
//! ```text
//! cargo build -p leasehold-server
//! cargo run -p leasehold-example-scheduler
//! ```
//!
//! starts a Redis and two coordinators of its own, and three instances of the scheduler. Then leaders are killed, one is
//! stopped for so long that it loses its leadership and writes all the same, one is deposed, and one is told to end. In
//! the end it counts: no tick was missed, none was run twice, and the late write was refused.
//!
//! `instance.rs` has what an application would do, `begin.lua` and `finish.lua` have what its storage would do; the rest
//! is stage machinery. `README.md` explains what one sees.
#![expect(clippy::print_stdout, reason = "the report is the program's output")]

mod instance;
mod leaders;
mod play;
mod report;
mod show;
mod table;
mod ticks;

use std::process::ExitCode;

use anyhow::Context;
use clap::{Parser, Subcommand};
use leasehold_example_stage as stage;

use crate::play::{Stage, TTL};

/// Runs a job at every tick, by a leader that is elected among several instances, while leaders are killed, stopped,
/// deposed and told to end. Exits with 1 if any tick is missed or run twice, or anything else is not as promised.
#[derive(Debug, Parser)]
struct Cli {
    /// Redis, for the job table and for the election. By default a redis-server is started
    #[arg(long, value_name = "URL")]
    redis: Option<String>,
    /// A coordinator; may be given more than once. By default two are started that keep their locks in that Redis
    #[arg(long, value_name = "URL")]
    endpoint: Vec<String>,
    /// Number of instances
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(2..=32))]
    instances: u32,
    /// Milliseconds from tick to tick. A job takes a quarter of it
    #[arg(long, default_value_t = 100, value_name = "MS", value_parser = clap::value_parser!(u64).range(20..=10_000))]
    period: u64,
    /// Number of leaders to kill
    #[arg(long, default_value_t = 6, value_parser = clap::value_parser!(u32).range(1..=1000))]
    kills: u32,
    #[command(subcommand)]
    mode: Option<Mode>,
}

#[derive(Debug, Subcommand)]
enum Mode {
    /// Runs the jobs whenever it leads, until SIGTERM.
    #[command(hide = true)]
    Instance(instance::Orders),
}

// Everything runs in the main thread: children must not be started from one that ends earlier.
#[tokio::main(flavor = "current_thread")]
async fn main() -> anyhow::Result<ExitCode> {
    let cli = Cli::parse();
    if let Some(Mode::Instance(orders)) = cli.mode {
        let number = orders.number;
        let ended = instance::run(orders).await;
        ended.with_context(|| format!("instance {number}"))?;
        return Ok(ExitCode::SUCCESS);
    }
    Ok(ExitCode::from(u8::from(!demonstrate(cli).await?)))
}

/// Shows everything, and tells whether it came out as promised.
async fn demonstrate(cli: Cli) -> anyhow::Result<bool> {
    let redis = stage::redis(cli.redis).await?;
    let mut endpoints: Vec<_> = cli.endpoint.into_iter().map(Some).collect();
    if endpoints.is_empty() {
        endpoints = vec![None, None];
    }
    let mut coordinators = Vec::new();
    for endpoint in endpoints {
        coordinators.push(stage::coordinator(endpoint, &redis).await?);
    }
    let stage = Stage {
        redis,
        coordinators,
        instances: cli.instances,
        period: cli.period,
        job: cli.period / 4,
        kills: cli.kills,
    };
    println!(
        "{} instances, {} coordinators, a TTL of {} s; a tick every {} ms, with a job that takes {} ms.\n",
        stage.instances,
        stage.coordinators.len(),
        TTL.as_secs(),
        stage.period,
        stage.job
    );
    Ok(stage.play().await?.report())
}

//! Leasehold beside what gRPC and Redis allow and beside clients that poll, through one driver on one machine.
//!
//! Prints a table and writes it to `docs/benchmarks.md`. Every grant is checked for exclusion and token order.
#![expect(clippy::print_stdout, reason = "the table is the program's output")]

mod cost;
mod cycles;
mod exclusion;
mod handoff;
mod pipeline;
mod report;
mod stream;

use std::{
    process::{Command, Stdio},
    time::Duration,
};

use anyhow::Context;
use leasehold_tests::{ChildProcess, Coordinator, RedisServer, binaries};

use crate::{cost::Meter, report::Row};

const CLIENTS: usize = 64;
const DEPTH: usize = 16;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let redis = RedisServer::start();
    let mut coordinator = Coordinator::process().store(redis.url()).start();
    let meter = Meter {
        coordinator: coordinator.child().id(),
        redis,
    };
    // Rivals have a Redis of their own, so that the coordinator's counts are its own.
    let direct = RedisServer::start();
    let (_echo, echo) = start_echo().await?;
    let ours = coordinator.endpoint();
    let mut rows = Vec::new();

    for (work, depth) in [
        ("acquire+release, 64 clients, one at a time each", 1),
        ("16 in flight on each of 64 streams", DEPTH),
    ] {
        let limit = cycles::run(&echo, CLIENTS, depth, None).await?;
        let measured = cycles::run(&ours, CLIENTS, depth, Some(&meter)).await?;
        let piped = pipeline::rate(&direct).await?;
        rows.push(Row::rates(work, &measured, limit.per_second, piped));
    }
    let limit = cycles::run(&echo, 1, 1, None).await?.p50 + pipeline::alone(&direct).await?;
    let measured = cycles::run(&ours, 1, 1, None).await?;
    rows.push(Row::alone(measured.p50, limit));

    let measured = handoff::streams(&ours, &meter).await?;
    let polled = handoff::polling(&direct).await?;
    rows.push(Row::hand_off(&measured, &polled));

    let table = report::table(&rows);
    println!("{table}");
    report::write(&table)
}

async fn start_echo() -> anyhow::Result<(ChildProcess, String)> {
    let mut command = Command::new(binaries::path("echo"));
    command.stdin(Stdio::null()).stdout(Stdio::piped());
    let mut child = ChildProcess::spawn("echo", command);
    let (_, line) = child
        .take_lines()
        .expect("grpc=", Duration::from_secs(10))
        .await;
    let address = line.strip_prefix("grpc=").context("no address")?;
    Ok((child, format!("http://{address}")))
}

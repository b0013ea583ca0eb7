//! Leasehold beside the limits of gRPC and Redis, beside other lock services and beside clients that poll, on one machine.
//!
//! Writes its results after every part, and `docs/benchmarks.md` with drawings at the end of a full run. Every grant is checked for
//! exclusion and token order.
#![expect(clippy::print_stdout, reason = "the results are the program's output")]

mod figures;
mod options;
mod page;
mod peers;
mod pipeline;
mod polling;
mod results;
mod rows;
#[path = "../shared/mod.rs"]
#[expect(dead_code, reason = "scaling uses the rest")]
mod shared;
mod targets;

use std::{
    process::{Command, ExitCode, Stdio},
    time::Duration,
};

use anyhow::Context;
use clap::Parser;
use leasehold_tests::{ChildProcess, binaries};

use crate::{
    options::Options,
    results::Results,
    rows::{Bench, ROWS},
    shared::parts::{Failure, Parts},
};

#[tokio::main]
async fn main() -> anyhow::Result<ExitCode> {
    let options = Options::parse();
    let directory = binaries::target_directory().join("benchmarks");
    let mut results = Results::begin(directory.join(options.directory()), options.quick)?;
    let (_echo, echo) = start_echo().await?;
    let mut bench = Bench::new(options.sizes(), echo);
    // What a part has found, or why it failed, is written before the next begins.
    let mut parts = Parts::new(options.part_limit());
    for (number, part) in (1..).zip(ROWS) {
        if options.wants(number) {
            let row = parts.run(part, bench.row(number)).await;
            results.rows.extend(row);
            results.save(&bench, &parts.failures)?;
        }
    }
    parts.say("measured");

    println!(
        "{}{}",
        page::text(&results, &bench, &parts.failures),
        targets::text(&results)
    );
    println!("results: {}", results.directory().display());
    if options.is_published() {
        results.publish()?;
        println!("published: docs/benchmarks.md, docs/benchmarks/*.svg, docs/performance.md");
    }
    for Failure { part, reason } in &parts.failures {
        println!("failed: {part}: {reason}");
    }
    Ok(if parts.failures.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

async fn start_echo() -> anyhow::Result<(ChildProcess, String)> {
    let mut command = Command::new(binaries::path("test-echo"));
    command.stdin(Stdio::null()).stdout(Stdio::piped());
    let mut child = ChildProcess::spawn("test-echo", command);
    let (_, line) = child
        .take_lines()
        .expect("grpc=", Duration::from_secs(10))
        .await;
    let address = line.strip_prefix("grpc=").context("no address")?;
    Ok((child, format!("http://{address}")))
}

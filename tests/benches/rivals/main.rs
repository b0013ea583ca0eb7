//! Leasehold beside the limits of gRPC and Redis, beside other lock services and beside clients that poll, on one machine.
//!
//! Writes its results after every part, and `docs/benchmarks.md` with drawings at the end of a full run. Every grant is checked for
//! exclusion and token order.
#![expect(clippy::print_stdout, reason = "the results are the program's output")]

mod chart;
mod crowd;
mod cycles;
mod figures;
mod handoff;
mod machine;
mod marks;
mod options;
mod page;
mod parts;
mod peers;
mod pipeline;
mod polling;
mod results;
mod rows;
#[expect(dead_code, reason = "scaling has a cluster too, and counts bytes")]
mod stage;
mod stream;
mod targets;

use std::{
    process::{Command, ExitCode, Stdio},
    time::{Duration, Instant},
};

use anyhow::Context;
use clap::Parser;
use leasehold_tests::{ChildProcess, binaries, report};

use crate::{
    machine::Machine,
    options::{Options, Part},
    results::{Failure, Results},
    rows::{Bench, growth, handoffs, held, idle, operations, rates},
};

#[tokio::main]
async fn main() -> anyhow::Result<ExitCode> {
    let options = Options::parse();
    let directory = binaries::target_directory().join("benchmarks");
    let mut results = Results::begin(directory.join(options.directory()), options.quick)?;
    let (_echo, echo) = start_echo().await?;
    let mut bench = Bench::new(options.sizes(), echo);
    measure(&options, &mut bench, &mut results).await?;

    println!("{}{}", page::text(&results), targets::text(&results));
    println!("results: {}", results.directory().display());
    if options.is_published() {
        results.publish()?;
        println!("published: docs/benchmarks.md, docs/benchmarks/*.svg, docs/performance.md");
    }
    for Failure { part, reason } in &results.failures {
        println!("failed: {part}: {reason}");
    }
    Ok(if results.failures.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// Measures what was asked for, a part after the other. What a part has found, or why it failed, is written before the next begins.
///
/// # Errors
///
/// If results cannot be written.
async fn measure(
    options: &Options,
    bench: &mut Bench,
    results: &mut Results,
) -> anyhow::Result<()> {
    let began = Instant::now();
    let begin = |part: &str| report(format!("{:4} s  {part}", began.elapsed().as_secs()));
    /// Measures a part if it was asked for, and announces it, since it takes a while.
    macro_rules! part {
        ($part:ident, $into:ident, $says:literal, $measured:expr) => {
            if options.wants(Part::$part) {
                begin($says);
                match parts::guard(options.part_limit(), Box::pin($measured)).await {
                    Ok(measured) => results.$into.push(measured),
                    Err(error) => {
                        let reason = format!("{error:#}");
                        report(format!("        failed: {reason}"));
                        let part = $says;
                        results.failures.push(Failure { part, reason });
                    }
                }
                results.distributions.append(&mut bench.distributions);
                results.settings.clone_from(&bench.peers.settings);
                results.machine = Machine::look(&bench.peers.versions);
                results.save()?;
            }
        };
    }
    part!(
        Cycles,
        rows,
        "row 1: cycles, one at a time",
        rates::one_each(bench)
    );
    part!(
        Pipelined,
        rows,
        "row 2: cycles, 16 in flight",
        rates::many_each(bench)
    );
    part!(Alone, rows, "row 3: one client alone", rates::alone(bench));
    part!(HandOff, rows, "row 4: hand-offs", handoffs::row(bench));
    part!(
        Operations,
        rows,
        "row 5: Redis operations",
        operations::row(bench)
    );
    part!(Held, rows, "row 6: held locks", held::row(bench));
    part!(Idle, rows, "row 7: idle sessions", idle::row(bench));
    part!(Waiters, growth, "growth: waiters", growth::waiters(bench));
    part!(Locks, growth, "growth: held locks", growth::locks(bench));
    part!(
        Sessions,
        growth,
        "growth: sessions",
        growth::sessions(bench)
    );
    part!(
        Coordinators,
        growth,
        "growth: coordinators",
        growth::coordinators(bench)
    );
    begin("measured");
    Ok(())
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

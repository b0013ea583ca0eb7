//! Leasehold beside what gRPC and Redis allow, beside other lock services and beside clients that poll, on one machine.
//!
//! Prints a table, and writes it to `docs/benchmarks.md` with drawings beside it. Every grant is checked for exclusion
//! and token order.
#![expect(clippy::print_stdout, reason = "the table is the program's output")]

mod chart;
mod course;
mod crowd;
mod cycles;
mod distribution;
mod exclusion;
mod figures;
mod handoff;
mod machine;
mod options;
mod page;
mod peers;
mod pipeline;
mod polling;
mod rows;
mod stage;
mod stream;

use std::{
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use anyhow::Context;
use clap::Parser;
use leasehold_tests::{ChildProcess, binaries, report};

use crate::{
    machine::Machine,
    options::{Options, Part},
    page::Results,
    rows::{Bench, growth, handoffs, held, idle, operations, rates},
};

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let options = Options::parse();
    binaries::build_visibly();
    let (_echo, echo) = start_echo().await?;
    let mut bench = Bench::new(options.sizes(), echo);
    let mut results = Results {
        rows: Vec::new(),
        growth: Vec::new(),
        distributions: Vec::new(),
        quick: options.quick,
    };
    measure(&options, &mut bench, &mut results).await?;
    results.distributions = std::mem::take(&mut bench.distributions);

    println!("{}{}", results.text(), results.growth_text());
    let machine = Machine::look(&bench.peers.versions);
    let file = binaries::target_directory().join("benchmarks.json");
    results.save(&file, &machine)?;
    println!("every figure: {}", file.display());
    if options.is_whole() {
        results.write(&machine)?;
        println!("the page: docs/benchmarks.md");
    }
    Ok(())
}

async fn measure(
    options: &Options,
    bench: &mut Bench,
    results: &mut Results,
) -> anyhow::Result<()> {
    let began = Instant::now();
    let begin = |part: &str| report(format!("{:4} s  {part}", began.elapsed().as_secs()));
    /// Measures a part if it was asked for, and says so, since it takes a while.
    macro_rules! part {
        ($part:ident, $into:ident, $says:literal, $measured:expr) => {
            if options.wants(Part::$part) {
                begin($says);
                let measured = Box::pin($measured).await.context($says)?;
                results.$into.push(measured);
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

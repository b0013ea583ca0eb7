//! Selling a limited stock: worker *processes* sell items that are kept in Redis, without locks and with them.
//!
//! ```text
//! cargo build -p leasehold-server
//! cargo run -p leasehold-example-stock
//! ```
//!
//! starts a Redis and a coordinator of its own and shows four things:
//!
//! 1. Without locks, the shop sells far more than it has.
//! 2. With a lock, it sells exactly what it has.
//! 3. That stays so while workers are killed with SIGKILL in the middle of their sales.
//! 4. That stays so when a worker is stopped for so long that it loses its lock, and then writes all the same: the stock
//!    refuses it, because its fencing token is smaller than that of the worker that came after it.
//!
//! `worker.rs` has what an application would do, `look.lua` and `sell.lua` have what its storage would do; the rest is
//! stage machinery. `README.md` explains what one sees.
#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "the report is the program's output"
)]

mod parts;
mod shop;
mod worker;

use std::{process::ExitCode, time::Duration};

use anyhow::Context;
use clap::{Parser, Subcommand};
use leasehold_example_stage as stage;

use crate::parts::{Market, Outcome};

/// Sells a limited stock with worker processes: without locks, with locks, while workers are killed, and while one is
/// stopped for too long. Exits with 1 if anything comes out otherwise than expected.
#[derive(Debug, Parser)]
struct Cli {
    /// Redis, for the stock and for the locks. By default a redis-server is started
    #[arg(long, value_name = "URL")]
    redis: Option<String>,
    /// A coordinator. By default a leasehold-server is started that keeps its locks in that Redis
    #[arg(long, value_name = "URL")]
    endpoint: Option<String>,
    /// Number of items in stock
    #[arg(long, default_value_t = 400, value_parser = clap::value_parser!(i64).range(100..=100_000))]
    stock: i64,
    /// Number of worker processes that sell them
    #[arg(long, default_value_t = 6, value_parser = clap::value_parser!(u32).range(2..=64))]
    workers: u32,
    /// Milliseconds that a worker thinks between reading the stock and writing it
    #[arg(long, default_value_t = 1, value_name = "MS", value_parser = clap::value_parser!(u64).range(1..=1000))]
    think: u64,
    #[command(subcommand)]
    mode: Option<Mode>,
}

#[derive(Debug, Subcommand)]
enum Mode {
    /// Sells until nothing is left.
    #[command(hide = true)]
    Worker(worker::Orders),
}

// Everything runs in the main thread: children must not be started from one that ends earlier.
#[tokio::main(flavor = "current_thread")]
async fn main() -> anyhow::Result<ExitCode> {
    let cli = Cli::parse();
    if let Some(Mode::Worker(orders)) = cli.mode {
        let number = orders.number;
        let ended = worker::run(orders).await;
        ended.with_context(|| format!("worker {number}"))?;
        return Ok(ExitCode::SUCCESS);
    }
    Ok(ExitCode::from(u8::from(!demonstrate(cli).await?)))
}

/// Shows everything, and tells whether it came out as expected.
async fn demonstrate(cli: Cli) -> anyhow::Result<bool> {
    let redis = stage::redis(cli.redis).await?;
    let coordinator = stage::coordinator(cli.endpoint, &redis).await?;
    println!(
        "{} items, {} worker processes; each reads the stock, thinks for {} ms, and writes it back less one.\n",
        cli.stock, cli.workers, cli.think
    );
    let market = Market {
        redis,
        coordinator,
        stock: cli.stock,
        workers: cli.workers,
        think: Duration::from_millis(cli.think),
    };
    let mut as_expected = true;

    let outcome = market.unlocked().await?;
    let oversold = outcome.books.sold - outcome.offered;
    as_expected &= report(
        "without locks",
        &outcome,
        oversold > 0,
        &format!("{oversold} too many"),
    );

    let outcome = market.locked().await?;
    as_expected &= report("with a lock", &outcome, outcome.is_exact(), "");

    let outcome = market.killed().await?;
    let (killed, begun) = (outcome.killed, outcome.books.begun);
    as_expected &= report(
        "with a lock, workers are killed",
        &outcome,
        outcome.is_exact() && begun > 0,
        &format!("{killed} killed, {begun} of them in the middle of a sale"),
    );

    let outcome = market.stopped().await?;
    let refused = outcome.books.refused;
    as_expected &= report(
        "with a lock, a worker is stopped",
        &outcome,
        outcome.is_exact() && refused > 0,
        &format!("{refused} refused for its old fencing token"),
    );

    if as_expected {
        println!("\nEverything came out as expected.");
    } else {
        println!("\nNOT as expected: see above.");
    }
    Ok(as_expected)
}

/// Prints a line about a part, and passes on whether it came out as expected.
fn report(part: &str, outcome: &Outcome, as_expected: bool, remark: &str) -> bool {
    let mark = if as_expected { "ok" } else { "!!" };
    let verdict = match outcome.books.sold - outcome.offered {
        0 if outcome.is_exact() => "exact",
        1.. => "oversold",
        _ => "wrong",
    };
    let line = format!(
        "{mark}  {part:<33} sold {:>5} of {:<5} {verdict:<8} {:>5.1} s   {remark}",
        outcome.books.sold,
        outcome.offered,
        outcome.took.as_secs_f64(),
    );
    println!("{}", line.trim_end());
    as_expected
}

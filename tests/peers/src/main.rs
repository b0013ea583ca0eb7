//! `peers`: one measurement of one rival, as one JSON object on standard output.

use std::{
    future::Future,
    io::{self, Write},
    num::NonZeroUsize,
    panic::{self, PanicHookInfo},
    process::ExitCode,
    time::Duration,
};

use anyhow::{Context, anyhow, ensure};
use clap::{Parser, Subcommand, ValueEnum};
use leasehold_peers::{
    Rival, cycles,
    etcd::Etcd,
    handoff,
    report::{CycleFigures, HandOffFigures, Measured},
    rslock::{Rslock, Taken},
};
use serde::Serialize;

/// Many times what any measurement takes.
const LIMIT: Duration = Duration::from_secs(100);

/// Measures one of Leasehold's rivals and prints one JSON object.
#[derive(Parser)]
#[command(name = "peers", version, arg_required_else_help = false)]
struct Arguments {
    #[command(subcommand)]
    measurement: Measurement,
}

#[derive(Subcommand)]
enum Measurement {
    /// Uncontended cycles of acquire and release: 0.5 s of warm-up, then 3 s that count
    Cycles {
        /// Whom to measure
        #[arg(long)]
        rival: Name,
        /// Number of clients
        #[arg(long)]
        clients: NonZeroUsize,
        /// Number of cycles that each client has in flight
        #[arg(long)]
        depth: NonZeroUsize,
    },
    /// Contended hand-offs of one name, over 5 s
    Handoff {
        /// Whom to measure
        #[arg(long)]
        rival: Name,
        /// Number of clients that want the name
        #[arg(long)]
        waiters: NonZeroUsize,
        /// Time for which each client holds the name, in milliseconds
        #[arg(long)]
        hold_ms: u64,
    },
}

#[derive(Clone, Copy, ValueEnum)]
enum Name {
    /// etcd's lock service
    Etcd,
    /// The crate rslock on one Redis server
    Rslock,
}

#[tokio::main]
async fn main() -> ExitCode {
    panic::set_hook(Box::new(one_line));
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        // Help that was asked for is for standard output.
        Err(said) if !said.use_stderr() => said.exit(),
        Err(error) => return failed(&usage(&error.to_string())),
    };
    let measured = match tokio::time::timeout(LIMIT, Box::pin(measure(arguments.measurement))).await
    {
        Ok(measured) => measured,
        Err(_) => Err(anyhow!("the measurement did not end within {LIMIT:?}")),
    };
    match measured.and_then(|line| print(&line)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => failed(&format!("{error:#}")),
    }
}

async fn measure(measurement: Measurement) -> anyhow::Result<String> {
    match measurement {
        Measurement::Cycles {
            rival,
            clients,
            depth,
        } => {
            let (clients, depth) = (clients.get(), depth.get());
            match rival {
                Name::Etcd => Box::pin(measure_cycles("etcd", Etcd::start(), clients, depth)).await,
                Name::Rslock => {
                    measure_cycles("rslock", Rslock::start(Taken::Fail), clients, depth).await
                }
            }
        }
        Measurement::Handoff {
            rival,
            waiters,
            hold_ms,
        } => {
            let (waiters, hold) = (waiters.get(), Duration::from_millis(hold_ms));
            match rival {
                Name::Etcd => {
                    Box::pin(measure_hand_offs("etcd", Etcd::start(), waiters, hold)).await
                }
                Name::Rslock => {
                    measure_hand_offs("rslock", Rslock::start(Taken::Poll), waiters, hold).await
                }
            }
        }
    }
}

async fn measure_cycles<R: Rival>(
    name: &str,
    rival: impl Future<Output = anyhow::Result<R>>,
    clients: usize,
    depth: usize,
) -> anyhow::Result<String> {
    let rival = rival.await?;
    let run = cycles::run(&rival, clients, depth)
        .await
        .context(name.to_owned())?;
    report(name, &rival, CycleFigures::from(&run)).await
}

async fn measure_hand_offs<R: Rival>(
    name: &str,
    rival: impl Future<Output = anyhow::Result<R>>,
    waiters: usize,
    hold: Duration,
) -> anyhow::Result<String> {
    let rival = rival.await?;
    let run = handoff::run(&rival, waiters, hold)
        .await
        .context(name.to_owned())?;
    report(name, &rival, HandOffFigures::from(&run)).await
}

async fn report<R: Rival>(
    name: &str,
    rival: &R,
    figures: impl Serialize,
) -> anyhow::Result<String> {
    let held = rival.known().await?;
    ensure!(
        held == 0,
        "{name} still has {held} locks after all were released"
    );
    Ok(serde_json::to_string(&Measured {
        rival: name.to_owned(),
        version: rival.version().to_owned(),
        settings: rival.settings(),
        figures,
    })?)
}

fn print(line: &str) -> anyhow::Result<()> {
    writeln!(io::stdout(), "{line}").context("failed to print the measurement")
}

fn failed(why: &str) -> ExitCode {
    eprintln!("peers: {}", joined(why.lines()));
    ExitCode::FAILURE
}

/// Returns the error message of clap without its hints.
fn usage(said: &str) -> String {
    let hints = ["Usage:", "For more information"];
    let lines = said
        .lines()
        .take_while(|line| !hints.iter().any(|hint| line.starts_with(hint)));
    let said = joined(lines);
    said.strip_prefix("error: ").unwrap_or(&said).to_owned()
}

/// Makes panics print one line: a fixture that cannot start panics, and should look like any other failure.
fn one_line(info: &PanicHookInfo<'_>) {
    let payload = info.payload();
    let why = payload.downcast_ref::<String>().map(String::as_str);
    let why = why.or_else(|| payload.downcast_ref::<&str>().copied());
    eprintln!("peers: {}", joined(why.unwrap_or("failed").lines()));
}

fn joined<'a>(lines: impl Iterator<Item = &'a str>) -> String {
    let lines: Vec<_> = lines
        .map(str::trim)
        .filter(|line| !line.is_empty())
        .collect();
    lines.join(" ")
}

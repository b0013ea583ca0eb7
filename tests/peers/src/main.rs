//! `peers`: one measurement of one rival, as one JSON object on standard output.

use std::{
    future::Future,
    io::{self, Write},
    num::NonZeroUsize,
    process::ExitCode,
    time::Duration,
};

use anyhow::{Context, anyhow, ensure};
use clap::{Parser, Subcommand, ValueEnum};
use leasehold_peers::{
    Rival, cycles,
    etcd::Etcd,
    handoff,
    rslock::{Rslock, Taken},
};
use leasehold_tests::load::{Distribution, micros, millis, points};
use serde_json::{Value, json};

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
    // One line: a fixture that cannot start panics, and should look like any other failure.
    std::panic::set_hook(Box::new(|panic| eprintln!("peers: {panic}")));
    let Arguments { measurement } = Arguments::parse();
    let measured = tokio::time::timeout(LIMIT, Box::pin(measure(measurement))).await;
    let measured = measured
        .unwrap_or_else(|_| Err(anyhow!("the measurement did not end within {LIMIT:?}")))
        .and_then(|measured| Ok(writeln!(io::stdout(), "{measured}")?));
    match measured {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("peers: {error:#}");
            ExitCode::FAILURE
        }
    }
}

async fn measure(measurement: Measurement) -> anyhow::Result<Value> {
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
) -> anyhow::Result<Value> {
    let rival = rival.await?;
    let run = cycles::run(&rival, clients, depth);
    let run = run.await.context(name.to_owned())?;
    let mut told = report(name, &rival, &run.times).await?;
    told["per_second"] = json!(run.per_second);
    Ok(told)
}

async fn measure_hand_offs<R: Rival>(
    name: &str,
    rival: impl Future<Output = anyhow::Result<R>>,
    waiters: usize,
    hold: Duration,
) -> anyhow::Result<Value> {
    let rival = rival.await?;
    let run = handoff::run(&rival, waiters, hold);
    let run = run.await.context(name.to_owned())?;
    let mut told = report(name, &rival, &run.gaps).await?;
    told["grants"] = json!(run.gaps.count());
    told["worst_wait_ms"] = json!(millis(run.worst_wait));
    told["mean_hold_ms"] = json!(millis(run.mean_hold));
    Ok(told)
}

/// Returns the distribution of cycles or gaps in microseconds, once the rival has no lock left.
async fn report<R: Rival>(name: &str, rival: &R, times: &Distribution) -> anyhow::Result<Value> {
    let held = rival.known().await?;
    ensure!(
        held == 0,
        "{name} still has {held} locks after all were released"
    );
    Ok(json!({
        "rival": name,
        "version": rival.version(),
        "settings": rival.settings(),
        "p50_us": micros(times.quantile(0.5)),
        "p99_us": micros(times.quantile(0.99)),
        "quantiles": points(times),
    }))
}

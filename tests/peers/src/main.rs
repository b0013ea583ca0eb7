//! `peers`: one measurement of one rival, as one JSON object on standard output.

use std::{
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
use leasehold_tests::load::{micros, millis, points};
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
    let (rival, taken) = match &measurement {
        Measurement::Cycles { rival, .. } => (rival, Taken::Fail),
        Measurement::Handoff { rival, .. } => (rival, Taken::Poll),
    };
    match rival {
        Name::Etcd => {
            let rival = Box::pin(Etcd::start()).await?;
            Box::pin(report("etcd", &rival, &measurement)).await
        }
        Name::Rslock => {
            let rival = Rslock::start(taken).await?;
            Box::pin(report("rslock", &rival, &measurement)).await
        }
    }
}

/// Returns the figures, with the distribution of cycles or gaps in microseconds, once the rival has no lock left.
async fn report<R: Rival>(
    name: &'static str,
    rival: &R,
    measurement: &Measurement,
) -> anyhow::Result<Value> {
    let (times, mut told) = match measurement {
        Measurement::Cycles { clients, depth, .. } => {
            let run = cycles::run(rival, clients.get(), depth.get());
            let run = run.await.context(name)?;
            (run.times, json!({"per_second": run.per_second}))
        }
        Measurement::Handoff {
            waiters, hold_ms, ..
        } => {
            let run = handoff::run(rival, waiters.get(), Duration::from_millis(*hold_ms));
            let run = run.await.context(name)?;
            let told = json!({
                "grants": run.gaps.count(),
                "worst_wait_ms": millis(run.worst_wait),
                "mean_hold_ms": millis(run.mean_hold),
            });
            (run.gaps, told)
        }
    };
    let held = rival.known().await?;
    ensure!(
        held == 0,
        "{name} still has {held} locks after all were released"
    );
    told["rival"] = json!(name);
    told["version"] = json!(rival.version());
    told["settings"] = json!(rival.settings());
    told["p50_us"] = json!(micros(times.quantile(0.5)));
    told["p99_us"] = json!(micros(times.quantile(0.99)));
    told["quantiles"] = json!(points(&times));
    Ok(told)
}

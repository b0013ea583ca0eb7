//! Program `torture`: runs coordinators, a store and clients, does faults to them by a seed, and has the history checked.
//!
//! `torture [--minutes M] [--seed S] [--store memory|single|sentinel|cluster|quorum] [--directory DIR]`. It exits with the checker's
//! status, 1 if there is a violation, and with 1 if a coordinator panicked.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a harness that cannot do its work fails the run; its output is the report"
)]

mod clients;
mod coordinators;
mod faults;
mod record;
mod registers;
mod store;
mod watchers;

use std::{
    path::PathBuf,
    process::{Command, ExitCode},
    sync::Arc,
    time::Duration,
};

use anyhow::{Context, bail};
use leasehold_tests::binaries;
use rand::{Rng, SeedableRng, rngs::StdRng};
use serde_json::json;
use tokio::time::{Instant, sleep};

use self::{
    clients::Clients,
    coordinators::Coordinators,
    record::Record,
    registers::Registers,
    store::{Store, Topology},
};

/// TTL of all sessions.
pub(crate) const TTL: Duration = Duration::from_secs(3);
/// Time without faults in which what was disturbed goes on, before the clients are asked to end.
const QUIET: Duration = Duration::from_secs(5);

struct Arguments {
    minutes: f64,
    seed: u64,
    topology: Topology,
    directory: Option<PathBuf>,
}

fn arguments() -> anyhow::Result<Arguments> {
    let mut parsed = Arguments {
        minutes: 10.0,
        seed: rand::rng().random_range(0..1_000_000),
        topology: Topology::Single,
        directory: None,
    };
    let mut arguments = std::env::args().skip(1);
    while let Some(name) = arguments.next() {
        let value = arguments.next();
        let value = value.with_context(|| format!("{name} needs a value"))?;
        match &*name {
            "--minutes" => parsed.minutes = value.parse().context("MINUTES is a number")?,
            "--seed" => parsed.seed = value.parse().context("SEED is a number")?,
            "--store" => parsed.topology = Topology::named(&value)?,
            "--directory" => parsed.directory = Some(value.into()),
            _ => bail!("there is no option {name}"),
        }
    }
    Ok(parsed)
}

fn main() -> anyhow::Result<ExitCode> {
    let arguments = arguments()?;
    let (seed, topology) = (arguments.seed, arguments.topology);
    let directory = arguments.directory.unwrap_or_else(|| {
        let name = format!("{}-{seed}", topology.name());
        binaries::target_directory().join("torture").join(name)
    });
    // Of an earlier run with the same seed.
    let _ = std::fs::remove_dir_all(&directory);
    std::fs::create_dir_all(&directory).context("failed to make the history's directory")?;
    println!(
        "torture: STORE={} SEED={seed} MINUTES={}, history in {}",
        topology.name(),
        arguments.minutes,
        directory.display()
    );
    // Before the time is measured.
    binaries::build_visibly();
    let record = Arc::new(Record::create(&directory));
    let run = json!({"seed": seed, "store": topology.name(), "minutes": arguments.minutes});
    record.line("run", run);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;
    let time = Duration::from_secs_f64(arguments.minutes * 60.0);
    let panics = runtime.block_on(run_for(time, seed, topology, &record));
    let timeline = directory.join("timeline.html");
    let status = Command::new(binaries::path("leasehold-checker"))
        .arg(&directory)
        .arg("--timeline")
        .arg(&timeline)
        .status()
        .context("failed to run the checker")?;
    if panics > 0 {
        println!("torture: {panics} coordinators panicked; their logs are beside the history");
        return Ok(ExitCode::FAILURE);
    }
    let code = status.code().and_then(|code| u8::try_from(code).ok());
    Ok(ExitCode::from(code.unwrap_or(2)))
}

/// Returns how many coordinators panicked.
async fn run_for(time: Duration, seed: u64, topology: Topology, record: &Arc<Record>) -> usize {
    let mut random = StdRng::seed_from_u64(seed);
    let registers = Registers::start(Arc::clone(record)).await;
    let mut store = Store::start(topology).await;
    let mut coordinators = Coordinators::start(&mut store, Arc::clone(record)).await;
    let watching = watchers::start(&coordinators, record);
    let mut clients = Clients::start(
        &coordinators,
        registers.address(),
        topology.name(),
        Arc::clone(record),
        StdRng::seed_from_u64(random.random()),
    )
    .await;
    let end = Instant::now() + time;
    let (left, right): (u64, u64) = (random.random(), random.random());
    let (recording, seeded) = (Arc::clone(record), StdRng::seed_from_u64(right));
    // A task of its own: it blocks at times.
    let servers = tokio::spawn(async move {
        faults::servers::run(&mut store, &mut coordinators, &recording, seeded, end).await;
        (store, coordinators)
    });
    faults::clients::run(&mut clients, record, StdRng::seed_from_u64(left), end).await;
    let (store, coordinators) = servers.await.expect("the faults go on");
    sleep(QUIET).await;
    println!("torture: the faults are over; waiting for the clients to end");
    clients.finish().await;
    let keys = store.left(&coordinators).await;
    record.line("left", json!({"keys": keys}));
    drop(watching);
    coordinators.finish()
}

//! Program `torture`: runs coordinators, a store and clients, does faults to them by a seed, and has the history checked.
//!
//! `torture [--minutes M] [--seed S] [--store memory|single|sentinel|cluster|quorum] [--directory DIR] [--brief]
//! [--planted FAULT] [--network yes|no] [--tls yes|no] [--library NAME=COMMAND]...`. It exits with the checker's status, 1 if there is a
//! violation, and with 1 if a process panicked or the run was broken off: because a part of this program panicked, took too long, or was
//! interrupted. The checker checks the history in any case. `--brief` prints one line. A library is a client program that takes the
//! arguments of `torture-client`; two processes of each run among the others. Coordinators, servers and clients are on hosts of their own, if that is possible. By the seed, coordinators and clients speak
//! plain text, or TLS with credentials that change. With a planted fault it exits with 0 exactly if the checker finds it.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a harness that cannot do its work fails the run; its output is the report"
)]

mod clients;
mod coordinators;
mod counted;
mod credentials;
mod faults;
mod planted;
mod record;
mod registers;
mod store;
mod watchers;

use std::{
    io::Write,
    net::Ipv4Addr,
    panic,
    path::PathBuf,
    process::{Command, ExitCode},
    sync::Arc,
    time::Duration,
};

use anyhow::Context;
use clap::{ArgAction::Set, Parser, builder::BoolishValueParser};
use leasehold_tests::{Network, binaries, hosts};
use leasehold_torture::stalls;
use rand::{Rng, SeedableRng, rngs::StdRng};
use serde_json::json;
use tokio::time::{Instant, sleep, timeout};

use self::{
    clients::{Clients, Crew},
    coordinators::Coordinators,
    credentials::Credentials,
    planted::Planted,
    record::Record,
    registers::Registers,
    store::{Store, Topology},
};

/// TTL of all sessions.
pub(crate) const TTL: Duration = Duration::from_secs(3);
/// Longest time for all that comes before and after the faults.
const OVERTIME: Duration = Duration::from_secs(240);
/// Longest time until everything has ended after the run was broken off.
const BROKEN_OFF: Duration = Duration::from_secs(10);

/// Runs coordinators, a store and clients, does faults to them by a seed, and has the history checked.
#[derive(Parser)]
struct Arguments {
    #[arg(long, default_value_t = 10.0)]
    minutes: f64,
    /// By chance if it is not said.
    #[arg(long)]
    seed: Option<u64>,
    #[arg(long, value_enum, default_value = "single")]
    store: Topology,
    #[arg(long)]
    directory: Option<PathBuf>,
    #[arg(long)]
    brief: bool,
    #[arg(long, action = Set, value_parser = BoolishValueParser::new(), default_value = "yes")]
    network: bool,
    /// Decided by the seed if it is not said.
    #[arg(long, value_parser = BoolishValueParser::new())]
    tls: Option<bool>,
    #[arg(long)]
    planted: Option<String>,
    /// Clients on another library, `NAME=COMMAND`.
    #[arg(long = "library")]
    libraries: Vec<String>,
}

fn main() -> anyhow::Result<ExitCode> {
    let arguments = Arguments::parse();
    let network = arguments.network.then(hosts::enter);
    if let Some(Err(reason)) = &network {
        eprintln!(
            "torture: goes on without network namespaces, and so without partitions, lost packets and slow links: {reason}"
        );
    }
    let seed = arguments.seed;
    let seed = seed.unwrap_or_else(|| rand::rng().random_range(0..1_000_000));
    let topology = arguments.store;
    let tls = arguments.tls.unwrap_or_else(|| speaks_tls(seed, topology));
    let planted = arguments.planted.as_deref().map(Planted::named);
    let planted = planted.transpose()?.unwrap_or_default();
    let crew = Crew::new(&arguments.libraries, planted.in_clients)?;
    let directory = arguments.directory.unwrap_or_else(|| {
        let mut name = format!("{}-{seed}", topology.name());
        if let Some(fault) = &arguments.planted {
            name = format!("{name}-{fault}");
        }
        binaries::target_directory().join("torture").join(name)
    });
    // Of an earlier run with the same seed.
    let _ = std::fs::remove_dir_all(&directory);
    std::fs::create_dir_all(&directory).context("failed to make the history's directory")?;
    let run = format!(
        "STORE={} SEED={seed} MINUTES={} TLS={}",
        topology.name(),
        arguments.minutes,
        if tls { "yes" } else { "no" }
    );
    if !arguments.brief {
        println!("torture: {run}, history in {}", directory.display());
    }
    // Before the time is measured.
    let record = Arc::new(Record::create(&directory));
    let minutes = arguments.minutes;
    let fields = json!({"seed": seed, "store": topology.name(), "minutes": minutes, "tls": tls});
    record.line("run", fields);
    break_off_at_panics(&record);
    stalls::watch("harness", record.path("stalls"));
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;
    let time = Duration::from_secs_f64(arguments.minutes * 60.0);
    let failures = runtime.block_on(async {
        let seats = crew.of_coordinators();
        let settings = Settings {
            planted: planted.in_coordinators,
            network: matches!(network, Some(Ok(()))).then(make_network),
            credentials: tls.then(|| Credentials::start(directory.join("credentials"), seats)),
            crew,
        };
        guard(time, seed, topology, settings, &record).await
    });
    runtime.shutdown_timeout(BROKEN_OFF);
    let mut checker = Command::new(binaries::path("leasehold-checker"));
    checker.arg(&directory);
    checker
        .arg("--timeline")
        .arg(directory.join("timeline.html"));
    if arguments.brief {
        print!("{run}: ");
        checker.arg("--brief");
    }
    std::io::stdout().flush()?;
    let status = checker.status().context("failed to run the checker")?;
    for failure in &failures {
        println!("FAILED: {failure}");
    }
    if let Some(fault) = &arguments.planted {
        let is_found = status.code() == Some(1);
        let word = if is_found { "was" } else { "WAS NOT" };
        println!("the planted fault {fault} {word} found");
        return Ok(ExitCode::from(u8::from(!is_found)));
    }
    if !failures.is_empty() {
        return Ok(ExitCode::FAILURE);
    }
    let code = status.code().and_then(|code| u8::try_from(code).ok());
    Ok(ExitCode::from(code.unwrap_or(2)))
}

/// Parts of a run that not every run has.
struct Settings {
    /// Fault that is planted in the coordinators.
    planted: Option<String>,
    network: Option<Network>,
    credentials: Option<Arc<Credentials>>,
    crew: Crew,
}

fn make_network() -> Network {
    let network = Network::make();
    if let Err(reason) = network.has_netem() {
        eprintln!(
            "torture: goes on without late, lost and reordered packets; slow links have little room instead: {reason}"
        );
    }
    network
}

/// Returns whether coordinators and clients speak TLS with this seed: each second one, and with one seed some stores.
fn speaks_tls(seed: u64, topology: Topology) -> bool {
    (seed + topology as u64).is_multiple_of(2)
}

/// Has every panic of this program break the run off: its fixtures panic if they can't do their work.
fn break_off_at_panics(record: &Arc<Record>) {
    let record = Arc::clone(record);
    let usual = panic::take_hook();
    panic::set_hook(Box::new(move |panic| {
        let payload = panic.payload();
        let said = payload.downcast_ref::<&str>().copied();
        let said = said.or_else(|| payload.downcast_ref::<String>().map(String::as_str));
        let said = said.unwrap_or("panicked");
        let place = panic.location().map(ToString::to_string);
        record.break_off(format!("{said} ({})", place.unwrap_or_default()));
        usual(panic);
    }));
}

/// Runs until the end, or until the run is broken off, and returns what failed.
async fn guard(
    time: Duration,
    seed: u64,
    topology: Topology,
    settings: Settings,
    record: &Arc<Record>,
) -> Vec<String> {
    let run = run_for(time, seed, topology, settings, Arc::clone(record));
    let mut run = tokio::spawn(run);
    tokio::select! {
        biased;
        () = record.until_broken_off() => {}
        ended = &mut run => if let Ok(failures) = ended {
            return failures;
        },
        () = sleep(time + OVERTIME) => {
            record.break_off(format!("the run did not end {OVERTIME:?} after its time"));
        }
        _ = tokio::signal::ctrl_c() => record.break_off("interrupted".to_owned()),
    }
    run.abort();
    // A fixture may block its thread for longer. The processes end with this one.
    let _ = timeout(BROKEN_OFF, run).await;
    let why = record.why_broken_off().unwrap_or_default();
    vec![format!("the run was broken off: {why}")]
}

/// Returns the harness's own address.
fn hub(network: Option<&Network>) -> Ipv4Addr {
    network.map_or(Ipv4Addr::LOCALHOST, |network| network.hub().address())
}

/// Returns what failed.
async fn run_for(
    time: Duration,
    seed: u64,
    topology: Topology,
    settings: Settings,
    record: Arc<Record>,
) -> Vec<String> {
    let record = &record;
    let Settings {
        planted,
        network,
        credentials,
        crew,
    } = settings;
    let mut random = StdRng::seed_from_u64(seed);
    let registers = Registers::start(hub(network.as_ref()), Arc::clone(record)).await;
    let mut store = Store::start(topology, network.as_ref()).await;
    let mut coordinators = Coordinators::start(
        &mut store,
        network.as_ref(),
        credentials.clone(),
        planted,
        Arc::clone(record),
    )
    .await;
    let watching = match topology {
        // Its masters agree on no order of events.
        Topology::Quorum => None,
        _ => Some(watchers::start(&coordinators, record)),
    };
    let mut clients = Clients::start(
        &crew,
        (&coordinators, network.as_ref()),
        registers.address(),
        topology.name(),
        store.for_lockers(),
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
    clients.go_on().await;
    let mut failures = clients.finish().await;
    let keys = store.left(&coordinators).await;
    record.line("left", json!({"keys": keys}));
    let ended = watching.into_iter().flat_map(|mut watching| {
        std::iter::from_fn(move || watching.try_join_next()).collect::<Vec<_>>()
    });
    failures.extend(ended.map(|ended| ended.expect("a watcher does not panic")));
    let panics = coordinators.finish();
    if panics > 0 {
        failures.push(format!(
            "{panics} coordinators panicked; their logs are beside the history"
        ));
    }
    failures
}

//! Client libraries beside one another, and each beside what its users would take otherwise.
//!
//! `make bench-libraries`. Each program is measured in turns with the others, on one coordinator, one Redis server and one etcd, and the
//! tables go into `docs/client-benchmarks.md`. `LEASEHOLD_LIBRARIES` has the programs of other languages: a line `NAME=COMMAND` each, where a
//! command takes the arguments of [`worker`]. What is not there is not measured.
#![expect(clippy::print_stdout, reason = "the results are the program's output")]

mod holds;
#[path = "../shared/marks.rs"]
mod marks;
mod program;
#[path = "../shared/table.rs"]
mod table;
mod worker;

use std::{fs, path::Path, process::ExitCode};

use anyhow::Context;
use clap::Parser;
use leasehold_tests::{Coordinator, CoordinatorProcess, Etcd, RedisServer, report};

use self::{program::Program, table::table};

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/client-benchmarks.md");
/// Tasks, goroutines or threads that share a client.
const CLIENTS: usize = 64;
/// Those of each program that want one lock.
const CONTENDERS: usize = 10;
/// Time for all programs to start, in seconds, before hand-offs between them are counted.
const START: f64 = 3.0;

/// Measures the client libraries, and libraries that they stand beside, in turns, and writes two tables into docs/client-benchmarks.md.
#[derive(Debug, Parser)]
#[command(about, long_about)]
struct Options {
    /// Check that it works, in a few seconds: the figures say nothing. Leaves docs/ as it is.
    #[arg(long)]
    quick: bool,
    /// Work that this program does for itself: its library, work, endpoint, clients and seconds.
    #[arg(long, hide = true, num_args = 5)]
    worker: Option<Vec<String>>,
    /// Flag that cargo passes to every benchmark.
    #[arg(long, hide = true)]
    bench: bool,
}

/// Servers that the programs talk to.
struct Servers {
    redis: RedisServer,
    coordinator: CoordinatorProcess,
    /// None if it is not installed.
    etcd: Option<Etcd>,
}

#[derive(Clone, Copy)]
enum Server {
    Coordinator,
    Redis,
    Etcd,
}

const OURS: Server = Server::Coordinator;
const REDIS: Server = Server::Redis;

/// Libraries: the name in the table, the program that uses it, the library's name there, and the server that it talks to.
const LIBRARIES: [(&str, &str, &str, Server); 12] = [
    ("Leasehold, Rust", "rust", "leasehold", OURS),
    ("Leasehold, Go", "go", "leasehold", OURS),
    ("redsync, Go, one Redis", "go", "redsync", REDIS),
    ("etcd's concurrency, Go", "go", "etcd", Server::Etcd),
    ("Leasehold, Python, asyncio", "python", "leasehold", OURS),
    (
        "Leasehold, Python, threads",
        "python",
        "leasehold-sync",
        OURS,
    ),
    ("redis-py, asyncio", "python", "redis-py", REDIS),
    ("Leasehold, Node", "node", "leasehold", OURS),
    (
        "node-redlock, Node, one Redis",
        "node",
        "node-redlock",
        REDIS,
    ),
    ("Leasehold, Java", "java", "leasehold", OURS),
    ("Redisson, Java, RLock", "java", "redisson", REDIS),
    ("Redisson, Java, fair lock", "java", "redisson-fair", REDIS),
];

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() -> anyhow::Result<ExitCode> {
    let options = Options::parse();
    if let Some(arguments) = &options.worker {
        worker::run(arguments).await?;
        return Ok(ExitCode::SUCCESS);
    }
    let (rounds, seconds) = if options.quick { (1, 0.5) } else { (5, 3.0) };
    let redis = RedisServer::start();
    let coordinator = Coordinator::process().store(redis.url());
    let servers = Servers {
        coordinator: coordinator
            .arguments(["--max-requests-per-second=0"])
            .start(),
        redis,
        etcd: Etcd::start().await,
    };
    let programs = Program::all()?;
    let cycles = cycles(&servers, &programs, rounds, seconds)?;
    let hand_offs = hand_offs(&servers, &programs, rounds, seconds)?;
    let section = format!("{cycles}\n\n{hand_offs}");
    println!("{section}");
    if !options.quick {
        let page = fs::read_to_string(PAGE)?;
        let page = marks::put(&page, "make bench-libraries", &section)?;
        fs::write(PAGE, page)?;
        println!("published: {}", Path::new(PAGE).display());
    }
    Ok(ExitCode::SUCCESS)
}

impl Servers {
    fn url(&self, server: Server) -> Option<String> {
        match server {
            Server::Coordinator => Some(self.coordinator.endpoint()),
            Server::Redis => Some(self.redis.url()),
            Server::Etcd => self.etcd.as_ref().map(Etcd::endpoint),
        }
    }
}

/// Times of one library's cycles, of all rounds.
#[derive(Default)]
struct Times {
    /// Cycles a second, by the round.
    rates: Vec<f64>,
    /// Microseconds.
    many: Vec<i64>,
    alone: Vec<i64>,
}

/// Measures uncontended cycles of each library in turns.
fn cycles(
    servers: &Servers,
    programs: &[Program],
    rounds: usize,
    seconds: f64,
) -> anyhow::Result<String> {
    let mut all = LIBRARIES.map(|library| (library, Times::default()));
    for round in 0..rounds {
        for ((_, program, library, server), times) in &mut all {
            let program = programs.iter().find(|it| it.name == *program);
            let (Some(program), Some(url)) = (program, servers.url(*server)) else {
                continue;
            };
            let many = program.cycles(library, &url, CLIENTS, seconds)?;
            times.rates.push(many.len() as f64 / seconds);
            times.many.extend(many);
            times
                .alone
                .extend(program.cycles(library, &url, 1, seconds)?);
        }
        report(format!("cycles: round {} of {rounds}", round + 1));
    }
    let rows = all.map(|((name, ..), mut times)| {
        times.rates.sort_by(f64::total_cmp);
        let rate = match times.rates.get(times.rates.len() / 2) {
            Some(rate) => format!("{:.1} k cycles/s", rate / 1e3),
            None => "not measured".to_owned(),
        };
        let [many, more] = quantiles(times.many);
        let [alone, longer] = quantiles(times.alone);
        [name.to_owned(), rate, many, more, alone, longer]
    });
    let header =
        format!("library | {CLIENTS} at once, one client | p50 | p99 | one alone, p50 | p99");
    Ok(table(&header, rows))
}

/// Measures hand-offs of one lock between clients of one library, and of all of them.
fn hand_offs(
    servers: &Servers,
    programs: &[Program],
    rounds: usize,
    seconds: f64,
) -> anyhow::Result<String> {
    let url = servers.coordinator.endpoint();
    let rust = programs.first().context("this program is one")?;
    let (mut alone, mut together) = (Vec::new(), Vec::new());
    for round in 0..rounds {
        let many = vec![rust; programs.len()];
        alone.extend(holds::between(&many, &url, CONTENDERS, START + seconds)?);
        let every: Vec<_> = programs.iter().collect();
        together.extend(holds::between(&every, &url, CONTENDERS, START + seconds)?);
        report(format!("hand-offs: round {} of {rounds}", round + 1));
    }
    let names: Vec<_> = programs.iter().map(|program| &*program.name).collect();
    let rows = [("rust".to_owned(), alone), (names.join(", "), together)];
    let rows = rows.map(|(who, gaps)| {
        let [median, longest] = quantiles(gaps);
        let count = CONTENDERS * programs.len();
        [format!("{count} clients: {who}"), median, longest]
    });
    let header = "one lock, held for no time | release to next grant, p50 | p99";
    Ok(table(header, rows))
}

/// Returns the values that half of them, and 99 % of them, do not exceed.
fn quantiles(mut values: Vec<i64>) -> [String; 2] {
    values.sort_unstable();
    [0.5, 0.99].map(|share| match values.len().checked_sub(1) {
        Some(last) => format!("{} µs", values[(last as f64 * share).round() as usize]),
        None => "not measured".to_owned(),
    })
}

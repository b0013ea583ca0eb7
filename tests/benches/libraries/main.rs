//! Client libraries beside one another, and each beside what its users would take otherwise.
//!
//! `make bench-libraries`. Each program is measured in turns with the others, on one coordinator, one Redis server and one etcd, and the
//! tables go into `docs/client-benchmarks.md`. `LEASEHOLD_LIBRARIES` has the programs of other languages: a line `NAME=COMMAND` each, where a
//! command takes the arguments of [`worker`]. What is not there is not measured.
#![expect(clippy::print_stdout, reason = "the results are the program's output")]

mod etcd;
mod holds;
#[path = "../shared/marks.rs"]
mod marks;
mod program;
mod worker;

use std::{fmt::Write as _, fs, path::Path, process::ExitCode};

use anyhow::Context;
use clap::Parser;
use leasehold_tests::{Coordinator, CoordinatorProcess, RedisServer, report};

use self::{etcd::Etcd, program::Program};

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

/// Library of a program.
#[derive(Clone, Copy)]
struct Library {
    /// Its name in the table.
    name: &'static str,
    /// The program that uses it, and the library's name there.
    program: &'static str,
    library: &'static str,
    /// The server that it talks to.
    server: Server,
}

#[derive(Clone, Copy)]
enum Server {
    Coordinator,
    Redis,
    Etcd,
}

impl Library {
    const fn ours(name: &'static str, program: &'static str, library: &'static str) -> Self {
        Self {
            name,
            program,
            library,
            server: Server::Coordinator,
        }
    }

    const fn other(
        name: &'static str,
        program: &'static str,
        library: &'static str,
        server: Server,
    ) -> Self {
        Self {
            name,
            program,
            library,
            server,
        }
    }
}

const LIBRARIES: [Library; 12] = [
    Library::ours("Leasehold, Rust", "rust", "leasehold"),
    Library::ours("Leasehold, Go", "go", "leasehold"),
    Library::other("redsync, Go, one Redis", "go", "redsync", Server::Redis),
    Library::other("etcd's concurrency, Go", "go", "etcd", Server::Etcd),
    Library::ours("Leasehold, Python, asyncio", "python", "leasehold"),
    Library::ours("Leasehold, Python, threads", "python", "leasehold-sync"),
    Library::other("redis-py, asyncio", "python", "redis-py", Server::Redis),
    Library::ours("Leasehold, Node", "node", "leasehold"),
    Library::other(
        "node-redlock, Node, one Redis",
        "node",
        "node-redlock",
        Server::Redis,
    ),
    Library::ours("Leasehold, Java", "java", "leasehold"),
    Library::other("Redisson, Java, RLock", "java", "redisson", Server::Redis),
    Library::other(
        "Redisson, Java, fair lock",
        "java",
        "redisson-fair",
        Server::Redis,
    ),
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
        etcd: Etcd::start().await?,
    };
    let programs = Program::all()?;
    let cycles = cycles(&servers, &programs, rounds, seconds)?;
    let hand_offs = hand_offs(&servers, &programs, rounds, seconds)?;
    let section = format!("{cycles}\n{hand_offs}");
    println!("{section}");
    if !options.quick {
        let page = fs::read_to_string(PAGE)?;
        let page = marks::put(&page, "make bench-libraries", section.trim_end())?;
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
    let mut all: Vec<_> = LIBRARIES
        .iter()
        .map(|library| (library, Times::default()))
        .collect();
    for round in 0..rounds {
        for (library, times) in &mut all {
            let program = programs
                .iter()
                .find(|program| program.name == library.program);
            let (Some(program), Some(url)) = (program, servers.url(library.server)) else {
                continue;
            };
            let mut many = program.cycles(library.library, &url, CLIENTS, seconds)?;
            times.rates.push(many.len() as f64 / seconds);
            times.many.append(&mut many);
            times
                .alone
                .append(&mut program.cycles(library.library, &url, 1, seconds)?);
        }
        report(format!("cycles: round {} of {rounds}", round + 1));
    }
    let mut text = format!(
        "| library | {CLIENTS} at once, one client | p50 | p99 | one alone, p50 | p99 |\n|---|---|---|---|---|---|\n"
    );
    for (library, mut times) in all {
        let micros = |times: &mut Vec<i64>, share| micros(quantile(times, share));
        times.rates.sort_by(f64::total_cmp);
        let rate = match times.rates.get(times.rates.len() / 2) {
            Some(rate) => format!("{:.1} k cycles/s", rate / 1e3),
            None => "not measured".to_owned(),
        };
        writeln!(
            text,
            "| {} | {rate} | {} | {} | {} | {} |",
            library.name,
            micros(&mut times.many, 0.5),
            micros(&mut times.many, 0.99),
            micros(&mut times.alone, 0.5),
            micros(&mut times.alone, 0.99),
        )?;
    }
    Ok(text)
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
    let mut text =
        "| one lock, held for no time | release to next grant, p50 | p99 |\n|---|---|---|\n"
            .to_owned();
    for (who, mut gaps) in [("rust".to_owned(), alone), (names.join(", "), together)] {
        let count = CONTENDERS * programs.len();
        let micros = |gaps: &mut Vec<i64>, share| micros(quantile(gaps, share));
        writeln!(
            text,
            "| {count} clients: {who} | {} | {} |",
            micros(&mut gaps, 0.5),
            micros(&mut gaps, 0.99)
        )?;
    }
    Ok(text)
}

fn micros(time: Option<i64>) -> String {
    match time {
        Some(time) => format!("{time} µs"),
        None => "not measured".to_owned(),
    }
}

/// Returns the value that so large a share does not exceed.
fn quantile(values: &mut [i64], share: f64) -> Option<i64> {
    values.sort_unstable();
    let last = values.len().checked_sub(1)?;
    values.get((last as f64 * share).round() as usize).copied()
}

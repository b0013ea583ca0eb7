//! Parts of every client process of the torture run: its arguments, its history, and its connection to the registers.

use std::{
    io::Read,
    net::SocketAddr,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::Duration,
};

use anyhow::Context;
use clap::Parser;
use rand::{Rng, SeedableRng, rngs::StdRng};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader},
    net::TcpStream,
    sync::Mutex,
    task::JoinSet,
};
use tokio_util::sync::CancellationToken;

use crate::{
    history::{History, now},
    locks::{Cycle, LIMIT, Mode},
    stalls,
};

/// A deadline that moved by less is not recorded.
const MOVED: u64 = 10_000;

/// Arguments of a client process: `NAME ENDPOINTS REGISTERS HISTORY SEED TTL GRACE TASKS STORE [CREDENTIALS]`.
#[derive(Debug, Parser)]
pub struct Arguments {
    /// Its name in the history.
    pub name: String,
    /// Addresses of the coordinators, or of the store, separated by commas.
    pub endpoints: String,
    registers: SocketAddr,
    history: PathBuf,
    /// Seed of what the client draws.
    pub seed: u64,
    /// TTL of its sessions or locks, in milliseconds.
    #[arg(value_parser = millis)]
    pub ttl: Duration,
    /// Disconnect grace of its sessions, in milliseconds.
    #[arg(value_parser = millis)]
    pub grace: Duration,
    /// Number of tasks.
    pub tasks: u32,
    /// Topology of the store.
    pub store: String,
    /// Folder with its [credentials](crate::shown), if the coordinators ask for any.
    pub credentials: Option<PathBuf>,
}

fn millis(text: &str) -> Result<Duration, std::num::ParseIntError> {
    text.parse().map(Duration::from_millis)
}

/// Waits in a thread: what Tokio offers for standard input does not end with the runtime.
fn stop_at_end_of_input() -> CancellationToken {
    let stop = CancellationToken::new();
    let stopping = stop.clone();
    thread::spawn(move || {
        let mut rest = Vec::new();
        // Nothing is ever written; an error is an end too.
        let _ = std::io::stdin().read_to_end(&mut rest);
        stopping.cancel();
    });
    stop
}

/// A client process, as its history and the registers know it.
#[derive(Debug)]
pub struct Worker {
    /// Its arguments.
    pub arguments: Arguments,
    history: History,
    asks: AtomicU64,
    /// Cancelled when standard input ends: the client shall end.
    pub stop: CancellationToken,
}

impl Worker {
    /// Begins the history of this process by its arguments. Ends the process if they are not as they have to be.
    pub fn start() -> Arc<Self> {
        let arguments = Arguments::parse();
        let stalls = arguments.history.with_extension("stalls.jsonl");
        stalls::watch(&arguments.name, stalls);
        Arc::new(Self {
            history: History::create(&arguments.history),
            arguments,
            asks: AtomicU64::new(1),
            stop: stop_at_end_of_input(),
        })
    }

    /// Records that the client is about to ask. `queue` names the queue where a lock has several.
    pub fn asks(&self, cycle: &Cycle, queue: &str) -> Ask<'_> {
        let number = self.asks.fetch_add(1, Ordering::Relaxed);
        let ask = Ask {
            worker: self,
            number,
        };
        let mut fields = json!({"lock": cycle.lock, "queue": queue});
        let (mode, permits) = match cycle.mode {
            Mode::Exclusive => ("exclusive", None),
            Mode::Shared => ("shared", None),
            Mode::Permits(permits) => ("permits", Some(permits)),
        };
        fields["mode"] = json!(mode);
        if let Some(permits) = permits {
            fields["permits"] = json!(permits);
            fields["limit"] = json!(LIMIT);
        }
        if let Some(wait) = cycle.wait {
            let micros = u64::try_from(wait.as_micros());
            fields["wait"] = json!(micros.unwrap_or(u64::MAX));
        }
        ask.line("asked", fields);
        ask
    }

    /// Records that the client ended by itself.
    pub fn finished(&self) {
        let client = &self.arguments.name;
        self.history.line("finished", json!({"client": client}));
    }
}

/// An acquire and its hold in the history.
#[derive(Debug)]
pub struct Ask<'a> {
    worker: &'a Worker,
    number: u64,
}

impl<'a> Ask<'a> {
    fn line(&self, kind: &str, mut fields: Value) {
        fields["client"] = json!(self.worker.arguments.name);
        fields["ask"] = json!(self.number);
        self.worker.history.line(kind, fields);
    }

    /// Records that the acquire ended without a grant.
    pub fn ended(&self, outcome: &str, why: &str) {
        self.line("ended", json!({"outcome": outcome, "why": why}));
    }

    /// Records a grant, with its token if it has one, and returns the hold.
    pub fn granted(self, token: Option<i64>, until: u64) -> Held<'a> {
        self.line("granted", json!({"token": token, "until": until}));
        Held { ask: self, until }
    }
}

/// A hold in the history.
#[derive(Debug)]
pub struct Held<'a> {
    ask: Ask<'a>,
    until: u64,
}

impl Held<'_> {
    /// Returns the recorded deadline.
    pub fn until(&self) -> u64 {
        self.until
    }

    /// Records a later deadline, if it is clearly later.
    pub fn extended(&mut self, until: u64) {
        if until > self.until + MOVED {
            self.until = until;
            self.ask.line("extended", json!({"until": until}));
        }
    }

    /// Records that the hold is suspended.
    pub fn suspended(&self) {
        self.ask.line("suspended", json!({}));
    }

    /// Records that it is held again.
    pub fn resumed(&mut self, until: u64) {
        self.until = until;
        self.ask.line("resumed", json!({"until": until}));
    }

    /// Records that it is lost.
    pub fn lost(&self, why: &str) {
        self.ask.line("lost", json!({"why": why}));
    }

    /// Records that the client is about to release it.
    pub fn releasing(&self) {
        self.ask.line("releasing", json!({}));
    }

    /// Records the answer to the release.
    pub fn released(&self, held: bool) {
        self.ask.line("released", json!({"held": held}));
    }
}

/// A task's connection to the harness's registers.
#[derive(Debug, Default)]
pub struct Registers {
    stream: Mutex<Option<BufReader<TcpStream>>>,
}

impl Registers {
    /// Writes to the register of a lock, if it has one, without a look at the hold: fencing has to stop what comes late.
    pub async fn write(&self, worker: &Worker, cycle: &Cycle, token: Option<i64>) {
        let (true, Some(token)) = (cycle.has_register(), token) else {
            return;
        };
        let mut stream = self.stream.lock().await;
        if stream.is_none() {
            *stream = connect(worker.arguments.registers).await.ok();
        }
        if let Some(open) = &mut *stream {
            let line = format!("{} {} {token}\n", worker.arguments.name, cycle.lock);
            if write(open, &line).await.is_err() {
                *stream = None;
            }
        }
    }
}

async fn connect(address: SocketAddr) -> std::io::Result<BufReader<TcpStream>> {
    let stream = TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    Ok(BufReader::new(stream))
}

/// Writes, and waits for the answer, which only the register records.
async fn write(stream: &mut BufReader<TcpStream>, line: &str) -> std::io::Result<()> {
    stream.write_all(line.as_bytes()).await?;
    let mut answer = String::new();
    match stream.read_line(&mut answer).await? {
        0 => Err(std::io::ErrorKind::UnexpectedEof.into()),
        _ => Ok(()),
    }
}

/// Returns the time on the history's clock after this one, without an overflow.
pub fn after(at: u64, time: Duration) -> u64 {
    at.saturating_add(u64::try_from(time.as_micros()).unwrap_or(u64::MAX / 2))
}

/// Returns the time from now until a time of the history's clock.
pub fn left(until: u64) -> Duration {
    Duration::from_micros(until.saturating_sub(now()))
}

/// Lives the life of a client that has nothing but its tasks.
///
/// # Errors
///
/// If a task panics.
pub async fn run<F>(live: impl Fn(Arc<Worker>, StdRng) -> F) -> anyhow::Result<()>
where
    F: Future<Output = ()> + Send + 'static,
{
    let worker = Worker::start();
    run_tasks(&worker.arguments, |random| live(worker.clone(), random)).await?;
    worker.finished();
    Ok(())
}

/// Runs as many tasks as the arguments say, each with dice of its own, until all have ended.
///
/// # Errors
///
/// If a task panics.
pub async fn run_tasks<F>(arguments: &Arguments, live: impl Fn(StdRng) -> F) -> anyhow::Result<()>
where
    F: Future<Output = ()> + Send + 'static,
{
    let mut random = StdRng::seed_from_u64(arguments.seed);
    let mut running = JoinSet::new();
    for _ in 0..arguments.tasks {
        running.spawn(live(StdRng::seed_from_u64(random.random())));
    }
    while let Some(ended) = running.join_next().await {
        ended.context("a task panicked")?;
    }
    Ok(())
}

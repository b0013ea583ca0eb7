//! Client of the torture run: takes locks in several tasks, writes to their registers, and records what it believes.
//!
//! `torture-client NAME ENDPOINTS REGISTERS HISTORY SEED TTL_MS GRACE_MS TASKS STORE`. It ends each task's cycle and then itself when its
//! standard input ends. A task writes to the register of a lock without a look at its guard: fencing has to stop what comes late.

use std::{
    io::Read,
    net::SocketAddr,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::Duration,
};

use anyhow::{Context, bail};
use leasehold_client::{AcquireError, Client, LockGuard, LockState, SemaphorePermit};
use leasehold_torture::{
    history::{History, now},
    locks::{Cycle, LIMIT, Mode},
    stalls,
};
use rand::{Rng, SeedableRng, rngs::StdRng};
use serde_json::json;
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader},
    net::TcpStream,
    task::JoinSet,
    time::{Instant, sleep, sleep_until, timeout},
};
use tokio_util::sync::CancellationToken;

/// Longest time between two looks at a guard.
const LOOK: Duration = Duration::from_millis(40);
/// A deadline that moved by less is not recorded.
const MOVED: u64 = 10_000;
/// Pause after an error.
const PAUSE: Duration = Duration::from_millis(200);

/// State that all tasks share.
struct World {
    name: String,
    client: Client,
    history: History,
    registers: SocketAddr,
    asks: AtomicU64,
    stop: CancellationToken,
    /// The store is a quorum, where each coordinator has a queue of its own.
    quorum: bool,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> anyhow::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [
        name,
        endpoints,
        registers,
        history,
        seed,
        ttl,
        grace,
        tasks,
        store,
    ] = &arguments[..]
    else {
        bail!(
            "usage: torture-client NAME ENDPOINTS REGISTERS HISTORY SEED TTL_MS GRACE_MS TASKS STORE"
        );
    };
    let millis = |text: &str| anyhow::Ok(Duration::from_millis(text.parse()?));
    let mut random = StdRng::seed_from_u64(seed.parse().context("SEED is a number")?);
    let tasks: u32 = tasks.parse().context("TASKS is a number")?;
    let path = Path::new(history);
    stalls::watch(name, path.with_extension("stalls.jsonl"));
    let history = History::create(path);
    let stop = stop_at_end_of_input();
    let builder = Client::builder()
        .client_name(name.clone())
        .ttl(millis(ttl)?)
        .disconnect_grace(millis(grace)?);
    let client = loop {
        match builder.clone().connect(endpoints.as_str()).await {
            Ok(client) => break client,
            Err(_) if stop.is_cancelled() => {
                history.line("finished", json!({"client": name}));
                return Ok(());
            }
            // A fault is on.
            Err(_) => sleep(PAUSE).await,
        }
    };
    let world = Arc::new(World {
        name: name.clone(),
        client,
        history,
        registers: registers.parse().context("REGISTERS is an address")?,
        asks: AtomicU64::new(1),
        stop,
        quorum: store == "quorum",
    });
    let mut running = JoinSet::new();
    for _ in 0..tasks {
        let random = StdRng::seed_from_u64(random.random());
        running.spawn(live(Arc::clone(&world), random));
    }
    while let Some(ended) = running.join_next().await {
        ended.context("a task panicked")??;
    }
    // What it still has, it loses with the end of the process.
    let _ = timeout(Duration::from_secs(10), world.client.close()).await;
    world
        .history
        .line("finished", json!({"client": world.name}));
    Ok(())
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

async fn live(world: Arc<World>, mut random: StdRng) -> anyhow::Result<()> {
    let mut registers = None;
    while !world.stop.is_cancelled() {
        let cycle = Cycle::draw(&mut random, world.quorum);
        world.run(&cycle, &mut registers).await?;
        tokio::select! {
            () = sleep(cycle.pause) => {}
            () = world.stop.cancelled() => {}
        }
    }
    Ok(())
}

impl World {
    async fn run(&self, cycle: &Cycle, registers: &mut Option<Register>) -> anyhow::Result<()> {
        let ask = self.asks.fetch_add(1, Ordering::Relaxed);
        let client = &self.name;
        let mut asked = json!({"client": client, "ask": ask, "lock": cycle.lock});
        let (mode, permits) = match cycle.mode {
            Mode::Exclusive => ("exclusive", None),
            Mode::Shared => ("shared", None),
            Mode::Permits(permits) => ("permits", Some(permits)),
        };
        asked["mode"] = json!(mode);
        if let Some(permits) = permits {
            asked["permits"] = json!(permits);
            asked["limit"] = json!(LIMIT);
        }
        if let Some(wait) = cycle.wait {
            asked["wait"] = json!(u64::try_from(wait.as_micros())?);
        }
        if self.quorum {
            let session = self.client.default_session().info();
            asked["queue"] = json!(session.map_or(String::new(), |info| info.coordinator));
        }
        self.history.line("asked", asked);
        let give_up = cycle.give_up.unwrap_or(Duration::MAX);
        let ended = |outcome: &str, why: String| {
            let fields = json!({"client": client, "ask": ask, "outcome": outcome, "why": why});
            self.history.line("ended", fields);
        };
        match timeout(give_up, Box::pin(self.acquire(cycle))).await {
            Ok(Ok(guard)) => self.hold(ask, cycle, guard, registers).await,
            Ok(Err(AcquireError::TimedOut { .. })) => ended("timed_out", String::new()),
            Ok(Err(AcquireError::Busy { .. })) => ended("busy", String::new()),
            Ok(Err(error)) => {
                ended("failed", format!("{:#}", anyhow::Error::new(error)));
                sleep(PAUSE).await;
            }
            Err(_) => ended("cancelled", String::new()),
        }
        Ok(())
    }

    async fn acquire(&self, cycle: &Cycle) -> Result<LockGuard, AcquireError> {
        if let Mode::Permits(permits) = cycle.mode {
            let semaphore = self.client.semaphore(&*cycle.lock, LIMIT);
            let mut request = semaphore.permits(permits).lock_delay(cycle.lock_delay);
            if let Some(wait) = cycle.wait {
                request = request.wait(wait);
            }
            return request.await.map(SemaphorePermit::into_guard);
        }
        let mut request = self.client.lock(&*cycle.lock).lock_delay(cycle.lock_delay);
        if cycle.mode == Mode::Shared {
            request = request.shared();
        }
        if let Some(wait) = cycle.wait {
            request = request.wait(wait);
        }
        request.await
    }

    /// Holds a lock for the cycle's time or until it is lost, writes to its register, and records all that the guard says.
    async fn hold(
        &self,
        ask: u64,
        cycle: &Cycle,
        guard: LockGuard,
        registers: &mut Option<Register>,
    ) {
        let record = |kind: &str, mut fields: serde_json::Value| {
            fields["client"] = json!(self.name);
            fields["ask"] = json!(ask);
            self.history.line(kind, fields);
        };
        let token = guard.fencing_token().get();
        let mut until = deadline(&guard);
        record("granted", json!({"token": token, "until": until}));
        let end = Instant::now() + cycle.hold;
        let mut last = LockState::Held;
        loop {
            let state = guard.state();
            match (last, state) {
                (_, LockState::Lost(why)) => {
                    record("lost", json!({"why": why.to_string()}));
                    // The late write of a client that does not know better.
                    self.write(cycle, token, registers).await;
                    return;
                }
                (LockState::Held, LockState::Suspended) => record("suspended", json!({})),
                (LockState::Suspended, LockState::Held) => {
                    until = deadline(&guard);
                    record("resumed", json!({"until": until}));
                }
                (_, LockState::Held) => {
                    let extended = deadline(&guard);
                    // It may have been lost since.
                    if extended > until + MOVED && guard.is_held() {
                        until = extended;
                        record("extended", json!({"until": until}));
                    }
                }
                _ => {}
            }
            last = state;
            if Instant::now() >= end {
                break;
            }
            let changed = guard.changed();
            self.write(cycle, token, registers).await;
            tokio::select! {
                _ = changed => {}
                () = sleep_until(end.min(Instant::now() + LOOK)) => {}
            }
        }
        record("releasing", json!({}));
        let held = guard.release().await.is_ok();
        record("released", json!({"held": held}));
    }

    /// Writes to the register of a lock, if it has one.
    async fn write(&self, cycle: &Cycle, token: i64, registers: &mut Option<Register>) {
        if !cycle.has_register() {
            return;
        }
        if registers.is_none() {
            *registers = Register::connect(self.registers).await.ok();
        }
        if let Some(register) = registers {
            let line = format!("{} {} {token}\n", self.name, cycle.lock);
            if register.write(&line).await.is_err() {
                *registers = None;
            }
        }
    }
}

/// Returns the time until which a guard may be relied on. The clock is read first, so that it is never too late.
fn deadline(guard: &LockGuard) -> u64 {
    let now = now();
    now + u64::try_from(guard.valid_for().as_micros()).unwrap_or(u64::MAX / 2)
}

/// Connection to the harness's registers.
struct Register {
    stream: BufReader<TcpStream>,
}

impl Register {
    async fn connect(address: SocketAddr) -> std::io::Result<Self> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        Ok(Self {
            stream: BufReader::new(stream),
        })
    }

    /// Writes, and waits for the answer, which only the register records.
    async fn write(&mut self, line: &str) -> std::io::Result<()> {
        self.stream.write_all(line.as_bytes()).await?;
        let mut answer = String::new();
        match self.stream.read_line(&mut answer).await? {
            0 => Err(std::io::ErrorKind::UnexpectedEof.into()),
            _ => Ok(()),
        }
    }
}

//! Client processes, each with a proxy of its own before every coordinator.

use std::{
    net::SocketAddr,
    path::Path,
    process::{ChildStdin, Command, Stdio},
    sync::Arc,
    time::Duration,
};

use leasehold_tests::{ChildProcess, FaultProxy, binaries};
use rand::{Rng, rngs::StdRng};
use serde_json::json;
use tokio::time::{Instant, sleep};

use crate::{TTL, coordinators::Coordinators, record::Record};

/// Number of client processes at a time.
const CLIENTS: usize = 6;
/// Tasks of each, which take locks independently.
const TASKS: u32 = 4;
/// Longest time until clients have ended after they were asked to: the longest wait of an acquire, and some.
const ENDED: Duration = Duration::from_secs(90);

/// The clients.
pub(crate) struct Clients {
    registers: SocketAddr,
    store: &'static str,
    record: Arc<Record>,
    random: StdRng,
    started: u32,
    pub(crate) seats: Vec<Seat>,
}

/// A place for one client process at a time.
pub(crate) struct Seat {
    pub(crate) name: String,
    pub(crate) process: ChildProcess,
    pub(crate) proxies: Vec<FaultProxy>,
    /// Kept open: its end asks the client to end.
    input: Option<ChildStdin>,
}

impl Clients {
    pub(crate) async fn start(
        coordinators: &Coordinators,
        registers: SocketAddr,
        store: &'static str,
        record: Arc<Record>,
        random: StdRng,
    ) -> Self {
        let mut clients = Self {
            registers,
            store,
            record,
            random,
            started: 0,
            seats: Vec::new(),
        };
        for _ in 0..CLIENTS {
            let mut proxies = Vec::new();
            for endpoint in coordinators.endpoints() {
                proxies.push(FaultProxy::before(&endpoint).await);
            }
            let (name, process, input) = clients.launch(&proxies);
            clients.seats.push(Seat {
                name,
                process,
                proxies,
                input: Some(input),
            });
        }
        clients
    }

    fn launch(&mut self, proxies: &[FaultProxy]) -> (String, ChildProcess, ChildStdin) {
        self.started += 1;
        let name = format!("client-{}", self.started);
        let endpoints: Vec<_> = proxies.iter().map(FaultProxy::endpoint).collect();
        let grace = if self.random.random_bool(0.5) {
            TTL
        } else {
            Duration::ZERO
        };
        let seed: u64 = self.random.random();
        let mut command = Command::new(binaries::path("torture-client"));
        let history = self.record.path(&name);
        command
            .arg(&name)
            .arg(endpoints.join(","))
            .arg(self.registers.to_string())
            .arg::<&Path>(&history)
            .arg(seed.to_string())
            .arg(TTL.as_millis().to_string())
            .arg(grace.as_millis().to_string())
            .arg(TASKS.to_string())
            .arg(self.store)
            .stdin(Stdio::piped());
        let mut process = ChildProcess::spawn(&name, command);
        let input = process.take_stdin();
        (name, process, input)
    }

    /// Kills a client.
    pub(crate) fn kill(&mut self, number: usize) {
        let seat = &mut self.seats[number];
        self.record.line("killed", json!({"client": seat.name}));
        seat.process.kill();
    }

    /// Starts another client in the place of a killed one.
    pub(crate) fn replace(&mut self, number: usize) {
        let proxies = std::mem::take(&mut self.seats[number].proxies);
        let (name, process, input) = self.launch(&proxies);
        self.seats[number] = Seat {
            name,
            process,
            proxies,
            input: Some(input),
        };
    }

    /// Asks all to end, waits until they have, and returns what failed. A client that does not end is left to the checker as
    /// well: its acquires have no end.
    pub(crate) async fn finish(mut self) -> Vec<String> {
        let mut failures = Vec::new();
        for seat in &mut self.seats {
            seat.input = None;
        }
        let deadline = Instant::now() + ENDED;
        for seat in &mut self.seats {
            loop {
                match seat.process.try_wait() {
                    Some(status) if status.success() => break,
                    Some(status) => {
                        failures.push(format!("{} ended with {status}", seat.name));
                        break;
                    }
                    None if Instant::now() >= deadline => {
                        failures.push(format!("{} has not ended", seat.name));
                        break;
                    }
                    None => sleep(Duration::from_millis(20)).await,
                }
            }
        }
        failures
    }
}

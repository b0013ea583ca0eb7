//! Client processes, each with a proxy of its own before every coordinator.

use std::{
    net::{Ipv4Addr, SocketAddr},
    path::Path,
    process::{ChildStdin, Command, Stdio},
    sync::Arc,
    time::Duration,
};

use leasehold_tests::{ChildProcess, FaultProxy, Host, Network, binaries};
use rand::{Rng, rngs::StdRng};
use serde_json::json;
use tokio::time::{Instant, sleep};

use crate::{TTL, coordinators::Coordinators, credentials::Credentials, planted, record::Record};

/// Client processes at a time: on the Rust client, on the generated stubs alone, and hand-written lockers beside them.
const CLIENTS: [(Kind, usize); 3] = [(Kind::Rust, 5), (Kind::Stub, 2), (Kind::Locker, 1)];
/// Tasks of each, which take locks independently.
const TASKS: u32 = 4;
/// Longest time until clients that were disturbed go on. One that does not is the checker's concern: something of it has no end.
const GONE_ON: Duration = Duration::from_secs(10);
/// Longest time until clients have ended after they were asked to: the longest wait of an acquire, and some.
const ENDED: Duration = Duration::from_secs(90);

/// The clients.
pub(crate) struct Clients {
    registers: SocketAddr,
    store: &'static str,
    /// Servers of the hand-written lockers.
    servers: Vec<String>,
    /// Fault that is planted in them.
    planted: Option<String>,
    record: Arc<Record>,
    random: StdRng,
    started: u32,
    /// The address of the proxies before each coordinator; none without a network.
    pub(crate) aliases: Vec<Host>,
    pub(crate) seats: Vec<Seat>,
    credentials: Option<Arc<Credentials>>,
}

/// Clients of coordinators: they have the first seats.
pub(crate) fn of_coordinators() -> usize {
    let counts = CLIENTS.iter().filter(|(kind, _)| *kind != Kind::Locker);
    counts.map(|(_, count)| count).sum()
}

/// Kind of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Rust,
    Stub,
    Locker,
}

impl Kind {
    fn program(self) -> &'static str {
        match self {
            Self::Rust => "torture-client",
            Self::Stub => "torture-stub",
            Self::Locker => "torture-locker",
        }
    }

    /// Returns the beginning of the names in the history.
    fn name(self) -> &'static str {
        match self {
            Self::Rust => "client",
            Self::Stub => "stub",
            Self::Locker => "locker",
        }
    }
}

/// A place for one client process at a time.
pub(crate) struct Seat {
    kind: Kind,
    pub(crate) host: Option<Host>,
    pub(crate) name: String,
    pub(crate) process: ChildProcess,
    pub(crate) proxies: Vec<FaultProxy>,
    /// Kept open: its end asks the client to end.
    input: Option<ChildStdin>,
}

impl Clients {
    pub(crate) async fn start(
        (coordinators, network): (&Coordinators, Option<&Network>),
        registers: SocketAddr,
        store: &'static str,
        servers: Vec<String>,
        planted: Option<String>,
        record: Arc<Record>,
        random: StdRng,
    ) -> Self {
        let mut clients = Self {
            registers,
            store,
            servers,
            planted,
            record,
            random,
            started: 0,
            aliases: Vec::new(),
            seats: Vec::new(),
            credentials: coordinators.credentials().cloned(),
        };
        let endpoints = coordinators.endpoints();
        if let Some(network) = network {
            clients.aliases = endpoints.iter().map(|_| network.alias()).collect();
        }
        let kinds = CLIENTS.into_iter();
        let kinds = kinds.flat_map(|(kind, count)| std::iter::repeat_n(kind, count));
        for kind in kinds {
            let mut proxies = Vec::new();
            if kind == Kind::Locker {
                if clients.servers.is_empty() {
                    continue;
                }
            } else {
                for (number, endpoint) in endpoints.iter().enumerate() {
                    let alias = clients.aliases.get(number).map(Host::address);
                    let at = alias.unwrap_or(Ipv4Addr::LOCALHOST);
                    let (_, upstream) = endpoint.split_once("://").expect("a URL");
                    let upstream = upstream.parse().expect("an address and a port");
                    proxies.push(FaultProxy::start_at(at, upstream).await);
                }
            }
            let host = network.map(Network::host);
            let number = clients.seats.len();
            let (name, process, input) = clients.launch(number, kind, &proxies, host.as_ref());
            clients.seats.push(Seat {
                kind,
                host,
                name,
                process,
                proxies,
                input: Some(input),
            });
        }
        clients
    }

    fn launch(
        &mut self,
        seat: usize,
        kind: Kind,
        proxies: &[FaultProxy],
        host: Option<&Host>,
    ) -> (String, ChildProcess, ChildStdin) {
        self.started += 1;
        let name = format!("{}-{}", kind.name(), self.started);
        let endpoints = match kind {
            Kind::Locker => self.servers.clone(),
            _ => {
                let scheme = self.credentials.as_ref().map_or("http", |_| "https");
                let all = proxies.iter().map(FaultProxy::address);
                all.map(|address| format!("{scheme}://{address}")).collect()
            }
        };
        let grace = if self.random.random_bool(0.5) {
            TTL
        } else {
            Duration::ZERO
        };
        let seed: u64 = self.random.random();
        let mut command = Command::new(binaries::path(kind.program()));
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
            .arg(self.store);
        if let Some(credentials) = self.credentials.as_ref().filter(|_| kind != Kind::Locker) {
            command.arg(credentials.folder(seat));
            credentials.seated(seat, &name);
        }
        if let Some(host) = host {
            command = host.command(&command);
        }
        command.stdin(Stdio::piped());
        if let Some(fault) = &self.planted {
            command.env(planted::VARIABLE, fault);
        }
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
        let kind = self.seats[number].kind;
        let host = self.seats[number].host.clone();
        let proxies = std::mem::take(&mut self.seats[number].proxies);
        let (name, process, input) = self.launch(number, kind, &proxies, host.as_ref());
        self.seats[number] = Seat {
            kind,
            host,
            name,
            process,
            proxies,
            input: Some(input),
        };
    }

    /// Waits, without faults, until each has gone on: it has asked for something since.
    pub(crate) async fn go_on(&self) {
        let asked = |seat: &Seat| {
            let history = std::fs::read_to_string(self.record.path(&seat.name));
            history.map_or(0, |text| text.matches(r#""kind":"asked""#).count())
        };
        let before: Vec<_> = self.seats.iter().map(asked).collect();
        let deadline = Instant::now() + GONE_ON;
        for (seat, before) in self.seats.iter().zip(before) {
            while asked(seat) <= before && Instant::now() < deadline {
                sleep(Duration::from_millis(50)).await;
            }
        }
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

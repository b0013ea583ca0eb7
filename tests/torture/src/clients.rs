//! Client processes, each with a proxy of its own before every coordinator.

use std::{
    net::{Ipv4Addr, SocketAddr},
    path::Path,
    process::{ChildStdin, Command, Stdio},
    sync::Arc,
    time::Duration,
};

use anyhow::{Context, ensure};
use leasehold_tests::{ChildProcess, FaultProxy, Host, Network, binaries};
use rand::{Rng, rngs::StdRng};
use serde_json::json;
use tokio::time::{Instant, sleep};

use crate::{TTL, coordinators::Coordinators, credentials::Credentials, planted, record::Record};

/// Tasks of each, which take locks independently.
const TASKS: u32 = 4;
/// Longest time until clients that were disturbed go on. One that does not is the checker's concern: something of it has no end.
const GONE_ON: Duration = Duration::from_secs(10);
/// Longest time until clients have ended after they were asked to: the longest wait of an acquire, and some.
const ENDED: Duration = Duration::from_secs(90);

/// The clients.
pub(crate) struct Clients {
    registers: SocketAddr,
    store: String,
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

/// Client programs, and how many processes of each there are at a time.
#[derive(Clone, Debug)]
pub(crate) struct Crew {
    /// Those of coordinators come first.
    kinds: Vec<(Arc<Kind>, usize)>,
    /// Fault that is planted in them.
    planted: Option<String>,
}

/// Client program.
#[derive(Debug)]
struct Kind {
    /// Beginning of the names of its processes in the history.
    name: String,
    program: Program,
    /// Whether it talks to coordinators rather than to the store.
    of_coordinators: bool,
}

#[derive(Debug)]
enum Program {
    /// One of this package.
    Ours(&'static str),
    /// The command line of another one that takes the same arguments.
    Other(Vec<String>),
}

impl Crew {
    /// Returns one of clients on the Rust client, on the generated stubs alone, and hand-written lockers; with clients on other
    /// libraries, `NAME=COMMAND` each, among them.
    pub(crate) fn new(libraries: &[String], planted: Option<String>) -> anyhow::Result<Self> {
        let ours = |name: &str, program, of_coordinators| Kind {
            name: name.to_owned(),
            program: Program::Ours(program),
            of_coordinators,
        };
        let others = libraries.iter().map(|library| {
            let (name, command) = library
                .split_once('=')
                .context("a library is NAME=COMMAND")?;
            let command: Vec<_> = command.split_whitespace().map(str::to_owned).collect();
            ensure!(!command.is_empty(), "{name} has no command");
            let kind = Kind {
                name: name.to_owned(),
                program: Program::Other(command),
                of_coordinators: true,
            };
            Ok((kind, 2))
        });
        let others = others.collect::<anyhow::Result<Vec<_>>>()?;
        let (rust, stubs) = if others.is_empty() { (5, 2) } else { (2, 1) };
        let mut kinds = vec![
            (ours("client", "torture-client", true), rust),
            (ours("stub", "torture-stub", true), stubs),
        ];
        kinds.extend(others);
        kinds.push((ours("locker", "torture-locker", false), 1));
        let shared = |(kind, count)| (Arc::new(kind), count);
        Ok(Self {
            kinds: kinds.into_iter().map(shared).collect(),
            planted,
        })
    }

    /// Returns the number of processes that talk to coordinators. They have the first seats.
    pub(crate) fn of_coordinators(&self) -> usize {
        let kinds = self.kinds.iter().filter(|(kind, _)| kind.of_coordinators);
        kinds.map(|(_, count)| count).sum()
    }
}

impl Kind {
    fn command(&self) -> Command {
        match &self.program {
            Program::Ours(program) => Command::new(binaries::path(program)),
            Program::Other(words) => {
                let mut command = Command::new(&words[0]);
                command.args(&words[1..]);
                command
            }
        }
    }
}

/// A place for one client process at a time.
pub(crate) struct Seat {
    kind: Arc<Kind>,
    pub(crate) host: Option<Host>,
    pub(crate) name: String,
    pub(crate) process: ChildProcess,
    pub(crate) proxies: Vec<FaultProxy>,
    /// Kept open: its end asks the client to end.
    input: Option<ChildStdin>,
}

impl Clients {
    pub(crate) async fn start(
        crew: &Crew,
        (coordinators, network): (&Coordinators, Option<&Network>),
        registers: SocketAddr,
        store: String,
        servers: Vec<String>,
        record: Arc<Record>,
        random: StdRng,
    ) -> Self {
        let mut clients = Self {
            registers,
            store,
            servers,
            planted: crew.planted.clone(),
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
        let kinds = crew.kinds.iter();
        let kinds = kinds.flat_map(|(kind, count)| std::iter::repeat_n(kind, *count));
        for kind in kinds {
            let mut proxies = Vec::new();
            if !kind.of_coordinators && clients.servers.is_empty() {
                continue;
            }
            if kind.of_coordinators {
                for (number, endpoint) in endpoints.iter().enumerate() {
                    let alias = clients.aliases.get(number).map(Host::address);
                    let at = alias.unwrap_or(Ipv4Addr::LOCALHOST);
                    let (_, upstream) = endpoint.split_once("://").expect("a URL");
                    let upstream = upstream.parse().expect("an address and a port");
                    proxies.push(FaultProxy::start_at(at, upstream).await);
                }
            }
            let host = network.map(Network::host);
            let seat = clients.launch(clients.seats.len(), Arc::clone(kind), host, proxies);
            clients.seats.push(seat);
        }
        clients
    }

    /// Starts a client at a seat.
    fn launch(
        &mut self,
        seat: usize,
        kind: Arc<Kind>,
        host: Option<Host>,
        proxies: Vec<FaultProxy>,
    ) -> Seat {
        self.started += 1;
        let name = format!("{}-{}", kind.name, self.started);
        let endpoints = if kind.of_coordinators {
            let scheme = self.credentials.as_ref().map_or("http", |_| "https");
            let all = proxies.iter().map(FaultProxy::address);
            all.map(|address| format!("{scheme}://{address}")).collect()
        } else {
            self.servers.clone()
        };
        let grace = if self.random.random_bool(0.5) {
            TTL
        } else {
            Duration::ZERO
        };
        let seed: u64 = self.random.random();
        let mut command = kind.command();
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
            .arg(&self.store);
        if let Some(credentials) = self.credentials.as_ref().filter(|_| kind.of_coordinators) {
            command.arg(credentials.folder(seat));
            credentials.seated(seat, &name, &self.record);
        }
        if let Some(host) = &host {
            command = host.command(&command);
        }
        command.stdin(Stdio::piped());
        if let Some(fault) = &self.planted {
            command.env(planted::VARIABLE, fault);
        }
        let mut process = ChildProcess::spawn(&name, command);
        Seat {
            input: Some(process.take_stdin()),
            kind,
            host,
            name,
            process,
            proxies,
        }
    }

    /// Kills a client.
    pub(crate) fn kill(&mut self, number: usize) {
        let seat = &mut self.seats[number];
        self.record.line("killed", json!({"client": seat.name}));
        seat.process.kill();
    }

    /// Starts another client in the place of a killed one.
    pub(crate) fn replace(&mut self, number: usize) {
        let seat = &mut self.seats[number];
        let (kind, host) = (Arc::clone(&seat.kind), seat.host.clone());
        let proxies = std::mem::take(&mut seat.proxies);
        self.seats[number] = self.launch(number, kind, host, proxies);
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

//! Redis and coordinators on it, and the resources that both have used.

use std::{collections::BTreeMap, time::Instant};

use anyhow::Context;
use leasehold_tests::{
    Cluster, Coordinator, CoordinatorProcess, FaultProxy, RedisServer, cluster::MASTERS, usage,
};
use redis::aio::MultiplexedConnection;
use rustix::process::{Resource, getrlimit, setrlimit};

/// Limits of a coordinator that lets one caller, the driver, have everything. 0 is any number.
const FLAGS: [&str; 5] = [
    "--max-connections=20000",
    "--max-sessions=100000",
    "--max-sessions-per-identity=100000",
    "--max-waiters-per-name=30000",
    "--max-requests-per-second=0",
];
/// File descriptors of a process beside those of its clients.
pub(crate) const OTHER_FILES: u64 = 200;

/// Every row has its own, so that nothing that one leaves behind is counted in the next.
pub(crate) struct Stage {
    store: Store,
    coordinators: Vec<CoordinatorProcess>,
    /// In front of the coordinators, where the bytes of clients are counted.
    proxies: Vec<FaultProxy>,
    processes: Vec<u32>,
    /// One to each master.
    connections: Vec<MultiplexedConnection>,
}

/// Redis: one server, or three masters with a replica each.
enum Store {
    Single(RedisServer),
    Cluster(Cluster),
}

/// Counters at one moment. Those of coordinators and of masters are sums over them.
#[derive(Clone, Debug)]
pub(crate) struct Reading {
    at: Instant,
    operations: Option<f64>,
    commands: BTreeMap<String, Command>,
    redis_cpu: f64,
    coordinator_cpu: f64,
    /// Resident memory of the coordinators.
    pub(crate) rss_kib: f64,
    /// Memory that Redis has in use.
    pub(crate) redis_bytes: f64,
    redis_traffic: f64,
    client_traffic: f64,
}

/// Redis's count of one command. The commands of a script count in the script's time too, and by their own names.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Command {
    pub(crate) calls: f64,
    pub(crate) micros: f64,
}

/// Resources spent between two readings.
#[derive(Clone, Debug)]
pub(crate) struct Spent {
    pub(crate) seconds: f64,
    /// The operations that coordinators asked of the store, counted before they are coalesced; `None` if the coordinators do
    /// not count them.
    pub(crate) operations: Option<f64>,
    /// Calls of scripts, after coalescing.
    pub(crate) scripts: Command,
    commands: BTreeMap<String, Command>,
    /// In seconds, as the next.
    pub(crate) redis_cpu: f64,
    pub(crate) coordinator_cpu: f64,
    /// At the later reading, as the next.
    pub(crate) rss_kib: f64,
    pub(crate) redis_bytes: f64,
    /// Bytes that Redis received and sent.
    pub(crate) redis_traffic: f64,
    /// Bytes between clients and coordinators, if there are proxies between them.
    pub(crate) client_traffic: f64,
}

impl Stage {
    /// Starts a new Redis server, with `coordinators` on it.
    pub(crate) async fn start(coordinators: usize) -> Self {
        Self::on(Store::Single(RedisServer::start()), coordinators).await
    }

    /// Does the same with a cluster.
    pub(crate) async fn on_cluster(coordinators: usize) -> Self {
        Self::on(Store::Cluster(Cluster::start()), coordinators).await
    }

    async fn on(store: Store, coordinators: usize) -> Self {
        let url = match &store {
            Store::Single(redis) => redis.url(),
            Store::Cluster(cluster) => cluster.url(),
        };
        let mut connections = Vec::new();
        for master in store.masters() {
            connections.push(master.async_connection().await);
        }
        let mut coordinators: Vec<_> = (0..coordinators)
            .map(|_| {
                let coordinator = Coordinator::process().store(&url);
                coordinator.arguments(FLAGS).start()
            })
            .collect();
        Self {
            processes: coordinators
                .iter_mut()
                .map(|coordinator| coordinator.child().id())
                .collect(),
            store,
            coordinators,
            proxies: Vec::new(),
            connections,
        }
    }

    /// Puts a proxy that counts bytes in front of each coordinator. It takes CPU time of its own.
    pub(crate) async fn count_bytes(&mut self) {
        for coordinator in &self.coordinators {
            self.proxies
                .push(FaultProxy::before(&coordinator.endpoint()).await);
        }
    }

    /// Returns the Redis server, the first of a cluster.
    pub(crate) fn redis(&self) -> &RedisServer {
        &self.store.masters()[0]
    }

    pub(crate) fn endpoints(&self) -> Vec<String> {
        if !self.proxies.is_empty() {
            return self.proxies.iter().map(FaultProxy::endpoint).collect();
        }
        let endpoints = self.coordinators.iter();
        endpoints.map(CoordinatorProcess::endpoint).collect()
    }

    pub(crate) async fn read(&mut self) -> anyhow::Result<Reading> {
        let mut operations = Some(0.0);
        for coordinator in &self.coordinators {
            let counted = coordinator
                .metrics()
                .await
                .find("leasehold_store_operations_total");
            operations = operations.zip(counted).map(|(sum, counted)| sum + counted);
        }
        let (mut coordinator_cpu, mut rss_kib) = (0.0, 0.0);
        for process in &self.processes {
            coordinator_cpu += usage::cpu_time(*process).as_secs_f64();
            rss_kib += usage::resident(*process) as f64 / 1024.0;
        }
        let client_traffic = self.proxies.iter().map(FaultProxy::passed).sum::<u64>();
        let mut reading = Reading {
            at: Instant::now(),
            operations,
            commands: BTreeMap::new(),
            redis_cpu: 0.0,
            coordinator_cpu,
            rss_kib,
            redis_bytes: 0.0,
            redis_traffic: 0.0,
            client_traffic: client_traffic as f64,
        };
        for connection in &mut self.connections {
            let said = info(connection, "cpu").await?;
            reading.redis_cpu += sum(&said, &["used_cpu_sys:", "used_cpu_user:"])?;
            let said = info(connection, "stats").await?;
            let both = ["total_net_input_bytes:", "total_net_output_bytes:"];
            reading.redis_traffic += sum(&said, &both)?;
            let said = info(connection, "memory").await?;
            reading.redis_bytes += sum(&said, &["used_memory:"])?;
            let said = info(connection, "commandstats").await?;
            count_commands(&said, &mut reading.commands)?;
        }
        Ok(reading)
    }
}

impl Store {
    fn masters(&self) -> &[RedisServer] {
        match self {
            Self::Single(redis) => std::slice::from_ref(redis),
            Self::Cluster(cluster) => &cluster.nodes()[..MASTERS],
        }
    }
}

async fn info(connection: &mut MultiplexedConnection, section: &str) -> anyhow::Result<String> {
    let mut info = redis::cmd("INFO");
    Ok(info.arg(section).query_async(connection).await?)
}

/// Returns the sum of the numbers after `keys`, each of which begins a line.
fn sum(info: &str, keys: &[&str]) -> anyhow::Result<f64> {
    let mut sum = 0.0;
    for key in keys {
        let value = info.lines().find_map(|line| line.strip_prefix(key));
        let value = value.context("INFO lacks a line")?;
        sum += value.trim().parse::<f64>()?;
    }
    Ok(sum)
}

/// Adds the commands of one server.
fn count_commands(info: &str, commands: &mut BTreeMap<String, Command>) -> anyhow::Result<()> {
    let lines = info
        .lines()
        .filter_map(|line| line.strip_prefix("cmdstat_")?.split_once(':'));
    for (name, fields) in lines {
        let field = |key: &str| {
            let value = fields
                .split(',')
                .find_map(|field| field.strip_prefix(key)?.strip_prefix('='));
            anyhow::Ok(value.context("a command lacks a field")?.parse::<f64>()?)
        };
        let command = commands.entry(name.to_owned()).or_default();
        command.calls += field("calls")?;
        command.micros += field("usec")?;
    }
    Ok(())
}

impl Reading {
    pub(crate) fn since(&self, before: &Self) -> Spent {
        let commands: BTreeMap<_, _> = self
            .commands
            .iter()
            .map(|(name, now)| {
                let then = before.commands.get(name).copied().unwrap_or_default();
                let spent = Command {
                    calls: now.calls - then.calls,
                    micros: now.micros - then.micros,
                };
                (name.clone(), spent)
            })
            .filter(|(_, command)| command.calls > 0.0)
            .collect();
        Spent {
            seconds: (self.at - before.at).as_secs_f64(),
            operations: self
                .operations
                .zip(before.operations)
                .map(|(now, then)| now - then),
            scripts: commands.get("evalsha").copied().unwrap_or_default(),
            commands,
            redis_cpu: self.redis_cpu - before.redis_cpu,
            coordinator_cpu: self.coordinator_cpu - before.coordinator_cpu,
            rss_kib: self.rss_kib,
            redis_bytes: self.redis_bytes,
            redis_traffic: self.redis_traffic - before.redis_traffic,
            client_traffic: self.client_traffic - before.client_traffic,
        }
    }
}

impl Spent {
    /// Returns the share of a core that the coordinators took together, in percent.
    pub(crate) fn coordinator_share(&self) -> f64 {
        100.0 * self.coordinator_cpu / self.seconds
    }

    /// Returns the share of a core that Redis took, in percent.
    pub(crate) fn redis_share(&self) -> f64 {
        100.0 * self.redis_cpu / self.seconds
    }

    /// Calls of a command by its name in lower case.
    pub(crate) fn calls(&self, command: &str) -> f64 {
        let command = self.commands.get(command).copied();
        command.unwrap_or_default().calls
    }

    /// Returns the resources spent on each cycle or hand-off, of which `count` were counted.
    pub(crate) fn each(&self, count: f64) -> String {
        format!(
            "{} (in scripts {:.1} µs by the clock), coordinator CPU {:.1} µs",
            self.each_in_redis(count),
            self.scripts.micros / count.max(1.0),
            1e6 * self.coordinator_cpu / count.max(1.0),
        )
    }

    /// Returns what Redis spent on each.
    pub(crate) fn each_in_redis(&self, count: f64) -> String {
        let commands = self.commands_each(count);
        let count = count.max(1.0);
        format!(
            "{commands:.1} Redis commands, {:.3} of them EVALSHA, Redis CPU {:.1} µs",
            self.scripts.calls / count,
            1e6 * self.redis_cpu / count,
        )
    }

    /// Returns the number of Redis's commands for each, those within scripts and the calls of scripts among them.
    pub(crate) fn commands_each(&self, count: f64) -> f64 {
        let commands: f64 = self.measured().map(|(_, command)| command.calls).sum();
        commands / count.max(1.0)
    }

    /// Shares of a core and memory.
    pub(crate) fn shares(&self) -> String {
        format!(
            "coordinator {:.1} % of a core and {:.1} MiB, Redis {:.1} % of a core",
            self.coordinator_share(),
            self.rss_kib / 1024.0,
            self.redis_share()
        )
    }

    /// Returns the work of Redis, by command.
    pub(crate) fn by_command(&self) -> String {
        let shown: Vec<_> = self
            .measured()
            .map(|(name, command)| format!("{name} {}", command.calls))
            .collect();
        shown.join(", ")
    }

    /// Returns the commands without our own questions, which are not what is measured.
    fn measured(&self) -> impl Iterator<Item = (&String, &Command)> {
        self.commands.iter().filter(|(name, _)| *name != "info")
    }
}

/// Raises the soft limit, also of processes that are started from now on.
pub(crate) fn allow_files(wanted: u64) -> Result<(), String> {
    let mut limit = getrlimit(Resource::Nofile);
    if limit.current.is_none_or(|current| current >= wanted) {
        return Ok(());
    }
    if limit.maximum.is_some_and(|maximum| maximum < wanted) {
        return Err(format!(
            "not measured: needs {wanted} file descriptors, and this machine allows {}",
            limit.maximum.unwrap_or_default()
        ));
    }
    limit.current = Some(wanted);
    setrlimit(Resource::Nofile, limit)
        .map_err(|error| format!("not measured: file descriptors cannot be allowed: {error}"))
}

//! Redis server and coordinators on it, and the resources that both have used.

use std::{collections::BTreeMap, time::Instant};

use anyhow::Context;
use leasehold_tests::{Coordinator, CoordinatorProcess, RedisServer, usage};
use redis::aio::MultiplexedConnection;
use serde_json::{Value, json};

use crate::options::Sizes;

/// Every row has its own, so that nothing that one leaves behind is counted in the next.
pub(crate) struct Stage {
    pub(crate) redis: RedisServer,
    coordinators: Vec<CoordinatorProcess>,
    processes: Vec<u32>,
    connection: MultiplexedConnection,
}

/// Counters at one moment. Those of coordinators are sums over them.
#[derive(Clone, Debug)]
pub(crate) struct Reading {
    at: Instant,
    operations: Option<f64>,
    commands: BTreeMap<String, Command>,
    redis_cpu: f64,
    coordinator_cpu: f64,
    /// Resident memory of the coordinators.
    pub(crate) rss_kib: f64,
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
    /// At the later reading.
    pub(crate) rss_kib: f64,
}

impl Stage {
    /// Starts a new Redis server, with `coordinators` on it that allow a load of `sizes`.
    pub(crate) async fn start(coordinators: usize, sizes: &Sizes) -> Self {
        let redis = RedisServer::start();
        let connection = redis.async_connection().await;
        let mut coordinators: Vec<_> = (0..coordinators)
            .map(|_| {
                let coordinator = Coordinator::process().store(redis.url());
                coordinator.arguments(sizes.coordinator_flags()).start()
            })
            .collect();
        Self {
            processes: coordinators
                .iter_mut()
                .map(|coordinator| coordinator.child().id())
                .collect(),
            redis,
            coordinators,
            connection,
        }
    }

    pub(crate) fn endpoints(&self) -> Vec<String> {
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
        let (at, redis_cpu) = (Instant::now(), self.redis_cpu().await?);
        Ok(Reading {
            at,
            operations,
            commands: self.commands().await?,
            redis_cpu,
            coordinator_cpu,
            rss_kib,
        })
    }

    async fn info(&mut self, section: &str) -> anyhow::Result<String> {
        let mut info = redis::cmd("INFO");
        let info = info.arg(section);
        Ok(info.query_async(&mut self.connection).await?)
    }

    async fn redis_cpu(&mut self) -> anyhow::Result<f64> {
        let info = self.info("cpu").await?;
        let mut seconds = 0.0;
        for key in ["used_cpu_sys:", "used_cpu_user:"] {
            let value = info.lines().find_map(|line| line.strip_prefix(key));
            seconds += value
                .context("INFO cpu lacks a line")?
                .trim()
                .parse::<f64>()?;
        }
        Ok(seconds)
    }

    async fn commands(&mut self) -> anyhow::Result<BTreeMap<String, Command>> {
        let info = self.info("commandstats").await?;
        let lines = info
            .lines()
            .filter_map(|line| line.strip_prefix("cmdstat_")?.split_once(':'));
        let mut commands = BTreeMap::new();
        for (name, fields) in lines {
            let field = |key: &str| {
                let value = fields
                    .split(',')
                    .find_map(|field| field.strip_prefix(key)?.strip_prefix('='));
                anyhow::Ok(value.context("a command lacks a field")?.parse::<f64>()?)
            };
            let command = Command {
                calls: field("calls")?,
                micros: field("usec")?,
            };
            commands.insert(name.to_owned(), command);
        }
        Ok(commands)
    }
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
    pub(crate) fn each(&self, count: u64) -> String {
        let count = count.max(1) as f64;
        format!(
            "{:.3} EVALSHA calls, Redis CPU {:.1} µs (in scripts {:.1} µs by the clock), coordinator CPU {:.1} µs",
            self.scripts.calls / count,
            1e6 * self.redis_cpu / count,
            self.scripts.micros / count,
            1e6 * self.coordinator_cpu / count,
        )
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
        // Our own questions and the connections' greetings are not what is measured.
        let commands = self.commands.iter().filter(|(name, _)| *name != "info");
        let shown: Vec<_> = commands
            .map(|(name, command)| format!("{name} {}", command.calls))
            .collect();
        shown.join(", ")
    }

    pub(crate) fn json(&self) -> Value {
        let commands: BTreeMap<_, _> = self
            .commands
            .iter()
            .map(|(name, spent)| (name, json!({"calls": spent.calls, "usec": spent.micros})))
            .collect();
        json!({
            "seconds": self.seconds,
            "store_operations": self.operations,
            "redis_cpu_seconds": self.redis_cpu,
            "coordinator_cpu_seconds": self.coordinator_cpu,
            "coordinator_rss_kib": self.rss_kib,
            "redis_commands": commands,
        })
    }
}

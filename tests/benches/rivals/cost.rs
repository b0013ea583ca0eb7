//! What a run costs: Redis's own count of script calls, and the coordinator's CPU and memory from /proc.

use std::{fmt, fs, time::Duration};

use anyhow::Context;
use leasehold_tests::RedisServer;

/// Linux reports CPU time to programs in hundredths of a second.
const TICKS: f64 = 100.0;

/// Reads both.
pub(crate) struct Meter {
    pub(crate) redis: RedisServer,
    pub(crate) coordinator: u32,
}

/// Counters at one moment, or, after `since`, over a run.
#[derive(Clone, Copy)]
pub(crate) struct Cost {
    scripts: f64,
    cpu: f64,
    rss_kib: u64,
}

impl Meter {
    pub(crate) fn read(&self) -> anyhow::Result<Cost> {
        let info: String = redis::cmd("INFO")
            .arg("commandstats")
            .query(&mut self.redis.connection())?;
        let scripts = info
            .lines()
            .find_map(|line| line.strip_prefix("cmdstat_evalsha:calls="))
            .and_then(|rest| rest.split(',').next())
            .map_or(Ok(0.0), str::parse)?;
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.coordinator))?;
        let (_, fields) = stat.rsplit_once(") ").context("no name in stat")?;
        // User and system time are the 14th and 15th field, of which two are before the split.
        let mut cpu = 0.0;
        for field in fields.split_whitespace().skip(11).take(2) {
            cpu += field.parse::<f64>()? / TICKS;
        }
        let status = fs::read_to_string(format!("/proc/{}/status", self.coordinator))?;
        let rss_kib = status
            .lines()
            .find_map(|line| line.strip_prefix("VmRSS:"))
            .and_then(|rest| rest.split_whitespace().next())
            .context("no VmRSS in status")?
            .parse()?;
        Ok(Cost {
            scripts,
            cpu,
            rss_kib,
        })
    }
}

impl Cost {
    /// Calls a cycle and cores, since `before`.
    pub(crate) fn since(&self, before: &Self, cycles: u64, time: Duration) -> Self {
        Self {
            scripts: (self.scripts - before.scripts) / cycles.max(1) as f64,
            cpu: (self.cpu - before.cpu) / time.as_secs_f64(),
            rss_kib: self.rss_kib,
        }
    }
}

impl fmt::Display for Cost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (scripts, cpu) = (self.scripts, 100.0 * self.cpu);
        let rss = self.rss_kib as f64 / 1024.0;
        write!(
            f,
            "{scripts:.3} EVALSHA a cycle, {cpu:.0} % of a core, {rss:.1} MiB"
        )
    }
}

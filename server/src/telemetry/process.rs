//! Collector of the kernel's numbers about the process, under the names that Prometheus's own libraries use.

use std::{
    fmt, fs,
    time::{SystemTime, UNIX_EPOCH},
};

use prometheus_client::{collector::Collector, encoding::DescriptorEncoder};
use rustix::{
    process::{Resource, getrlimit},
    time::{ClockId, clock_gettime},
};

use super::shown::{Named, counters, gauges};

/// Collects the process's numbers at each scrape, most of them from Linux's `/proc`. Leaves out those that the system lacks.
#[derive(Debug)]
pub(super) struct ProcessCollector {
    /// Seconds from 1970 until the coordinator started. Stays the same when the machine's clock is set.
    started: f64,
}

impl ProcessCollector {
    pub(super) fn new() -> Self {
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        Self {
            started: since.unwrap_or_default().as_secs_f64(),
        }
    }
}

impl Collector for ProcessCollector {
    fn encode(&self, mut encoder: DescriptorEncoder) -> fmt::Result {
        let named = Named {
            name: "process_cpu_seconds",
            help: "Time that processors spent on this process, in seconds.",
        };
        counters(&mut encoder, named, [([], cpu_seconds())])?;
        for (name, help, value) in [
            (
                "process_resident_memory_bytes",
                "Memory that this process has in use, in bytes.",
                resident(),
            ),
            (
                "process_open_fds",
                "File descriptors that are open.",
                open_descriptors(),
            ),
            (
                "process_max_fds",
                "File descriptors that may be open at the same time.",
                max_descriptors(),
            ),
            (
                "process_start_time_seconds",
                "When the coordinator started, in seconds since 1970.",
                Some(self.started),
            ),
        ] {
            if let Some(value) = value {
                gauges(&mut encoder, Named { name, help }, [([], value)])?;
            }
        }
        Ok(())
    }
}

fn cpu_seconds() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    // A sum of years stays exact to the microsecond.
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

fn resident() -> Option<f64> {
    resident_of(&fs::read_to_string("/proc/self/status").ok()?)
}

/// Returns the bytes of the line `VmRSS:     1234 kB`, where `kB` are of 1024 bytes.
fn resident_of(status: &str) -> Option<f64> {
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kilobytes: f64 = line.trim().strip_suffix(" kB")?.parse().ok()?;
    Some(kilobytes * 1024.0)
}

/// Returns how many file descriptors are open, and how many may be; `None` if the system does not tell, or has no limit.
pub(crate) fn descriptors() -> Option<(u64, u64)> {
    let limit = getrlimit(Resource::Nofile).current?;
    Some((count_descriptors()?, limit))
}

fn count_descriptors() -> Option<u64> {
    let entries = fs::read_dir("/proc/self/fd").ok()?.count();
    // One of them is the descriptor of the directory itself.
    u64::try_from(entries).ok()?.checked_sub(1)
}

fn open_descriptors() -> Option<f64> {
    count_descriptors().map(|count| count as f64)
}

fn max_descriptors() -> Option<f64> {
    // An unlimited process has no maximum to show.
    let limit = getrlimit(Resource::Nofile).current;
    limit.map(|limit| limit as f64)
}

#[cfg(test)]
mod tests {
    use super::resident_of;

    #[test]
    fn reports_of_the_kernel_are_understood() {
        let status = "Name:\tx\nVmHWM:\t    2048 kB\nVmRSS:\t    1024 kB\nRssAnon:\t 1 kB\n";
        assert_eq!(resident_of(status), Some(1_048_576.0));
        assert_eq!(resident_of("Name:\tkthreadd\n"), None);
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn they_are_those_of_this_process() {
        let text = crate::telemetry::Metrics::default().encode_for_prometheus();
        let of = |name: &str| -> f64 {
            let line = text
                .lines()
                .find(|line| line.split(' ').next() == Some(name));
            let line = line.unwrap_or_else(|| panic!("no {name} in {text}"));
            line.rsplit_once(' ').unwrap().1.parse().unwrap()
        };
        assert!(of("process_cpu_seconds_total") > 0.0);
        assert!(of("process_resident_memory_bytes") > 1e6);
        let open = of("process_open_fds");
        assert!(open >= 3.0, "{open}");
        assert!(of("process_max_fds") >= open);
        let now = std::time::SystemTime::now()
            .duration_since(std::time::UNIX_EPOCH)
            .unwrap()
            .as_secs_f64();
        let age = now - of("process_start_time_seconds");
        assert!((-2.0..86_400.0).contains(&age), "{age}");
    }
}

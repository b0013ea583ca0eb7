//! The table, and the page that it is written to.

use std::{fmt::Write, fs, process::Command, time::Duration};

use anyhow::Context;

use crate::{
    cycles::Cycles,
    handoff::{HandOffs, WAITERS},
};

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/benchmarks.md");

pub(crate) struct Row {
    work: String,
    ours: String,
    beside: String,
    ratio: String,
    cost: String,
}

impl Row {
    pub(crate) fn rates(work: &str, ours: &Cycles, echo: f64, piped: f64) -> Self {
        let rate = ours.per_second;
        Self {
            work: work.to_owned(),
            ours: format!("{:.1} k/s", rate / 1e3),
            beside: format!(
                "stream echo {:.1} k/s; pipelined Redis {:.1} k/s",
                echo / 1e3,
                piped / 1e3
            ),
            ratio: format!("{:.2} × echo; {:.2} × Redis", rate / echo, rate / piped),
            cost: ours.cost.map_or_else(String::new, |cost| cost.to_string()),
        }
    }

    pub(crate) fn alone(ours: Duration, limit: Duration) -> Self {
        Self {
            work: "one client alone, p50 of a cycle".to_owned(),
            ours: format!("{} µs", ours.as_micros()),
            beside: format!(
                "two stream and two Redis round trips {} µs",
                limit.as_micros()
            ),
            ratio: format!(
                "{:.2} × the limit",
                ours.as_secs_f64() / limit.as_secs_f64()
            ),
            cost: String::new(),
        }
    }

    pub(crate) fn hand_off(ours: &HandOffs, polled: &HandOffs) -> Self {
        let fair = ours.mean_hold.as_secs_f64() * WAITERS as f64;
        let (p50, polled_p50) = (ours.gaps.quantile(0.5), polled.gaps.quantile(0.5));
        Self {
            work: "hand-off, 100 waiters, 5 ms held: p50 / p99 of release → next grant, worst wait"
                .to_owned(),
            ours: figures(ours),
            beside: format!("polling every 50 ms: {}", figures(polled)),
            ratio: format!(
                "p50 {:.2} × polling; worst wait {:.2} × (waiters × hold)",
                p50.as_secs_f64() / polled_p50.as_secs_f64(),
                ours.worst_wait.as_secs_f64() / fair
            ),
            cost: ours.cost.map_or_else(String::new, |cost| cost.to_string()),
        }
    }
}

fn figures(run: &HandOffs) -> String {
    let millis = |time: Duration| time.as_secs_f64() * 1e3;
    format!(
        "{:.2} / {:.2} ms, {:.0} ms (n = {}, mean hold {:.2} ms)",
        millis(run.gaps.quantile(0.5)),
        millis(run.gaps.quantile(0.99)),
        millis(run.worst_wait),
        run.gaps.count(),
        millis(run.mean_hold)
    )
}

pub(crate) fn table(rows: &[Row]) -> String {
    let mut table =
        "| work | Leasehold | beside it | ratio | cost |\n|---|---|---|---|---|\n".to_owned();
    for row in rows {
        // Writing to a string does not fail.
        let _ = writeln!(
            table,
            "| {} | {} | {} | {} | {} |",
            row.work, row.ours, row.beside, row.ratio, row.cost
        );
    }
    table
}

pub(crate) fn write(table: &str) -> anyhow::Result<()> {
    let cpus = fs::read_to_string("/proc/cpuinfo")?;
    let models: Vec<_> = cpus
        .lines()
        .filter_map(|line| line.strip_prefix("model name")?.split_once(": "))
        .map(|(_, model)| model)
        .collect();
    let page = format!(
        "# Benchmarks\n\n\
         Written by `make bench`. Client, coordinator and store share one machine: ratios hold, absolute figures drift.\n\n\
         - Machine: {} × {}\n- Leasehold {}, {}, {}\n- Date: {}\n\n{table}\n\
         Each client is one lease stream on a connection of its own, on the generated stubs, without heartbeats. Rates are \
         over 3 s after 0.5 s of warm-up, hand-offs over 5 s from the start. The worst wait counts who still waits at the \
         end, so a wait of 5 s is a lower bound. Timers are coarse: the mean hold is what was measured. The echo takes and \
         gives the same messages and has no store. Pipelined Redis is a SET NX PX and a compare-and-delete script a \
         cycle, 64 cycles a pipeline. Exclusion is asserted on every grant, and token order where there are tokens. The \
         coordinator's CPU and memory are read from /proc, script calls (after coalescing) from `INFO commandstats`.\n\n\
         Not there yet: etcd's lock service and rslock beside ours; Redis operations with 1000 waiters, counted before \
         coalescing; 100 k held locks; 10 k idle sessions; growth with waiters, locks, sessions and coordinators; \
         distributions and scaling curves as SVG.\n",
        models.len(),
        models.first().context("no model name in /proc/cpuinfo")?,
        env!("CARGO_PKG_VERSION"),
        said("redis-server", "--version")?,
        said("rustc", "--version")?,
        said("date", "-u")?,
    );
    fs::write(PAGE, page).context("failed to write docs/benchmarks.md")
}

fn said(program: &str, argument: &str) -> anyhow::Result<String> {
    let output = Command::new(program).arg(argument).output()?;
    Ok(String::from_utf8(output.stdout)?.trim().to_owned())
}

//! The table, and the page that it is written to.

use std::{fmt::Write, fs, path::Path};

use anyhow::Context;
use serde_json::json;

use crate::{
    chart::{self, Panel},
    figures::Row,
    machine::Machine,
    rows::growth::Growth,
};

const DOCS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs");

const INTRODUCTION: &str = "# Benchmarks\n\n\
Written by `make bench`. Clients, coordinators, Redis and rivals share one machine: ratios hold, absolute figures drift.\n";

const DEFINITIONS: &str = "## How it is measured

- **The driver** is one program for everything that speaks to a coordinator or to the echo: generated stubs, one lease
  stream for each client, one connection for each stream unless said otherwise. It takes its share of the same cores.
  etcd and rslock are driven by a program of their own in the same manner.
- **Checked on every grant**, in every row: nobody else holds the name, and the fencing token is greater than the one
  before it (rivals and pollers have no tokens). A violation ends the run.
- **Repeated** figures are medians, with the lowest and highest in brackets. A figure and what it is compared with are
  measured in turns; a ratio is of the two in the same turn.
- **A cycle** is an acquire and a release of a name that nobody else wants, from sending the one to receiving the answer
  to the other.
- **The echo** takes and gives the same messages over the same gRPC stack and has no store. **Pipelined Redis** is a
  SET NX PX and a compare-and-delete script a cycle, 64 cycles a pipeline, 16 pipelines at a time on one connection.
- **The limit of one client alone** is the echo's p50 and the p50 of a SET NX PX followed by a compare-and-delete
  script, added.
- **A hand-off** is from just before a release is sent to when the next holder has received its grant. The waits count
  from the first release, when everybody is queued, and those who still wait at the end are counted. Timers are coarse:
  the mean hold is what was measured, and the fair wait is waiters × mean hold.
- **Operations** are what coordinators ask of the store, counted before they are coalesced
  (`leasehold_store_operations_total`); EVALSHA calls, after it, are Redis's own count. A contended cycle is one acquire,
  one release with its hand-off and, across coordinators, one confirmation. Across two, waiters alternate between them.
  Operations of waiting only are counted while one client holds the name and nothing is released.
- **Held locks**: every session sends heartbeats as often as the coordinator asked. Lost are those that the coordinator
  said were lost, those that were not held any more when each was released at the end, and all of a session whose own
  deadline passed. Memory is what the coordinator's resident memory grew by from the sessions alone to the sessions with
  their locks.
- **Idle sessions**: memory is what the coordinator's resident memory grew by from its start.
- **CPU and memory** of the coordinator are from /proc, those of Redis from `INFO cpu`; time in scripts and calls are
  from `INFO commandstats`. They are of the time in which figures count, without opening and closing.
";

/// Everything of a run.
pub(crate) struct Results {
    pub(crate) rows: Vec<Row>,
    pub(crate) growth: Vec<Growth>,
    pub(crate) distributions: Vec<Panel>,
    pub(crate) quick: bool,
}

impl Results {
    /// The table, and what was seen beside it.
    pub(crate) fn text(&self) -> String {
        let mut text = String::new();
        if !self.rows.is_empty() {
            text += "| row | work | figure | measured | to reach | |\n|---|---|---|---|---|---|\n";
        }
        for row in &self.rows {
            for (place, check) in row.checks.iter().enumerate() {
                let (number, work) = match place {
                    0 => (row.number, row.work.as_str()),
                    _ => ("", ""),
                };
                line(
                    &mut text,
                    format_args!(
                        "| {number} | {work} | {} | {} | {}{} | {} |",
                        check.what,
                        check.shown(),
                        check.limit,
                        check.unit,
                        check.verdict()
                    ),
                );
            }
        }
        for row in &self.rows {
            line(
                &mut text,
                format_args!("\n### Row {}: {}\n", row.number, row.work),
            );
            for (who, what) in &row.beside {
                line(&mut text, format_args!("- {who}: {what}"));
            }
        }
        text
    }

    pub(crate) fn growth_text(&self) -> String {
        let mut text = String::new();
        for growth in &self.growth {
            line(&mut text, format_args!("\n### {}\n", growth.title));
            line(&mut text, format_args!("| {} |", growth.header.join(" | ")));
            line(
                &mut text,
                format_args!("|{}", "---|".repeat(growth.header.len())),
            );
            for row in &growth.rows {
                line(&mut text, format_args!("| {} |", row.join(" | ")));
            }
        }
        text
    }

    /// Everything, for programs.
    pub(crate) fn save(&self, file: &Path, machine: &Machine) -> anyhow::Result<()> {
        let rows: Vec<_> = self.rows.iter().map(Row::json).collect();
        let growth: Vec<_> = self
            .growth
            .iter()
            .map(|growth| json!({"title": growth.title, "points": growth.raw}))
            .collect();
        let all = json!({
            "quick": self.quick,
            "machine": machine.json(),
            "rows": rows,
            "growth": growth,
        });
        fs::write(file, serde_json::to_string_pretty(&all)?)
            .with_context(|| format!("failed to write {}", file.display()))
    }

    /// Writes `docs/benchmarks.md` and its drawings.
    pub(crate) fn write(mut self, machine: &Machine) -> anyhow::Result<()> {
        let drawings = Path::new(DOCS).join("benchmarks");
        fs::create_dir_all(&drawings)?;
        let panels = self
            .growth
            .iter_mut()
            .flat_map(|growth| growth.panels.drain(..));
        let growth = chart::draw(panels.collect())?;
        fs::write(drawings.join("growth.svg"), growth)?;
        let latency = chart::draw(std::mem::take(&mut self.distributions))?;
        fs::write(drawings.join("latency.svg"), latency)?;

        let mut page = INTRODUCTION.to_owned();
        if self.quick {
            page += "\n**This is a quick run: smaller and shorter loads, measured once. Its figures say nothing.**\n";
        }
        page.push('\n');
        for (name, fact) in &machine.facts {
            line(&mut page, format_args!("- {name}: {fact}"));
        }
        line(&mut page, format_args!("\n## Figures\n\n{}", self.text()));
        page += "## Distributions\n\n![Shares of cycles and hand-offs by how long they took](benchmarks/latency.svg)\n\n";
        line(
            &mut page,
            format_args!(
                "## Growth\n\n![Latency, CPU and memory by waiters, held locks, sessions and coordinators](benchmarks/growth.svg)\n{}",
                self.growth_text()
            ),
        );
        page += DEFINITIONS;
        fs::write(Path::new(DOCS).join("benchmarks.md"), page)
            .context("failed to write docs/benchmarks.md")
    }
}

fn line(text: &mut String, what: std::fmt::Arguments<'_>) {
    // Writing to a string does not fail.
    let _ = writeln!(text, "{what}");
}

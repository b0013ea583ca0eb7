//! `docs/benchmarks.md`: results beside others first, then growth, the conditions and the method.

use std::fmt::Write;

use crate::{
    figures::Comparison,
    results::{GROWTH, LATENCY, Results},
};

const INTRODUCTION: &str = "# Benchmarks

What Leasehold does beside etcd, rslock (a library of Redis locks) and clients that poll Redis, what that means for you, and how
costs grow. Clients, coordinators, Redis and rivals shared one machine: compare figures with one another, since absolute ones drift
from hour to hour. [client-benchmarks.md](client-benchmarks.md) compares the client libraries, with redsync, redis-py, node-redlock and
Redisson beside them. [bench.md](bench.md) shows how to measure your own deployment; the targets, and those that are missed, are in
[performance.md](performance.md#targets), which also has versions [side by side](performance.md#before-and-after). `make bench` writes
this page.
";

const METHOD: &str = "## How it is measured

- **The driver** is one program for everything that speaks to a coordinator or to the echo: generated stubs, one lease
  stream for each client, one connection for each stream unless stated otherwise. It takes its share of the same cores.
  A program of its own drives etcd and rslock in the same manner.
- **Every grant is checked**: nobody else holds the name, and the fencing token is greater than the one before it (rivals and
  pollers have no tokens). A violation fails the part.
- **Repeated** figures are medians, with the lowest and highest in brackets. A figure and the one that it is compared with are
  measured in turns; a ratio is of two figures of the same turn.
- **A cycle** is an acquire and a release of a name that nobody else wants, from sending the acquire to receiving the answer
  to the release.
- **The echo** takes and gives the same messages over the same gRPC stack and has no store. **Pipelined Redis** is a
  SET NX PX and a compare-and-delete script for each cycle, 64 cycles in a pipeline, 16 pipelines at a time on one connection.
- **The limit of one client alone** is the sum of the echo's p50 and the p50 of a SET NX PX followed by a compare-and-delete
  script.
- **A hand-off** is from just before a release is sent to when the next holder has received its grant. Waits count
  from the first release, when everybody is queued; waits that go on at the end are counted up to the end. Timers are coarse:
  the mean hold is the measured one, and a fair wait is waiters × mean hold.
- **Operations** are the requests of coordinators to the store, counted before they are coalesced
  (`leasehold_store_operations_total`); EVALSHA calls, counted after it, are Redis's own count. A contended cycle is one acquire,
  one release with its hand-off and, across coordinators, one confirmation. Across two, waiters alternate between them.
  Operations of waiting are counted while one client holds the name and nobody releases it.
- **Held locks**: every session sends heartbeats as often as the coordinator asks. A lock counts as lost if the
  coordinator said so, if it was no longer held at its release at the end, or if its client's own deadline had
  passed. Memory is the growth of the coordinator's resident memory from the sessions alone to the sessions with
  their locks. The same number of locks is then held by ten times as many sessions.
- **Idle sessions**: memory is the growth of the coordinator's resident memory since its start.
- **CPU and memory** of the coordinator are from /proc, those of Redis from `INFO cpu`; times in scripts and calls are
  from `INFO commandstats`, as are Redis's commands: those that scripts call, and the calls of scripts. They cover the time in which
  figures count, without opening and closing, except those of the limit of one client alone, which cover its warm-up too.
- **Limits** of the coordinator ([limits.md](limits.md)) that count sessions and requests of one caller are raised, since the driver is
  one caller.
";

/// Returns the page.
pub(crate) fn text(results: &Results) -> String {
    let mut page = INTRODUCTION.to_owned();
    if results.quick {
        page += "\n**This is a quick run, which only checks that everything works. Its figures say nothing.**\n";
    }
    if !results.failures.is_empty() {
        page += "\n**Not measured, since these parts failed:**\n\n";
        for failure in &results.failures {
            line(
                &mut page,
                format_args!("- {}: {}", failure.part, failure.reason),
            );
        }
    }
    page += &beside_others(results);
    if !results.distributions.is_empty() {
        line(
            &mut page,
            format_args!("\n![Shares of cycles and hand-offs by how long they took]({LATENCY})"),
        );
    }
    page += "\n### What it means\n\n";
    for (topic, sentence) in results.rows.iter().filter_map(|row| row.meaning.as_ref()) {
        line(&mut page, format_args!("- **{topic}.** {sentence}"));
    }
    page += &growth(results);
    page += "\n## Conditions\n\n";
    for (name, fact) in &results.machine.facts {
        line(&mut page, format_args!("- {name}: {fact}"));
    }
    for settings in &results.settings {
        line(&mut page, format_args!("- {settings}"));
    }
    page + "\n" + METHOD
}

fn beside_others(results: &Results) -> String {
    let mut text = String::from("\n## Beside others\n\n");
    line(
        &mut text,
        format_args!("| | {} |", Comparison::COLUMNS.join(" | ")),
    );
    line(
        &mut text,
        format_args!("|---|{}", "---|".repeat(Comparison::COLUMNS.len())),
    );
    for compared in results.rows.iter().flat_map(|row| &row.compared) {
        line(&mut text, format_args!("{}", compared.line()));
    }
    text
}

fn growth(results: &Results) -> String {
    let mut text = String::from("\n## Growth\n");
    if !results.growth.is_empty() {
        line(
            &mut text,
            format_args!(
                "\n![Latency, CPU and memory by waiters, held locks, sessions and coordinators]({GROWTH})"
            ),
        );
    }
    for growth in &results.growth {
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

fn line(text: &mut String, what: std::fmt::Arguments<'_>) {
    // Writing to a string does not fail.
    let _ = writeln!(text, "{what}");
}

//! `docs/benchmarks.md`: results beside others first, then the conditions and the method.

use std::fmt::Write;

use crate::{
    figures::Comparison,
    results::{LATENCY, Results},
    rows::Bench,
    shared::{machine, parts::Failure, table::table},
};

const INTRODUCTION: &str = "# Benchmarks

What Leasehold does beside etcd, rslock (a library of Redis locks) and clients that poll Redis, and what that means for you.
[scaling.md](scaling.md#growth) shows how costs grow. Clients, coordinators, Redis and rivals shared one machine: compare figures with
one another, since absolute ones drift from hour to hour. [client-benchmarks.md](client-benchmarks.md) compares the client libraries, with redsync, redis-py, node-redlock and
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
pub(crate) fn text(results: &Results, bench: &Bench, failures: &[Failure]) -> String {
    let mut page = INTRODUCTION.to_owned();
    if results.quick {
        page += "\n**This is a quick run, which only checks that everything works. Its figures say nothing.**\n";
    }
    if !failures.is_empty() {
        page += "\n**Not measured, since these parts failed:**\n\n";
        list(
            &mut page,
            failures
                .iter()
                .map(|Failure { part, reason }| format!("{part}: {reason}")),
        );
    }
    page += "\n## Beside others\n\n";
    let header = " | Leasehold | etcd | rslock | polling every 50 ms";
    let compared = results.rows.iter().flat_map(|row| &row.compared);
    page += &table(header, compared.map(Comparison::cells));
    page += "\n";
    if !bench.distributions.is_empty() {
        // Writing to a string does not fail.
        let _ = writeln!(
            page,
            "\n![Shares of cycles and hand-offs by how long they took]({LATENCY})"
        );
    }
    page += "\n### What it means\n\n";
    let meanings = results.rows.iter().filter_map(|row| row.meaning.as_ref());
    list(
        &mut page,
        meanings.map(|(topic, sentence)| format!("**{topic}.** {sentence}")),
    );
    page += "\n## Conditions\n\n";
    let facts = machine::look(&bench.peers.versions).into_iter();
    list(
        &mut page,
        facts.map(|(name, fact)| format!("{name}: {fact}")),
    );
    list(&mut page, bench.peers.settings.iter());
    page + "\n" + METHOD
}

fn list(text: &mut String, items: impl Iterator<Item: std::fmt::Display>) {
    for item in items {
        let _ = writeln!(text, "- {item}");
    }
}

//! Command line, and the sizes and lengths of all measurements.

use std::time::Duration;

use clap::Parser;

/// Measures the constants of the model of costs in docs/scaling.md, and checks what it predicts.
///
/// A full run writes the tables and the chart of docs/scaling.md; results are in target/benchmarks/scaling. If a part fails, it is
/// named, docs/ is left as it is, and the exit code is 1.
#[derive(Debug, Parser)]
#[command(about, long_about)]
pub(crate) struct Options {
    /// Check that every part works: the figures say nothing. Leaves docs/ as it is.
    #[arg(long)]
    pub(crate) quick: bool,
    /// Say in the page under which circumstances it was measured.
    #[arg(long, value_name = "TEXT")]
    pub(crate) beside: Option<String>,
    /// Flag that cargo passes to every benchmark.
    #[arg(long, hide = true)]
    bench: bool,
}

impl Options {
    pub(crate) fn sizes(&self) -> Sizes {
        if self.quick {
            Sizes::quick()
        } else {
            Sizes::full()
        }
    }
}

/// Clients of uncontended cycles.
pub(crate) const CLIENTS: usize = 64;
/// Cycles that each has in flight where there are many.
pub(crate) const IN_FLIGHT: usize = 16;
/// Sessions that share a connection, where they do.
pub(crate) const SHARED: usize = 100;

/// Sizes and durations.
pub(crate) struct Sizes {
    pub(crate) repetitions: usize,
    /// Pairs of runs for each number of waiters, locks and sessions.
    pub(crate) turns: usize,
    pub(crate) warm_up: Duration,
    /// In which what opening sessions and acquiring locks set off comes to rest.
    pub(crate) settle: Duration,
    /// The time for which cycles and hand-offs are counted.
    pub(crate) cycles: Duration,
    /// As long as a session rests, so that each sends one heartbeat.
    pub(crate) rest: Duration,
    /// The time for which held locks are measured, several times their interval of renewal.
    pub(crate) held: Duration,
    pub(crate) idle_sessions: usize,
    /// Sessions and locks of each: many locks of few sessions, and few of many.
    pub(crate) holders: [(usize, usize); 2],
    pub(crate) contenders: usize,
    pub(crate) waiters: &'static [usize],
    pub(crate) locks: &'static [usize],
    pub(crate) sessions: &'static [usize],
    /// Sessions and locks of each of the first check, and their TTL.
    pub(crate) check_holders: (usize, usize),
    pub(crate) check_ttl: Duration,
    pub(crate) check_sessions: usize,
}

impl Sizes {
    fn full() -> Self {
        Self {
            repetitions: 3,
            turns: 7,
            warm_up: Duration::from_millis(500),
            settle: Duration::from_secs(4),
            cycles: Duration::from_secs(2),
            rest: Duration::from_secs(30),
            held: Duration::from_secs(20),
            idle_sessions: 10_000,
            holders: [(1_000, 100), (9_000, 2)],
            contenders: 100,
            waiters: &[10, 100, 1_000, 10_000],
            locks: &[1_000, 10_000, 100_000, 300_000],
            sessions: &[100, 1_000, 10_000, 30_000],
            check_holders: (3_000, 100),
            check_ttl: Duration::from_secs(30),
            check_sessions: 30_000,
        }
    }

    fn quick() -> Self {
        Self {
            repetitions: 1,
            turns: 1,
            warm_up: Duration::from_millis(100),
            settle: Duration::from_millis(500),
            cycles: Duration::from_millis(500),
            rest: Duration::from_secs(1),
            held: Duration::from_secs(4),
            idle_sessions: 300,
            holders: [(20, 20), (100, 1)],
            contenders: 20,
            waiters: &[10, 100],
            locks: &[100, 1_000],
            sessions: &[10, 300],
            check_holders: (50, 20),
            check_ttl: Duration::from_secs(5),
            check_sessions: 500,
        }
    }
}

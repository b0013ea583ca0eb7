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
    /// Returns the sizes of a full run, or of a quick one.
    pub(crate) fn sizes(&self) -> Sizes {
        macro_rules! either {
            ($full:expr, $quick:expr) => {
                if self.quick { $quick } else { $full }
            };
        }
        let millis = |full, quick| Duration::from_millis(either!(full, quick));
        Sizes {
            repetitions: either!(3, 1),
            turns: either!(7, 1),
            warm_up: millis(500, 100),
            settle: millis(4_000, 500),
            cycles: millis(2_000, 500),
            rest: millis(30_000, 1_000),
            held: millis(20_000, 4_000),
            idle_sessions: either!(10_000, 300),
            holders: either!([(1_000, 100), (9_000, 2)], [(20, 20), (100, 1)]),
            contenders: either!(100, 20),
            waiters: either!(&[10, 100, 1_000, 10_000], &[10, 100]),
            locks: either!(&[1_000, 10_000, 100_000, 300_000], &[100, 1_000]),
            sessions: either!(&[100, 1_000, 10_000, 30_000], &[10, 300]),
            check_holders: either!((3_000, 100), (50, 20)),
            check_ttl: millis(30_000, 5_000),
            check_sessions: either!(30_000, 500),
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

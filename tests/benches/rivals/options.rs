//! Command line, and the sizes and lengths of all runs.

use std::time::Duration;

use clap::Parser;

/// Clients of rows 1 and 2.
pub(crate) const CLIENTS: usize = 64;
/// Cycles that each client of row 2 has in flight.
pub(crate) const CYCLES_IN_FLIGHT: usize = 16;
/// Waiters of row 4.
pub(crate) const WAITERS: usize = 100;

/// Measures Leasehold beside what gRPC and Redis allow, beside other lock services and beside clients that poll.
///
/// Results are in target/benchmarks/ and are written after each part, so that an interrupted run leaves what it had. A full run of
/// everything then writes docs/benchmarks.md, its drawings and the targets in docs/performance.md. A part that fails is named, the
/// others are still measured, and the exit code is 1. LEASEHOLD_PEERS is the path of the program that measures etcd and rslock;
/// without it the results say that they were not measured.
#[derive(Debug, Parser)]
#[command(about, long_about)]
pub(crate) struct Options {
    /// Measure only these rows of the table, separated by commas, and leave docs/ as it is.
    #[arg(long, value_delimiter = ',', value_name = "ROWS", value_parser = clap::value_parser!(u8).range(1..=7))]
    only: Vec<u8>,
    /// Check that every part works: each takes a few seconds, and its figures say nothing. Leaves docs/ as it is.
    #[arg(long)]
    pub(crate) quick: bool,
    /// Give a part up when it takes longer than so many seconds.
    #[arg(long, value_name = "SECONDS", default_value_t = 180.0)]
    part_limit: f64,
    /// Flag that cargo passes to every benchmark.
    #[arg(long, hide = true)]
    bench: bool,
}

impl Options {
    /// Returns whether the row of this number was asked for.
    pub(crate) fn wants(&self, row: u8) -> bool {
        self.is_whole() || self.only.contains(&row)
    }

    fn is_whole(&self) -> bool {
        self.only.is_empty()
    }

    /// Returns whether docs/ is to be written: everything was asked for, in full.
    pub(crate) fn is_published(&self) -> bool {
        self.is_whole() && !self.quick
    }

    /// Returns how long a part may take.
    pub(crate) fn part_limit(&self) -> Duration {
        Duration::try_from_secs_f64(self.part_limit).unwrap_or(Duration::MAX)
    }

    /// Returns the directory below `target/benchmarks` for this kind of run, so that no kind overwrites the results of another.
    pub(crate) fn directory(&self) -> &'static str {
        match (self.quick, self.is_whole()) {
            (false, true) => "full",
            (false, false) => "parts",
            (true, _) => "quick",
        }
    }

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
            warm_up: millis(500, 100),
            settle: millis(4_000, 1_000),
            cycles: millis(3_000, 500),
            hand_off: millis(5_000, 1_000),
            contenders: either!(1_000, 100),
            contended: millis(5_000, 1_000),
            waiting: millis(10_000, 1_000),
            held_locks: either!(100_000, 1_000),
            holding_sessions: either!(1_000, 50),
            many_holding_sessions: either!(10_000, 100),
            held: millis(30_000, 3_000),
            idle_sessions: either!(10_000, 300),
            idle: millis(30_000, 3_000),
        }
    }
}

/// Sizes and durations of all measurements.
pub(crate) struct Sizes {
    /// The number of times that a figure and its limit are measured, in turns.
    pub(crate) repetitions: usize,
    pub(crate) warm_up: Duration,
    /// In which what opening sessions and acquiring locks set off comes to rest.
    pub(crate) settle: Duration,
    /// The time for which cycles are counted.
    pub(crate) cycles: Duration,
    pub(crate) hand_off: Duration,
    /// Row 5: how many wait, how long they contend, and for how many seconds they only wait.
    pub(crate) contenders: usize,
    pub(crate) contended: Duration,
    pub(crate) waiting: Duration,
    /// Row 6.
    pub(crate) held_locks: usize,
    pub(crate) holding_sessions: usize,
    /// Sessions that hold as many locks together in the second run of row 6.
    pub(crate) many_holding_sessions: usize,
    pub(crate) held: Duration,
    /// Row 7.
    pub(crate) idle_sessions: usize,
    /// As long as a session rests, so that each sends one heartbeat.
    pub(crate) idle: Duration,
}

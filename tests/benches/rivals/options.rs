//! Command line, and the sizes and lengths of all runs.

use std::time::Duration;

use clap::{Parser, ValueEnum};

/// Clients of rows 1 and 2, and where coordinators grow.
pub(crate) const CLIENTS: usize = 64;
/// Cycles that each client of row 2 has in flight.
pub(crate) const CYCLES_IN_FLIGHT: usize = 16;
/// Waiters of row 4, and where coordinators grow.
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
    /// Measure only these parts, separated by commas, and leave docs/ as it is.
    #[arg(long, value_delimiter = ',', value_name = "PARTS")]
    only: Vec<Part>,
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

/// Part that can be measured by itself: a row of the table, or a curve of the growth.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Part {
    /// acquire and release, 64 clients, one at a time each
    #[value(name = "1")]
    Cycles,
    /// the same, 16 in flight on each of 64 streams
    #[value(name = "2")]
    Pipelined,
    /// one client alone
    #[value(name = "3")]
    Alone,
    /// hand-off, 100 waiters
    #[value(name = "4")]
    HandOff,
    /// Redis operations, 1000 waiters
    #[value(name = "5")]
    Operations,
    /// 100 000 held locks
    #[value(name = "6")]
    Held,
    /// 10 000 idle sessions
    #[value(name = "7")]
    Idle,
    /// growth with waiters
    Waiters,
    /// growth with held locks
    Locks,
    /// growth with sessions
    Sessions,
    /// growth with coordinators
    Coordinators,
    /// the four kinds of growth
    Growth,
}

impl Options {
    /// Returns whether `part` was asked for.
    pub(crate) fn wants(&self, part: Part) -> bool {
        let growth = [
            Part::Waiters,
            Part::Locks,
            Part::Sessions,
            Part::Coordinators,
        ];
        self.is_whole()
            || self.only.contains(&part)
            || growth.contains(&part) && self.only.contains(&Part::Growth)
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

    pub(crate) fn sizes(&self) -> Sizes {
        if self.quick {
            Sizes::quick()
        } else {
            Sizes::full()
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
    pub(crate) growth: Growth,
}

/// The points of the curves, and how long each is measured.
pub(crate) struct Growth {
    pub(crate) waiters: &'static [usize],
    pub(crate) locks: &'static [usize],
    pub(crate) sessions: &'static [usize],
    pub(crate) coordinators: &'static [usize],
    pub(crate) window: Duration,
    /// Longer, since the CPU time that renewals take comes in waves of a third of the TTL.
    pub(crate) held: Duration,
}

impl Sizes {
    fn full() -> Self {
        Self {
            repetitions: 3,
            warm_up: Duration::from_millis(500),
            settle: Duration::from_secs(4),
            cycles: Duration::from_secs(3),
            hand_off: Duration::from_secs(5),
            contenders: 1_000,
            contended: Duration::from_secs(5),
            waiting: Duration::from_secs(10),
            held_locks: 100_000,
            holding_sessions: 1_000,
            many_holding_sessions: 10_000,
            held: Duration::from_secs(30),
            idle_sessions: 10_000,
            idle: Duration::from_secs(30),
            growth: Growth {
                waiters: &[10, 100, 1_000, 10_000],
                locks: &[1_000, 10_000, 100_000],
                sessions: &[100, 1_000, 10_000],
                coordinators: &[1, 2, 3],
                window: Duration::from_secs(3),
                held: Duration::from_secs(10),
            },
        }
    }

    fn quick() -> Self {
        Self {
            repetitions: 1,
            warm_up: Duration::from_millis(100),
            settle: Duration::from_secs(1),
            cycles: Duration::from_millis(500),
            hand_off: Duration::from_secs(1),
            contenders: 100,
            contended: Duration::from_secs(1),
            waiting: Duration::from_secs(1),
            held_locks: 1_000,
            holding_sessions: 50,
            many_holding_sessions: 100,
            held: Duration::from_secs(3),
            idle_sessions: 300,
            idle: Duration::from_secs(3),
            growth: Growth {
                waiters: &[10, 300],
                locks: &[100, 1_000],
                sessions: &[30, 300],
                coordinators: &[1, 2],
                window: Duration::from_secs(1),
                held: Duration::from_secs(3),
            },
        }
    }

    /// Returns the flags of a coordinator that lets one caller, the driver, do all of this.
    pub(crate) fn coordinator_flags(&self) -> Vec<String> {
        let at_most = |counts: &[usize]| counts.iter().copied().max().unwrap_or_default();
        let sessions = at_most(&[
            CLIENTS,
            WAITERS,
            self.contenders,
            self.holding_sessions,
            self.many_holding_sessions,
            self.idle_sessions,
            at_most(self.growth.waiters),
            at_most(self.growth.sessions),
        ]);
        let locks = at_most(&[self.held_locks, at_most(self.growth.locks)]);
        let locks_each = locks.div_ceil(self.holding_sessions);
        // A client may still leave while the next ones come, and one more client makes the others wait.
        let sessions = 2 * sessions + 1;
        [
            ("--max-connections", sessions),
            ("--max-sessions", sessions),
            ("--max-sessions-per-identity", sessions),
            ("--max-waiters-per-name", sessions),
            ("--max-locks-per-session", locks_each.max(CYCLES_IN_FLIGHT)),
            // 0 is any number.
            ("--max-requests-per-second", 0),
        ]
        .into_iter()
        .flat_map(|(flag, limit)| [flag.to_owned(), limit.to_string()])
        .collect()
    }
}

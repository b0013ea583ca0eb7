//! The command line, and how large and long everything is.

use std::time::Duration;

use clap::{Parser, ValueEnum};

/// Measures Leasehold beside what gRPC and Redis allow, beside other lock services and beside clients that poll.
///
/// A run of everything writes docs/benchmarks.md and its drawings. LEASEHOLD_PEERS is the path of the program that
/// measures etcd and rslock; without it they are told as not measured.
#[derive(Debug, Parser)]
#[command(about, long_about)]
pub(crate) struct Options {
    /// Measure only these parts, separated by commas: prints them, and leaves the page as it is.
    #[arg(long, value_delimiter = ',', value_name = "PARTS")]
    only: Vec<Part>,
    /// A smoke run: everything smaller, shorter and once. Its figures say nothing.
    #[arg(long)]
    pub(crate) quick: bool,
    /// What cargo passes to every benchmark.
    #[arg(long, hide = true)]
    bench: bool,
}

/// What can be measured by itself: a row of the table, or a curve of the growth.
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
    /// Whether `part` was asked for.
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

    /// Whether everything was asked for, so that the page can be written.
    pub(crate) fn is_whole(&self) -> bool {
        self.only.is_empty()
    }

    pub(crate) fn sizes(&self) -> Sizes {
        if self.quick {
            Sizes::quick()
        } else {
            Sizes::full()
        }
    }
}

/// How large and long everything is.
pub(crate) struct Sizes {
    /// How often a figure and its limit are measured, in turns.
    pub(crate) repetitions: usize,
    pub(crate) warm_up: Duration,
    /// How long cycles are counted.
    pub(crate) cycles: Duration,
    pub(crate) hand_off: Duration,
    /// Row 5: how many wait, how long they contend, and for how many seconds they only wait.
    pub(crate) contenders: usize,
    pub(crate) contended: Duration,
    pub(crate) waiting: Duration,
    /// Row 6.
    pub(crate) held_locks: usize,
    pub(crate) holding_sessions: usize,
    pub(crate) held: Duration,
    /// Row 7.
    pub(crate) idle_sessions: usize,
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
            cycles: Duration::from_secs(3),
            hand_off: Duration::from_secs(5),
            contenders: 1_000,
            contended: Duration::from_secs(5),
            waiting: Duration::from_secs(10),
            held_locks: 100_000,
            holding_sessions: 1_000,
            held: Duration::from_secs(30),
            idle_sessions: 10_000,
            idle: Duration::from_secs(20),
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
            warm_up: Duration::from_millis(200),
            cycles: Duration::from_secs(1),
            hand_off: Duration::from_secs(2),
            contenders: 200,
            contended: Duration::from_secs(2),
            waiting: Duration::from_secs(3),
            held_locks: 10_000,
            holding_sessions: 100,
            held: Duration::from_secs(7),
            idle_sessions: 1_000,
            idle: Duration::from_secs(7),
            growth: Growth {
                waiters: &[10, 100, 1_000],
                locks: &[1_000, 10_000],
                sessions: &[100, 1_000],
                coordinators: &[1, 2, 3],
                window: Duration::from_secs(1),
                held: Duration::from_secs(7),
            },
        }
    }
}

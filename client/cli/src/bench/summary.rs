//! Summary of a run: one JSON object for programs, a page of text for people.

use std::{fmt, thread::available_parallelism, time::Duration};

use hdrhistogram::Histogram;
use serde::ser::{Serialize, SerializeMap, Serializer};

use super::{
    hints,
    name::Violation,
    options::BenchOptions,
    tally::{Counts, Kinds},
};
use crate::show::{
    json::{ByName, Wide, duration},
    table::Table,
    text,
};

/// Parameters of the run.
pub(super) struct Run<'a> {
    pub(super) endpoint: &'a str,
    pub(super) coordinators: Vec<String>,
    pub(super) options: &'a BenchOptions,
    pub(super) names: &'a str,
    /// The TTL in force.
    pub(super) ttl: Duration,
    pub(super) measured: Duration,
    /// The CPU time of this process in that time.
    pub(super) cpu: Duration,
}

/// How it ended.
#[derive(Clone, Debug)]
pub(super) enum Ended {
    Completed,
    Interrupted(i32),
    Violation(Violation),
}

/// Distribution of times, in microseconds.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Times {
    pub(super) count: u64,
    mean: f64,
    p50: f64,
    p90: f64,
    p99: f64,
    p99_9: f64,
    pub(super) max: f64,
}

/// Summary.
pub(super) struct Summary<'a> {
    pub(super) run: Run<'a>,
    interrupted: bool,
    violation: Option<String>,
    pub(super) cycles: u64,
    acquires: u64,
    pub(super) least: u64,
    pub(super) most: u64,
    pub(super) acquire: Option<Times>,
    pub(super) hand_off: Option<Times>,
    release: Option<Times>,
    cycle: Option<Times>,
    mean_hold: Option<Duration>,
    unfinished: u64,
    pub(super) longest_unfinished: Duration,
    errors: Kinds,
    lost: Kinds,
    pub(super) cores: usize,
    hints: Vec<String>,
}

impl<'a> Summary<'a> {
    pub(super) fn new(run: Run<'a>, ended: &Ended, counts: &Counts, by_client: &[u64]) -> Self {
        let cycles = counts.cycle.len();
        let mut summary = Self {
            run,
            interrupted: matches!(ended, Ended::Interrupted(_)),
            violation: match ended {
                Ended::Violation(violation) => Some(violation.to_string()),
                _ => None,
            },
            cycles,
            acquires: by_client.iter().sum(),
            least: by_client.iter().min().copied().unwrap_or(0),
            most: by_client.iter().max().copied().unwrap_or(0),
            acquire: Times::of(&counts.acquire),
            hand_off: None,
            release: Times::of(&counts.release),
            cycle: Times::of(&counts.cycle),
            mean_hold: (cycles > 0).then(|| counts.held.div_f64(cycles as f64)),
            unfinished: counts.unfinished,
            longest_unfinished: counts.longest_unfinished,
            errors: counts.errors.clone(),
            lost: counts.lost.clone(),
            cores: available_parallelism().map_or(1, usize::from),
            hints: Vec::new(),
        };
        if summary.run.options.contended {
            summary.hand_off = Times::of(&counts.hand_off);
        }
        summary.hints = hints::of(&summary);
        summary
    }

    fn per_second(&self) -> f64 {
        let seconds = self.run.measured.as_secs_f64();
        if seconds > 0.0 {
            self.cycles as f64 / seconds
        } else {
            0.0
        }
    }

    /// Returns how many processors this process kept busy.
    pub(super) fn cores_used(&self) -> f64 {
        let seconds = self.run.measured.as_secs_f64();
        if seconds > 0.0 {
            self.run.cpu.as_secs_f64() / seconds
        } else {
            0.0
        }
    }
}

impl Times {
    fn of(histogram: &Histogram<u64>) -> Option<Self> {
        let micros = |nanos: u64| nanos as f64 / 1000.0;
        let at = |share| micros(histogram.value_at_quantile(share));
        (!histogram.is_empty()).then(|| Self {
            count: histogram.len(),
            mean: histogram.mean() / 1000.0,
            p50: at(0.5),
            p90: at(0.9),
            p99: at(0.99),
            p99_9: at(0.999),
            max: micros(histogram.max()),
        })
    }
}

/// The fields are described in docs/bench.md and stay as they are.
impl Serialize for Summary<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Run { options, .. } = self.run;
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("toolVersion", env!("CARGO_PKG_VERSION"))?;
        map.serialize_entry("endpoint", self.run.endpoint)?;
        map.serialize_entry("coordinators", &self.run.coordinators)?;
        map.serialize_entry("contended", &options.contended)?;
        map.serialize_entry("clients", &options.clients)?;
        map.serialize_entry("inFlight", &options.in_flight)?;
        map.serialize_entry("names", self.run.names)?;
        map.serialize_entry("hold", &duration(options.hold))?;
        map.serialize_entry("ttl", &duration(self.run.ttl))?;
        map.serialize_entry("warmUp", &duration(options.warm_up))?;
        map.serialize_entry("duration", &duration(options.duration))?;
        map.serialize_entry("measured", &duration(whole_millis(self.run.measured)))?;
        map.serialize_entry("interrupted", &self.interrupted)?;
        map.serialize_entry("violation", &self.violation)?;
        map.serialize_entry("cycles", &Wide(self.cycles))?;
        map.serialize_entry("cyclesPerSecond", &tenths(self.per_second()))?;
        map.serialize_entry("acquires", &Wide(self.acquires))?;
        map.serialize_entry("acquiresPerClientMin", &Wide(self.least))?;
        map.serialize_entry("acquiresPerClientMax", &Wide(self.most))?;
        for (what, times) in [
            ("acquire", self.acquire),
            ("handOff", self.hand_off),
            ("release", self.release),
            ("cycle", self.cycle),
        ] {
            let count = times.map_or(0, |times| times.count);
            map.serialize_entry(&format!("{what}Count"), &Wide(count))?;
            for (column, of) in COLUMNS_JSON {
                let time = times.as_ref().map(of).map(of_micros);
                map.serialize_entry(&format!("{what}{column}"), &time)?;
            }
        }
        let hold = self.mean_hold.map(|hold| of_micros(micros(hold)));
        map.serialize_entry("holdMean", &hold)?;
        map.serialize_entry("unfinishedAcquires", &Wide(self.unfinished))?;
        let longest = of_micros(micros(self.longest_unfinished));
        map.serialize_entry("longestUnfinishedAcquire", &longest)?;
        for (what, kinds) in [("errors", &self.errors), ("lostLocks", &self.lost)] {
            map.serialize_entry(what, &Wide(kinds.total()))?;
            let kinds = kinds.iter().map(|(kind, count, _)| (kind, Wide(count)));
            let kinds: ByName<'_> = kinds.collect();
            map.serialize_entry(&format!("{what}ByReason"), &kinds)?;
        }
        let cores = (self.cores_used() * 100.0).round() / 100.0;
        map.serialize_entry("clientCoresUsed", &cores)?;
        map.serialize_entry("clientCores", &self.cores)?;
        map.serialize_entry("hints", &self.hints)?;
        map.end()
    }
}

type Column = (&'static str, fn(&Times) -> f64);

const COLUMNS_JSON: [Column; 6] = [
    ("Mean", |times| times.mean),
    ("P50", |times| times.p50),
    ("P90", |times| times.p90),
    ("P99", |times| times.p99),
    ("P999", |times| times.p99_9),
    ("Max", |times| times.max),
];

const COLUMNS_TEXT: [Column; 5] = [
    ("p50", |times| times.p50),
    ("p90", |times| times.p90),
    ("p99", |times| times.p99),
    ("p99.9", |times| times.p99_9),
    ("max", |times| times.max),
];

impl fmt::Display for Summary<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.interrupted {
            writeln!(f, "INTERRUPTED: this is what was measured until then\n")?;
        }
        if self.violation.is_some() {
            writeln!(f, "VIOLATED: the run was ended; see the message\n")?;
        }
        self.facts().fmt(f)?;
        writeln!(f)?;
        self.times().fmt(f)?;
        writeln!(f)?;
        for (what, kinds) in [("errors", &self.errors), ("lost locks", &self.lost)] {
            if kinds.total() == 0 {
                writeln!(f, "no {what}")?;
            }
            for (kind, count, example) in kinds.iter() {
                let example = text::escaped(example.as_bytes());
                let kind = text::escaped(kind.as_bytes());
                writeln!(f, "{what}: {count} × {kind}, such as: {example}")?;
            }
        }
        for hint in &self.hints {
            writeln!(f, "hint: {hint}")?;
        }
        Ok(())
    }
}

impl Summary<'_> {
    fn facts(&self) -> Table {
        let Run { options, .. } = self.run;
        let names = self.run.coordinators.iter();
        let names: Vec<_> = names.map(|name| text::escaped(name.as_bytes())).collect();
        let coordinator = format!("{} ({})", self.run.endpoint, names.join(", "));
        let mut facts = Table::new(&["coordinator", &coordinator]);
        let mut fact = |what: &str, is: String| facts.row(vec![what.to_owned(), is]);
        let clients = match (options.clients, options.in_flight) {
            (1, 1) => "1, alone".to_owned(),
            (clients, 1) => format!("{clients}, one acquire at a time each"),
            (clients, in_flight) => format!("{clients}, {in_flight} acquires at a time each"),
        };
        fact("clients", clients);
        let prefix = text::escaped(self.run.names.as_bytes());
        fact(
            "names",
            if options.contended {
                format!("{prefix}contended, which all of them want")
            } else {
                format!("{prefix}…, each client its own")
            },
        );
        let hold = self.mean_hold.filter(|_| !options.hold.is_zero());
        if let Some(hold) = hold {
            fact("held for", format!("{} on average", time(micros(hold))));
        }
        let measured = text::duration(self.run.measured);
        let warm_up = text::duration(options.warm_up);
        fact(
            "measured",
            format!("{measured}, after {warm_up} of warm-up"),
        );
        let (cycles, rate) = (self.cycles, self.per_second());
        fact("cycles", format!("{cycles}, {rate:.1} per second"));
        fact(
            "fairness",
            format!("{} to {} cycles a client", self.least, self.most),
        );
        let (used, cores) = (self.cores_used(), self.cores);
        fact(
            "this process",
            format!("used {used:.2} of {cores} processors"),
        );
        facts
    }

    fn times(&self) -> Table {
        let right = |cell: &str| format!("{cell:>8}");
        let head: Vec<_> = COLUMNS_TEXT.iter().map(|(name, _)| right(name)).collect();
        let mut head: Vec<&str> = head.iter().map(String::as_str).collect();
        head.insert(0, "");
        let mut table = Table::new(&head);
        let contended = self.run.options.contended;
        let acquire = if contended {
            "acquire (wait)"
        } else {
            "acquire"
        };
        for (what, times) in [
            (acquire, self.acquire),
            ("hand-off", self.hand_off),
            ("release", self.release),
            ("cycle", self.cycle),
        ] {
            if what == "hand-off" && !contended {
                continue;
            }
            let cells = COLUMNS_TEXT.iter().map(|(_, of)| match &times {
                Some(times) => right(&time(of(times))),
                None => right("-"),
            });
            table.row(std::iter::once(what.to_owned()).chain(cells).collect());
        }
        table
    }
}

/// Returns microseconds as text, to about three digits.
pub(super) fn time(micros: f64) -> String {
    let (number, unit) = match micros {
        _ if micros < 1_000.0 => return format!("{micros:.0} µs"),
        _ if micros < 1_000_000.0 => (micros / 1_000.0, "ms"),
        _ => (micros / 1_000_000.0, "s"),
    };
    match number {
        _ if number < 10.0 => format!("{number:.2} {unit}"),
        _ if number < 100.0 => format!("{number:.1} {unit}"),
        _ => format!("{number:.0} {unit}"),
    }
}

pub(super) fn micros(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1_000_000.0
}

/// Returns a time in microseconds as text, to the tenth of one, which is the precision kept.
fn of_micros(micros: f64) -> String {
    duration(Duration::from_nanos((micros * 10.0).round() as u64 * 100))
}

fn whole_millis(duration: Duration) -> Duration {
    Duration::from_millis(u64::try_from(duration.as_millis()).unwrap_or(u64::MAX))
}

fn tenths(number: f64) -> f64 {
    (number * 10.0).round() / 10.0
}

//! Page of a run's summary: one JSON object for programs, text for people.

use std::{fmt, time::Duration};

use leasehold_load::Distribution;
use serde::ser::{Serialize, SerializeMap, Serializer};

use super::{
    hints,
    summary::{Ended, Summary, cores, time},
};
use crate::show::{
    json::{ByName, Wide, duration},
    table::Table,
    text,
};

/// Column of times: its name in JSON, its head in the table, and its value.
type Column = (&'static str, &'static str, fn(&Distribution) -> Duration);

/// Columns of times. The table begins with the second.
const COLUMNS: [Column; 6] = [
    ("Mean", "mean", Distribution::mean),
    ("P50", "p50", |times| times.quantile(0.5)),
    ("P90", "p90", |times| times.quantile(0.9)),
    ("P99", "p99", |times| times.quantile(0.99)),
    ("P999", "p99.9", |times| times.quantile(0.999)),
    ("Max", "max", Distribution::max),
];

impl Serialize for Summary<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let (options, counts) = (self.options, self.counts);
        let (least, most) = self.range();
        let violation = match self.ended {
            Ended::Violation(violation) => Some(violation.to_string()),
            _ => None,
        };
        let measured = Duration::from_millis(self.measured.as_millis() as u64);
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("toolVersion", env!("CARGO_PKG_VERSION"))?;
        map.serialize_entry("endpoint", self.endpoint)?;
        map.serialize_entry("coordinators", self.coordinators)?;
        map.serialize_entry("contended", &options.contended)?;
        map.serialize_entry("clients", &options.clients)?;
        map.serialize_entry("inFlight", &options.in_flight)?;
        map.serialize_entry("names", self.names)?;
        map.serialize_entry("hold", &duration(options.hold))?;
        map.serialize_entry("ttl", &duration(self.ttl))?;
        map.serialize_entry("warmUp", &duration(options.warm_up))?;
        map.serialize_entry("duration", &duration(options.duration))?;
        map.serialize_entry("measured", &duration(measured))?;
        let interrupted = matches!(self.ended, Ended::Interrupted(_));
        map.serialize_entry("interrupted", &interrupted)?;
        map.serialize_entry("violation", &violation)?;
        map.serialize_entry("cycles", &Wide(self.cycles()))?;
        let rate = (self.rate() * 10.0).round() / 10.0;
        map.serialize_entry("cyclesPerSecond", &rate)?;
        let acquires = counts.by_client.iter().sum::<u64>();
        map.serialize_entry("acquires", &Wide(acquires))?;
        map.serialize_entry("acquiresPerClientMin", &Wide(least))?;
        map.serialize_entry("acquiresPerClientMax", &Wide(most))?;
        for (what, times) in [
            ("acquire", &counts.acquire),
            ("handOff", &counts.hand_off),
            ("release", &counts.release),
            ("cycle", &counts.cycle),
        ] {
            map.serialize_entry(&format!("{what}Count"), &Wide(times.count()))?;
            for (column, _, of) in COLUMNS {
                let time = (!times.is_empty()).then(|| rounded(of(times)));
                map.serialize_entry(&format!("{what}{column}"), &time)?;
            }
        }
        map.serialize_entry("holdMean", &self.mean_hold().map(rounded))?;
        map.serialize_entry("unfinishedAcquires", &Wide(counts.unfinished))?;
        let longest = rounded(counts.longest_unfinished);
        map.serialize_entry("longestUnfinishedAcquire", &longest)?;
        for (what, kinds) in [("errors", &counts.errors), ("lostLocks", &counts.lost)] {
            map.serialize_entry(what, &Wide(kinds.total()))?;
            let kinds = kinds.iter().map(|(kind, count, _)| (kind, Wide(count)));
            let kinds: ByName<'_> = kinds.collect();
            map.serialize_entry(&format!("{what}ByReason"), &kinds)?;
        }
        let cores_used = (self.cores_used() * 100.0).round() / 100.0;
        map.serialize_entry("clientCoresUsed", &cores_used)?;
        map.serialize_entry("clientCores", &cores())?;
        map.serialize_entry("hints", &hints::of(self))?;
        map.end()
    }
}

impl Summary<'_> {
    fn facts(&self) -> Table {
        let options = self.options;
        let names: Vec<_> = self.coordinators.iter().map(text::escaped).collect();
        let coordinator = format!("{} ({})", self.endpoint, names.join(", "));
        let mut facts = Table::new(&["coordinator", &coordinator]);
        let clients = match (options.clients, options.in_flight) {
            (1, 1) => "1, alone".to_owned(),
            (clients, 1) => format!("{clients}, one acquire at a time each"),
            (clients, in_flight) => format!("{clients}, {in_flight} acquires at a time each"),
        };
        facts.fact("clients", clients);
        let prefix = text::escaped(self.names);
        facts.fact(
            "names",
            if options.contended {
                format!("{prefix}contended, which all of them want")
            } else {
                format!("{prefix}…, each client its own")
            },
        );
        let hold = self.mean_hold().filter(|_| !options.hold.is_zero());
        if let Some(hold) = hold {
            facts.fact("held for", format!("{} on average", time(hold)));
        }
        let measured = text::duration(self.measured);
        let warm_up = text::duration(options.warm_up);
        facts.fact(
            "measured",
            format!("{measured}, after {warm_up} of warm-up"),
        );
        let (cycles, rate) = (self.cycles(), self.rate());
        facts.fact("cycles", format!("{cycles}, {rate:.1} per second"));
        let (least, most) = self.range();
        facts.fact("fairness", format!("{least} to {most} cycles a client"));
        let (used, cores) = (self.cores_used(), cores());
        facts.fact(
            "this process",
            format!("used {used:.2} of {cores} processors"),
        );
        facts
    }

    fn times(&self) -> Table {
        let right = |cell: String| format!("{cell:>8}");
        let heads = COLUMNS[1..]
            .iter()
            .map(|(_, head, _)| right((*head).into()));
        let mut table = Table::default();
        table.row([String::new()].into_iter().chain(heads).collect());
        let (counts, contended) = (self.counts, self.options.contended);
        let acquire = match contended {
            true => "acquire (wait)",
            false => "acquire",
        };
        for (what, times, is_shown) in [
            (acquire, &counts.acquire, true),
            ("hand-off", &counts.hand_off, contended),
            ("release", &counts.release, true),
            ("cycle", &counts.cycle, true),
        ] {
            let cells = COLUMNS[1..]
                .iter()
                .map(|(_, _, of)| match times.is_empty() {
                    true => right("-".into()),
                    false => right(time(of(times))),
                });
            if is_shown {
                table.row([what.to_owned()].into_iter().chain(cells).collect());
            }
        }
        table
    }
}

impl fmt::Display for Summary<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.ended {
            Ended::Completed => {}
            Ended::Interrupted(_) => {
                writeln!(f, "INTERRUPTED: this is what was measured until then\n")?;
            }
            Ended::Violation(_) => {
                writeln!(f, "VIOLATED: the run was ended; see the message\n")?;
            }
        }
        self.facts().fmt(f)?;
        writeln!(f)?;
        self.times().fmt(f)?;
        writeln!(f)?;
        for (what, kinds) in [
            ("errors", &self.counts.errors),
            ("lost locks", &self.counts.lost),
        ] {
            if kinds.total() == 0 {
                writeln!(f, "no {what}")?;
            }
            for (kind, count, example) in kinds.iter() {
                let example = text::escaped(example);
                let kind = text::escaped(kind);
                writeln!(f, "{what}: {count} × {kind}, such as: {example}")?;
            }
        }
        for hint in hints::of(self) {
            writeln!(f, "hint: {hint}")?;
        }
        Ok(())
    }
}

/// Returns a duration as JSON has it, to a tenth of a microsecond.
fn rounded(time: Duration) -> String {
    let tenths = (time.as_nanos() as u64 + 50) / 100;
    duration(Duration::from_nanos(tenths * 100))
}

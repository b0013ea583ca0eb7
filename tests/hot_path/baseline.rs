//! Baseline: the recorded cost of each piece.

use std::{collections::HashMap, fmt, fmt::Write, fs};

const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/hot_path/baseline.txt");
/// Factor by which what a piece costs may rise unnoticed.
const TOLERANCE: f64 = 1.05;
/// The part of a cycle's cost that is left to what happens once a second.
const NOW_AND_THEN: f64 = 0.05;

/// Cost of one cycle of a piece: numbers of allocations, commands and so on, by what they count.
#[derive(Clone, Debug)]
pub(crate) struct Cost(Vec<(String, f64)>);

impl Cost {
    pub(crate) fn new<N: Into<String>>(counts: impl IntoIterator<Item = (N, f64)>) -> Self {
        let counts = counts.into_iter();
        Self(counts.map(|(what, count)| (what.into(), count)).collect())
    }

    /// Returns the cost of one of `cycles`, all of which cost this.
    pub(crate) fn each_of(mut self, cycles: f64) -> Self {
        for (_, count) in &mut self.0 {
            *count /= cycles;
        }
        self
    }

    /// Adds costs of another kind.
    pub(crate) fn and(mut self, other: Self) -> Self {
        self.0.extend(other.0);
        self
    }

    /// Returns the sum of all counts.
    pub(crate) fn sum(&self) -> f64 {
        self.0.iter().map(|(_, count)| count).sum()
    }

    fn count(&self, what: &str) -> f64 {
        let counts = self.0.iter();
        counts
            .filter(|(counted, _)| counted == what)
            .map(|(_, count)| count)
            .fold(0.0, |sum, count| sum + count)
    }
}

/// Shows a number with two digits after the point at most.
fn shown(count: f64) -> String {
    let text = format!("{count:.2}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

impl fmt::Display for Cost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let counts = self.0.iter();
        let counts: Vec<_> = counts
            .map(|(what, count)| format!("{} {what}", shown(*count)))
            .collect();
        f.write_str(&counts.join(", "))
    }
}

/// The recorded costs, by the names of the pieces.
pub(crate) struct Baseline(HashMap<String, Cost>);

impl Baseline {
    pub(crate) fn recorded() -> Self {
        Self::parse(&fs::read_to_string(FILE).unwrap())
    }

    pub(crate) fn parse(text: &str) -> Self {
        let entry = |line: &str| {
            let (name, cost) = line.rsplit_once(": ").unwrap();
            let counts = cost.split(", ").map(|count| {
                let (count, what) = count.split_once(' ').unwrap();
                (what, count.parse().unwrap())
            });
            (name.to_owned(), Cost::new(counts))
        };
        Self(text.lines().map(entry).collect())
    }

    pub(crate) fn record(costs: &[(&str, Cost)]) {
        let mut text = String::new();
        for (name, cost) in costs {
            writeln!(text, "{name}: {cost}").unwrap();
        }
        fs::write(FILE, text).unwrap();
    }

    /// Says so if a piece costs more than it may: what rose, and from what.
    pub(crate) fn exceeded(&self, name: &str, cost: &Cost) -> Option<String> {
        let Some(before) = self.0.get(name) else {
            return Some(format!("{name}: {cost}, and no baseline"));
        };
        let dearer = cost.0.iter().filter_map(|(what, now)| {
            let then = before.count(what);
            (*now > then * TOLERANCE + NOW_AND_THEN)
                .then(|| format!("{what} {} → {}", shown(then), shown(*now)))
        });
        let dearer: Vec<_> = dearer.collect();
        (!dearer.is_empty()).then(|| {
            format!(
                "{name}: {}\n  before: {before}\n  now:    {cost}",
                dearer.join(", ")
            )
        })
    }
}

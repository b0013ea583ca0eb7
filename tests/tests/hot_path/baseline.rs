//! Baseline: the recorded cost of each piece.

use std::{collections::HashMap, fmt, fmt::Write, fs};

const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/hot_path/baseline.txt");
/// Factor by which the cost of a piece may rise unnoticed.
const TOLERANCE: f64 = 1.05;

/// Cost of one cycle of a piece.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cost {
    pub(crate) allocations: f64,
    pub(crate) bytes: f64,
}

impl fmt::Display for Cost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { allocations, bytes } = self;
        write!(f, "{allocations:.2} allocations, {bytes:.0} bytes")
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
            let mut words = cost.split_whitespace().step_by(2);
            let mut number = || words.next().unwrap().parse().unwrap();
            let cost = Cost {
                allocations: number(),
                bytes: number(),
            };
            (name.to_owned(), cost)
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

    /// Says so if a piece costs more than it may.
    pub(crate) fn exceeded(&self, name: &str, cost: Cost) -> Option<String> {
        let Some(before) = self.0.get(name) else {
            return Some(format!("{name}: {cost}, and no baseline"));
        };
        let dearer = cost.allocations > before.allocations * TOLERANCE
            || cost.bytes > before.bytes * TOLERANCE;
        dearer.then(|| format!("{name}: {cost}, was {before}"))
    }
}

//! Allocations of a cycle, which no other load on the machine changes.
//!
//! Each piece of the hot path is run on one thread with every allocation counted, and held against `baseline.txt`: a change
//! that makes one dearer by more than 5 % fails here until it says so, by recording the baseline anew with
//! `UPDATE_BASELINE=1 cargo test -p leasehold-tests --test hot_path`.
#![expect(clippy::unwrap_used, reason = "tests")]
#![expect(clippy::print_stdout, reason = "the figures are printed")]

mod baseline;
mod pieces;

use baseline::{Baseline, Cost};

/// A piece of the hot path: its name, and what one cycle of it cost.
type Piece = (&'static str, fn() -> Cost);

/// Pieces that are counted. A cycle is an acquire and its release.
const PIECES: [Piece; 6] = [
    ("rules, uncontended", pieces::rules_uncontended),
    ("rules, 100 waiters", pieces::rules_contended),
    ("wire, one end", pieces::wire),
    ("to Redis, 64 cycles a call", pieces::to_redis),
    ("from Redis, 64 cycles a call", pieces::from_redis),
    (
        "coordinator and client, in memory",
        pieces::through_a_coordinator,
    ),
];

#[test]
fn a_cycle_costs_no_more_than_the_baseline() {
    let costs: Vec<(&str, Cost)> = PIECES
        .iter()
        .map(|(name, measure)| (*name, measure()))
        .collect();
    for (name, cost) in &costs {
        println!("{name}: {cost}");
    }
    if std::env::var_os("UPDATE_BASELINE").is_some() {
        return Baseline::record(&costs);
    }
    let baseline = Baseline::recorded();
    let dearer: Vec<String> = costs
        .iter()
        .filter_map(|(name, cost)| baseline.exceeded(name, *cost))
        .collect();
    assert!(
        dearer.is_empty(),
        "dearer than the baseline by more than 5 %; if that is meant, record it with UPDATE_BASELINE=1 and say why:\n{}",
        dearer.join("\n")
    );
}

#[test]
fn costs_more_than_five_percent_above_the_baseline_are_found() {
    let baseline = Baseline::parse("piece: 20.00 allocations, 1000 bytes\n");
    let cost = |allocations, bytes| Cost { allocations, bytes };
    assert_eq!(baseline.exceeded("piece", cost(21.0, 1050.0)), None);
    assert_eq!(baseline.exceeded("piece", cost(2.0, 10.0)), None);
    assert!(baseline.exceeded("piece", cost(21.1, 1000.0)).is_some());
    assert!(baseline.exceeded("piece", cost(20.0, 1051.0)).is_some());
    assert!(baseline.exceeded("another", cost(0.0, 0.0)).is_some());
}

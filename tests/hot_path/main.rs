//! Cost of a cycle in counts that no other load on the machine changes: allocations, system calls, calls to Redis, and the commands
//! and statements of the script there.
//!
//! Each piece of the hot path is held against `baseline.txt`: a change that makes one dearer by more than 5 % fails here until it says
//! so, by recording the baseline anew with `UPDATE_BASELINE=1 cargo test --workspace --test hot_path`.
#![expect(clippy::unwrap_used, reason = "tests")]
#![expect(clippy::print_stdout, reason = "the figures are printed")]

mod baseline;
mod coordinator;
mod cycles;
mod pieces;
mod script;

use baseline::{Baseline, Cost};

/// A piece of the hot path: its name, and what one cycle of it cost.
type Piece = (&'static str, fn() -> Cost);

/// Pieces that are counted. A cycle is an acquire and its release; a contended one is a release, the grant of the next, and the acquire
/// of a place at the end.
const PIECES: [Piece; 15] = [
    ("rules, uncontended", pieces::rules_uncontended),
    ("rules, 100 waiters", pieces::rules_contended),
    ("wire, one end", pieces::wire),
    ("to Redis, 64 cycles a call", pieces::to_redis),
    ("from Redis, 64 cycles a call", pieces::from_redis),
    ("coordinator and client, in memory", coordinator::in_memory),
    ("coordinator and client, on Redis", coordinator::on_redis),
    (
        "coordinator and 4 clients, contended",
        coordinator::contended,
    ),
    ("script, uncontended", script::uncontended),
    ("script, 64 cycles a call", script::together),
    ("script, a renewal", script::renewal),
    ("script, 3 waiters", script::contended),
    ("coordinator's process, one client", coordinator::process),
    (
        "coordinator's process, 4 clients, contended",
        coordinator::contended_process,
    ),
    (
        "two coordinators' processes, 4 clients, contended",
        coordinator::contended_processes,
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
        .filter_map(|(name, cost)| baseline.exceeded(name, cost))
        .collect();
    assert!(
        dearer.is_empty(),
        "dearer than the baseline by more than 5 %; if that is meant, record it with UPDATE_BASELINE=1 and say why:\n{}",
        dearer.join("\n")
    );
}

#[test]
fn costs_more_than_five_percent_above_the_baseline_are_found() {
    let baseline = Baseline::parse("piece: 20 allocations, 1000 bytes\n");
    let exceeded = |name, allocations, bytes| {
        let cost = Cost::new([("allocations", allocations), ("bytes", bytes)]);
        baseline.exceeded(name, &cost)
    };
    assert_eq!(exceeded("piece", 21.0, 1050.0), None);
    assert_eq!(exceeded("piece", 2.0, 10.0), None);
    assert!(exceeded("piece", 20.0, 1051.0).is_some());
    assert!(exceeded("another", 0.0, 0.0).is_some());
    let said = exceeded("piece", 21.1, 1000.0).unwrap();
    assert!(said.starts_with("piece: allocations 20 → 21.1\n"), "{said}");
    // What the baseline does not have was never done before.
    let cost = Cost::new([("hgetall", 1.0)]);
    assert!(baseline.exceeded("piece", &cost).is_some());
}

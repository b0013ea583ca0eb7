//! Test that docs/metrics.md describes every metric, and no other.

use std::collections::BTreeSet;

use super::Metrics;

const DOCUMENTATION: &str = include_str!("../../../docs/metrics.md");

/// A metric's name and its type.
type Metric<'a> = (&'a str, &'a str);

/// Prefixes of the names: Leasehold's own, and those of every process.
const BEGIN: [&str; 2] = ["leasehold_", "process_"];

fn is_name(name: &str) -> bool {
    BEGIN.iter().any(|begin| name.starts_with(begin))
}

fn documented() -> Vec<Metric<'static>> {
    let rows = DOCUMENTATION
        .lines()
        .filter_map(|line| line.strip_prefix("| `"))
        .filter(|row| is_name(row));
    rows.filter_map(|row| {
        let mut cells = row.split(" | ");
        Some((cells.next()?.strip_suffix('`')?, cells.next()?))
    })
    .collect()
}

fn shown(text: &str) -> BTreeSet<Metric<'_>> {
    text.lines()
        .filter_map(|line| line.strip_prefix("# TYPE ")?.split_once(' '))
        .collect()
}

#[test]
fn every_metric_is_documented_once_with_its_type() {
    let text = Metrics::default().encode_for_prometheus();
    let shown = shown(&text);
    let documented = documented();
    assert!(shown.len() > 40, "{text}");
    assert!(shown.iter().all(|(name, _)| is_name(name)), "{text}");
    let documented_once: BTreeSet<_> = documented.iter().copied().collect();
    let undocumented: Vec<_> = shown.difference(&documented_once).collect();
    assert!(
        undocumented.is_empty(),
        "not in docs/metrics.md: {undocumented:?}"
    );
    let gone: Vec<_> = documented_once.difference(&shown).collect();
    assert!(gone.is_empty(), "only in docs/metrics.md: {gone:?}");
    assert_eq!(documented.len(), shown.len(), "one is documented twice");
}

#[test]
fn each_has_a_help_in_one_sentence() {
    let text = Metrics::default().encode_for_prometheus();
    for (name, _) in documented() {
        let help = format!("# HELP {name} ");
        let help = text.lines().find_map(|line| line.strip_prefix(&help));
        let is_sentence = |help: &str| help.ends_with('.') && !help.ends_with("..");
        let is_good = help.is_some_and(|help| help.len() > 10 && is_sentence(help));
        assert!(is_good, "{name}: {help:?}");
    }
}

#[test]
fn nothing_is_measured_if_metrics_are_off() {
    let metrics = Metrics::new(crate::listener::Connections::new(), false);
    assert_eq!(metrics.clocks.begin(), None);
    drop(metrics.clocks.wait());
    metrics.grants.inc();
    let text = metrics.encode_for_prometheus();
    assert!(text.contains("\nleasehold_grants_total 1\n"), "{text}");
    assert!(
        text.contains("\nleasehold_wait_seconds_count{end=\"cancelled\"} 0\n"),
        "{text}"
    );
}

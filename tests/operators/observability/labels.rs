//! Test that docs/metrics.md describes every series of a coordinator, and that no label names a lock or a client.

use std::collections::{BTreeMap, BTreeSet};

use leasehold_tests::{Authority, Coordinator, RedisServer};

use crate::observability::work::work;

const DOCUMENTATION: &str = include_str!("../../../docs/metrics.md");

/// The labels of each metric.
type LabelsOf<'a> = BTreeMap<&'a str, BTreeSet<&'a str>>;

fn documented() -> LabelsOf<'static> {
    let rows = DOCUMENTATION
        .lines()
        .filter(|line| line.starts_with("| `leasehold_") || line.starts_with("| `process_"));
    rows.map(|row| {
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        let labels = cells[3].split(", ").filter(|label| !label.is_empty());
        let labels = labels.map(|label| label.trim_matches('`'));
        (cells[1].trim_matches('`'), labels.collect())
    })
    .collect()
}

#[tokio::test]
async fn every_series_of_a_coordinator_at_work_is_documented() {
    let redis = RedisServer::start();
    let coordinator = Coordinator::process().store(redis.url()).start();
    work(&coordinator).await;
    // What there is only of who shows a certificate.
    let authority = Authority::new("servers");
    let certificate = authority.server().issue();
    let with_tls = Coordinator::process()
        .arguments(certificate.flags())
        .start();
    let shown = [coordinator.metrics().await, with_tls.metrics().await];
    let documented = documented();
    let mut seen = BTreeSet::new();
    for series in shown.iter().flat_map(|metrics| metrics.series()) {
        let (name, labels) = series.split_once('{').unwrap_or((series, ""));
        let family = ["_bucket", "_sum", "_count"]
            .iter()
            .find_map(|part| {
                name.strip_suffix(part)
                    .filter(|of| documented.contains_key(of))
            })
            .unwrap_or(name);
        let labels = labels.trim_end_matches('}').split(',');
        let labels: BTreeSet<&str> = labels
            .filter_map(|label| Some(label.split_once('=')?.0))
            .filter(|label| *label != "le")
            .collect();
        assert_eq!(documented.get(family), Some(&labels), "{series}");
        assert!(!series.contains("-name"), "{series}");
        seen.insert(family);
    }
    let unseen: Vec<_> = documented
        .keys()
        .filter(|name| !seen.contains(*name))
        .collect();
    assert!(unseen.is_empty(), "not shown: {unseen:?}");
}

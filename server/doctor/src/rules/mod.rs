//! Rules: from observations to findings. Pure: no I/O, no clock.
//!
//! - `coordinators`: whether each serves; versions, limits, permissions.
//! - `agreement`: settings that all coordinators of a store must share.
//! - `clocks`: clocks of coordinators, of Redis and of this machine.
//! - `servers`: each Redis server by itself.
//! - `topology`: replicas, sentinels, clusters and quorums.
//! - `certificates`: those of coordinators and of the store, and files of the program that asks.

mod agreement;
mod certificates;
mod clocks;
mod coordinators;
mod servers;
#[cfg(test)]
mod tests;
mod topology;

use crate::{
    finding::{Finding, Findings},
    observed::Observations,
};

/// Returns what is wrong, or worth knowing: errors first, then warnings, then notes.
#[must_use]
pub fn diagnose(observed: &Observations) -> Vec<Finding> {
    let mut findings = Findings::default();
    coordinators::check(observed, &mut findings);
    agreement::check(observed, &mut findings);
    if let Some(store) = &observed.store {
        topology::check(observed, &store.facts, &mut findings);
        servers::check(&store.facts, &mut findings);
    }
    clocks::check(observed, &mut findings);
    certificates::check(observed, &mut findings);
    let Findings(mut findings) = findings;
    findings.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
    findings
}

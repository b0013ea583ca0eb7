//! Each coordinator by itself, and what differs between them.

use std::{cmp::Ordering, collections::BTreeMap};

use crate::{
    check::Check,
    finding::{
        Findings,
        Severity::{Error, Note, Warning},
    },
    observed::{Limit, Observations, Status},
};

/// Locks that are named as examples.
const EXAMPLES: usize = 3;

pub(super) fn check(observed: &Observations, findings: &mut Findings) {
    for coordinator in &observed.coordinators {
        match &coordinator.answer {
            Err(none) => {
                let check = match none.is_refusal {
                    true => Check::CoordinatorRefuses,
                    false => Check::CoordinatorUnreachable,
                };
                findings.add(Error, check, &coordinator.address, &none.reason);
            }
            Ok(status) => one(&coordinator.address, status, findings),
        }
    }
    versions(observed, findings);
    permissions(observed, findings);
    strays(observed, findings);
}

fn one(address: &str, status: &Status, findings: &mut Findings) {
    if status.is_draining {
        findings.add(Warning, Check::CoordinatorDraining, address, "it drains");
    } else if !status.is_serving {
        let reason = status.reason.as_deref();
        let what = format!(
            "it does not serve: {}",
            reason.unwrap_or("it does not tell this caller why")
        );
        findings.add(Error, Check::CoordinatorNotServing, address, what);
    } else if let Some(refused) = &status.reason {
        findings.add(Error, Check::CommandsRefused, address, refused);
    }
    for limit in &status.limits {
        near(address, limit, findings);
    }
}

/// Names a limit of which four fifths are in use.
pub(super) fn near(subject: &str, limit: &Limit, findings: &mut Findings) {
    let Limit { name, used, limit } = limit;
    if *limit == 0 || used.saturating_mul(5) < limit.saturating_mul(4) {
        return;
    }
    let severity = if used >= limit { Error } else { Warning };
    let what = format!("{used} of {limit} are in use: {name}");
    findings.add(severity, Check::LimitNear, subject, what);
}

/// Release of a version: its first two numbers.
type Release = (u64, u64);

/// Returns the release of a version such as `0.1.0`.
fn release(version: &str) -> Option<Release> {
    let mut numbers = version.split('.').map(|part| part.parse().ok());
    Some((numbers.next()??, numbers.next()??))
}

/// Returns whether one release directly follows the other, or they are the same.
fn are_neighbours(one: Release, other: Release) -> bool {
    one.0 == other.0 && one.1.abs_diff(other.1) <= 1
}

fn versions(observed: &Observations, findings: &mut Findings) {
    let told = observed.answers();
    let known: Vec<_> = told
        .filter_map(|(address, status)| Some((address, &status.version, release(&status.version)?)))
        .collect();
    let Some(newest) = known.iter().map(|(.., release)| *release).max() else {
        return;
    };
    let own = release(&observed.version).unwrap_or(newest);
    let reference = newest.max(own);
    let mut is_old = false;
    for (address, version, release) in &known {
        if !are_neighbours(*release, reference) {
            is_old = true;
            let what = format!(
                "its version is {version}, more than one release before {}.{}",
                reference.0, reference.1
            );
            findings.add(Error, Check::VersionTooOld, *address, what);
        }
    }
    for (address, status) in observed.answers() {
        if status.clock.is_none() {
            is_old = true;
            let what = format!(
                "its version {} does not tell its clock, its settings and its limits",
                status.version
            );
            findings.add(Warning, Check::VersionTooOld, address, what);
        }
    }
    let mut versions: BTreeMap<&str, usize> = BTreeMap::new();
    for (_, version, _) in &known {
        *versions.entry(version.as_str()).or_default() += 1;
    }
    if versions.len() > 1 && !is_old {
        let counts = versions
            .iter()
            .map(|(version, count)| format!("{version} ({count})"));
        let what = format!(
            "the coordinators have the versions {}",
            counts.collect::<Vec<_>>().join(", ")
        );
        findings.add(Note, Check::VersionsDiffer, "coordinators", what);
    } else if own.cmp(&newest) == Ordering::Less {
        let what = format!(
            "this program has the version {}, and coordinators have {}.{}: it may miss findings",
            observed.version, newest.0, newest.1
        );
        findings.add(Note, Check::VersionsDiffer, "this program", what);
    }
}

fn permissions(observed: &Observations, findings: &mut Findings) {
    for (address, status) in observed.answers() {
        let Some(identity) = &status.identity else {
            continue;
        };
        if status.permissions.is_empty() {
            let what = format!("{identity} may do nothing there");
            findings.add(Warning, Check::Permissions, address, what);
        } else if !status.sees_all && status.clock.is_some() {
            let what = format!("{identity} does not see settings, limits and certificates there");
            findings.add(Note, Check::Permissions, address, what);
        }
    }
    let mut answers = observed
        .answers()
        .filter(|(_, status)| status.clock.is_some());
    if let Some((first, status)) = answers.next() {
        let same = |other: &Status| {
            other.identity == status.identity && other.permissions == status.permissions
        };
        if let Some((other, _)) = answers.find(|(_, other)| !same(other)) {
            let what = format!(
                "{first} and {other} know the caller by another identity, or permit it other things"
            );
            findings.add(Warning, Check::PermissionsDiffer, "coordinators", what);
        }
    }
}

/// Names coordinators that have waiters and were not reached.
fn strays(observed: &Observations, findings: &mut Findings) {
    let mut strays: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for waiter in &observed.waiters {
        let is_known = observed
            .answers()
            .any(|(_, status)| status.id == waiter.coordinator);
        if !is_known {
            strays
                .entry(&waiter.coordinator)
                .or_default()
                .push(&waiter.lock);
        }
    }
    for (coordinator, locks) in strays {
        let examples = locks.iter().take(EXAMPLES).map(|lock| format!("{lock:?}"));
        let examples = examples.collect::<Vec<_>>().join(", ");
        let more = if locks.len() > EXAMPLES { ", …" } else { "" };
        let what = format!(
            "{} acquires wait there ({examples}{more}), and no endpoint leads to it",
            locks.len()
        );
        findings.add(Warning, Check::StrayWaiters, coordinator, what);
    }
}

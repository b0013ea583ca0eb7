//! Each finding: a healthy deployment, of which one thing is changed.
#![expect(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod cases;
mod certificates;
mod scene;

use std::{
    collections::HashSet,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use leasehold_store::{
    examine::facts::{
        Clock, ClusterFacts, Facts, FailingNode, Refusal, ReplicaFacts, SentinelFacts,
        SentinelReport, ServerFacts, ServerReport, StandbyFacts, Topology, Trouble, Vote,
    },
    redis::status::DownCause,
};

use self::{
    cases::{CASES, Case},
    scene::*,
};
use super::diagnose;
use crate::{
    Check,
    Severity::{self, Error, Note, Warning},
    observed::{
        Certificate, CertificateFile, Coordinator, FileEnds, Limit, NoAnswer, Observations,
        Permission, Settings, Status, Store, Waiter,
    },
};

/// Returns all cases.
fn all() -> impl Iterator<Item = &'static Case> {
    CASES.iter().chain(certificates::CASES)
}

#[test]
fn a_healthy_deployment_of_each_topology_has_no_finding() {
    let durable = [true, false].map(|durable| Topology::Quorum { durable });
    let others = [
        SINGLE,
        Topology::Memory,
        Topology::Sentinel,
        Topology::Cluster,
    ];
    for topology in others.into_iter().chain(durable) {
        assert_eq!(diagnose(&healthy(topology)), [], "{topology:?}");
    }
}

#[test]
fn each_fault_makes_its_finding_and_no_other() {
    for (number, (topology, check, severity, change)) in all().enumerate() {
        let mut observed = healthy(*topology);
        change(&mut observed);
        let found = diagnose(&observed);
        // A coordinator that does not answer leaves its waiters without one.
        let found = found
            .iter()
            .filter(|it| it.check != Check::StrayWaiters || it.check == *check);
        let kinds: Vec<_> = found.clone().map(|it| (it.check, it.severity)).collect();
        assert!(
            !kinds.is_empty() && kinds.iter().all(|kind| *kind == (*check, *severity)),
            "case {number}: expected {check:?} {severity:?}, found {:?}",
            found.collect::<Vec<_>>()
        );
    }
}

#[test]
fn every_kind_of_finding_has_a_case() {
    let tested: HashSet<_> = all().map(|(_, check, ..)| *check).collect();
    for check in Check::ALL {
        assert!(tested.contains(check), "{check:?}");
    }
}

#[test]
fn this_machine_is_named_if_its_clock_alone_differs() {
    let mut observed = healthy(QUORUM);
    for coordinator in &mut observed.coordinators {
        coordinator.answer.as_mut().unwrap().clock = Some(clock(5_000_000));
    }
    for server in &mut facts(&mut observed).servers {
        server.report.as_mut().unwrap().clock = Some(clock(5_000_100));
    }
    let found = diagnose(&observed);
    let [finding] = &found[..] else {
        panic!("{found:?}");
    };
    assert_eq!(finding.severity, Note);
    assert_eq!(finding.subject, "this machine");
    assert_eq!(finding.what, "its clock is 5.0 s behind the others");
    // A reading that took as long says nothing.
    let mut observed = healthy(SINGLE);
    report(&mut observed).clock = Some(Clock {
        ahead: 3_000_000,
        within: 2_500_000,
    });
    assert_eq!(diagnose(&observed), []);
}

#[test]
fn several_coordinators_on_memory_have_locks_of_their_own() {
    let mut observed = healthy(SINGLE);
    observed.store = None;
    for settings in &mut observed.settings {
        settings.store = "memory:".to_owned();
    }
    let found = diagnose(&observed);
    assert_eq!(found[0].check, Check::StoresDiffer);
    assert_eq!(found.len(), 1);
}

#[test]
fn errors_come_first_and_no_finding_repeats_a_password() {
    let mut observed = healthy(SINGLE);
    let store = observed.store.as_mut().unwrap();
    store.url = "redis://user:hunter2@elsewhere".to_owned();
    status(&mut observed).is_draining = true;
    fails(&mut observed, DownCause::Login);
    observed.settings[1].key_prefix = "x".to_owned();
    let found = diagnose(&observed);
    let severities: Vec<_> = found.iter().map(|it| it.severity).collect();
    assert_eq!(severities, [Error, Error, Warning, Note]);
    assert!(!format!("{found:?}").contains("hunter2"), "{found:?}");
}

//! Servers of a store together: which can't be reached, replicas, sentinels, clusters and quorums.

use std::{collections::BTreeSet, time::Duration};

use leasehold_store::{
    examine::facts::{Facts, ServerFacts, ServerReport, Topology, Trouble, Vote},
    redis::status::after_subject,
};

use crate::{
    check::Check,
    duration::text,
    finding::{
        Findings,
        Severity::{self, Error, Note, Warning},
    },
    observed::Observations,
};

/// Time without a sign after which Redis itself takes a replica for bad: the default of `min-replicas-max-lag`.
const LAG: Duration = Duration::from_secs(10);
/// Fewest sentinels, of which one may be lost.
const SENTINELS: usize = 3;

pub(super) fn check(observed: &Observations, facts: &Facts, findings: &mut Findings) {
    let severity = match facts.topology {
        Topology::Quorum { .. } if has_majority(facts) => Warning,
        _ => Error,
    };
    for server in &facts.servers {
        if let Err(trouble) = &server.report {
            unreachable(&server.server, trouble, severity, findings);
        }
    }
    match facts.topology {
        Topology::Memory => {}
        Topology::Single => replicas(observed, facts, findings),
        Topology::Sentinel => {
            sentinels(facts, findings);
            replicas(observed, facts, findings);
        }
        Topology::Cluster => {
            replicas(observed, facts, findings);
            cluster(facts, findings);
        }
        Topology::Quorum { .. } => quorum(observed, facts, findings),
    }
}

fn unreachable(server: &str, trouble: &Trouble, severity: Severity, findings: &mut Findings) {
    let check = Check::of(trouble.cause);
    findings.add(
        severity,
        check,
        server,
        after_subject(server, &trouble.reason),
    );
}

/// Returns each server that answered.
fn answered(facts: &Facts) -> impl Iterator<Item = (&ServerFacts, &ServerReport)> {
    let servers = facts.servers.iter();
    servers.filter_map(|server| Some((server, server.report.as_ref().ok()?)))
}

fn replicas(observed: &Observations, facts: &Facts, findings: &mut Findings) {
    let is_replicated = facts.topology != Topology::Single;
    let needed = usize::try_from(observed.min_replicas()).unwrap_or(usize::MAX);
    for (server, report) in answered(facts) {
        let Some(listed) = &report.replicas else {
            continue;
        };
        let name = &server.server;
        let is_well = |lag: Option<Duration>| lag.is_none_or(|lag| lag <= LAG);
        let well = listed.iter().filter(|it| it.is_online && is_well(it.lag));
        let well = well.count();
        let known = server.known_replicas.unwrap_or(0).max(listed.len());
        let wanted =
            usize::try_from(report.min_replicas_to_write.unwrap_or(0)).unwrap_or(usize::MAX);
        if well < needed {
            let what = format!(
                "coordinators wait for {needed} replicas, and {well} are in step: nothing is granted"
            );
            findings.add(Error, Check::ReplicaAway, name, what);
        } else if well < wanted {
            let what = format!(
                "it takes writes with {wanted} replicas (min-replicas-to-write), and {well} are in step"
            );
            findings.add(Error, Check::ReplicaAway, name, what);
        } else if well < known {
            let what = format!("{well} of {known} replicas are in step");
            findings.add(Warning, Check::ReplicaAway, name, what);
        } else if is_replicated && known == 0 {
            findings.add(Warning, Check::NoReplica, name, "it has no replica");
        }
        if facts.topology == Topology::Sentinel
            && report.min_replicas_to_write == Some(0)
            && needed == 0
        {
            let what = "it takes writes without any replica, and coordinators wait for none";
            findings.add(Warning, Check::MinReplicasToWrite, name, what);
        }
    }
}

fn sentinels(facts: &Facts, findings: &mut Findings) {
    let told: Vec<_> = facts
        .sentinels
        .iter()
        .filter_map(|it| it.report.as_ref().ok())
        .collect();
    for sentinel in &facts.sentinels {
        if let Err(trouble) = &sentinel.report {
            if told.is_empty() {
                unreachable(&sentinel.sentinel, trouble, Error, findings);
            } else {
                findings.add(
                    Warning,
                    Check::SentinelAway,
                    &sentinel.sentinel,
                    after_subject(&sentinel.sentinel, &trouble.reason),
                );
            }
        }
    }
    let masters: BTreeSet<&str> = told.iter().map(|report| report.master.as_str()).collect();
    if masters.len() > 1 {
        let masters = masters.into_iter().collect::<Vec<_>>().join(" and ");
        let what = format!("they name {masters} as the master");
        findings.add(Error, Check::SentinelsDisagree, "sentinels", what);
    }
    let number = told.iter().map(|report| report.others + 1).max();
    if let Some(number) = number.filter(|number| *number < SENTINELS) {
        let what = format!("the sentinels know of {number}");
        findings.add(Warning, Check::FewSentinels, "sentinels", what);
    }
}

fn cluster(facts: &Facts, findings: &mut Findings) {
    if let Some(cluster) = &facts.cluster {
        if cluster.unserved_slots > 0 {
            let what = format!("no master serves {} of 16384 slots", cluster.unserved_slots);
            findings.add(Error, Check::ClusterSlots, "cluster", what);
        }
        // The master of a replica that fails has told of it.
        let is_told = findings.has(Check::ReplicaAway);
        for node in &cluster.failing {
            let (severity, what) = match node.serves_slots {
                true => (Error, "the other nodes take this master for failed"),
                false if is_told => continue,
                false => (Warning, "the other nodes take it for failed"),
            };
            findings.add(severity, Check::ClusterNodeAway, &node.address, what);
        }
    }
    let covered = answered(facts).filter(|(_, report)| report.requires_full_coverage == Some(true));
    let nodes: Vec<_> = covered.map(|(server, _)| server.server.as_str()).collect();
    if !nodes.is_empty() {
        let what = "cluster-require-full-coverage is yes";
        findings.add(Note, Check::FullCoverage, nodes.join(", "), what);
    }
}

/// Returns whether a majority of the masters votes, or would if a coordinator used them.
fn has_majority(facts: &Facts) -> bool {
    let voters = answered(facts).filter(|(_, report)| {
        matches!(report.vote, None | Some(Vote::Unused | Vote::Votes { .. }))
    });
    voters.count() > facts.servers.len() / 2
}

fn quorum(observed: &Observations, facts: &Facts, findings: &mut Findings) {
    let number = facts.servers.len();
    if number.is_multiple_of(2) {
        let what = format!("there are {number} masters");
        findings.add(Note, Check::QuorumSize, "quorum", what);
    }
    let severity = if has_majority(facts) { Warning } else { Error };
    let is_used =
        answered(facts).any(|(_, report)| !matches!(report.vote, None | Some(Vote::Unused)));
    let mut holds = BTreeSet::new();
    for (server, report) in answered(facts) {
        let what = match report.vote {
            Some(Vote::Waits { hold, left }) => {
                holds.insert(hold);
                format!(
                    "it has no vote for another {}, because coordinators have not seen it run for long enough",
                    text(left)
                )
            }
            Some(Vote::Votes { hold }) => {
                holds.insert(hold);
                continue;
            }
            Some(Vote::Unused) if is_used => {
                "it has no vote: no coordinator knows it, although others are in use".to_owned()
            }
            // The check of its disk names it.
            Some(Vote::NotDurable | Vote::Unused) | None => continue,
        };
        findings.add(severity, Check::QuorumStanding, &server.server, what);
    }
    // The longest hold is a TTL, and a lock-delay of as much.
    let asked = observed.settings.iter().map(|settings| settings.ttl[2] * 2);
    holds.extend(asked);
    if holds.len() > 1 && !findings.has(Check::TtlBoundsDiffer) {
        let holds = holds.into_iter().map(|hold| text(hold / 2));
        let what = format!(
            "masters and coordinators have the max-ttl {}",
            holds.collect::<Vec<_>>().join(" and ")
        );
        findings.add(Error, Check::TtlBoundsDiffer, "quorum", what);
    }
}

//! Each Redis server by itself: version, memory, disk, and the rights of the store's user.

use leasehold_store::{
    examine::facts::{Facts, ServerReport, Topology},
    redis::status::after_subject,
};

use super::coordinators::near;
use crate::{
    check::Check,
    finding::{
        Findings,
        Severity::{Error, Note, Warning},
    },
    observed::Limit,
};

/// Oldest version of Redis that has all commands.
const OLDEST: (u64, u64) = (6, 2);
/// Version from which on a cluster has sharded channels.
const SHARDED: (u64, u64) = (7, 0);

pub(super) fn check(facts: &Facts, findings: &mut Findings) {
    for server in &facts.servers {
        if let Ok(report) = &server.report {
            version(&server.server, report, facts.topology, findings);
            memory(&server.server, report, findings);
            disk(&server.server, report, facts.topology, findings);
            rights(&server.server, report, facts.topology, findings);
            refuses(&server.server, report, findings);
        }
    }
}

fn version(server: &str, report: &ServerReport, topology: Topology, findings: &mut Findings) {
    let Some(text) = &report.version else {
        return;
    };
    let mut numbers = text.split('.').map_while(|part| part.parse().ok());
    let (Some(major), Some(minor)) = (numbers.next(), numbers.next()) else {
        return;
    };
    if (major, minor) < OLDEST {
        let what = format!("its version is {text}, and coordinators need 6.2");
        findings.add(Error, Check::RedisTooOld, server, what);
    } else if topology == Topology::Cluster && (major, minor) < SHARDED {
        let what = format!(
            "its version is {text}: without sharded channels, every node carries all messages to watchers"
        );
        findings.add(Note, Check::RedisTooOld, server, what);
    }
}

fn memory(server: &str, report: &ServerReport, findings: &mut Findings) {
    if let Some(policy) = report.maxmemory_policy.as_deref()
        && policy != "noeviction"
    {
        let (severity, bound) = match report.maxmemory {
            Some(bytes) => (Error, format!("maxmemory is {bytes} bytes")),
            None => (Warning, "there is no maxmemory yet".to_owned()),
        };
        let what = format!("its maxmemory-policy is {policy}, and {bound}");
        findings.add(severity, Check::Evicts, server, what);
    } else if report.maxmemory_policy.is_none() {
        let what = "its maxmemory-policy can't be known, as the store's user may ask neither INFO nor CONFIG GET";
        findings.add(Note, Check::Evicts, server, what);
    }
    for (name, used, limit) in [
        ("maxmemory (bytes)", report.used_memory, report.maxmemory),
        ("maxclients", report.clients, report.max_clients),
    ] {
        if let (Some(used), Some(limit)) = (used, limit) {
            let name = name.to_owned();
            near(server, &Limit { name, used, limit }, findings);
        }
    }
}

fn disk(server: &str, report: &ServerReport, topology: Topology, findings: &mut Findings) {
    let writes = report.appendonly;
    let syncs = report.appendfsync.as_deref();
    let is_durable = match topology {
        Topology::Quorum { durable } => durable,
        _ => false,
    };
    if is_durable {
        if writes == Some(false) || syncs.is_some_and(|syncs| syncs != "always") {
            let shown = |writes: bool| if writes { "yes" } else { "no" };
            let what = format!(
                "it has appendonly {} and appendfsync {}",
                writes.map_or("unknown", shown),
                syncs.unwrap_or("unknown")
            );
            findings.add(Error, Check::QuorumNotDurable, server, what);
        }
    } else if writes == Some(false) {
        let snapshots = match report.snapshots {
            Some(true) => "; its snapshots have only what was there at their time",
            _ => "",
        };
        let what = format!("it has appendonly no{snapshots}");
        findings.add(Warning, Check::NoPersistence, server, what);
    } else if topology == Topology::Single && syncs.is_some_and(|syncs| syncs != "always") {
        let what = format!("it has appendfsync {}", syncs.unwrap_or_default());
        findings.add(Note, Check::PersistenceLags, server, what);
    }
    if report.disk_works == Some(false) {
        let what = "its last write to disk failed";
        findings.add(Error, Check::DiskFails, server, what);
    }
}

fn rights(server: &str, report: &ServerReport, topology: Topology, findings: &mut Findings) {
    let needs = |rule: &str| match topology {
        Topology::Quorum { durable } => {
            matches!(rule, "+info" | "INFO")
                || durable && matches!(rule, "+config|get" | "CONFIG GET")
        }
        _ => false,
    };
    for (is_unknown, check, lacks) in [
        (true, Check::CommandMissing, "it does not know"),
        (false, Check::RedisPermission, "the store's user lacks"),
    ] {
        let refused = report.refused.iter();
        let (needed, wanted): (Vec<_>, Vec<_>) = refused
            .filter(|refusal| refusal.is_unknown == is_unknown)
            .partition(|refusal| refusal.is_needed || needs(&refusal.rule));
        let list = |refusals: Vec<&leasehold_store::examine::facts::Refusal>| {
            let rules = refusals.into_iter().map(|refusal| refusal.rule.as_str());
            rules
                .collect::<Vec<_>>()
                .join(if is_unknown { ", " } else { " " })
        };
        if !needed.is_empty() {
            let what = format!("{lacks} {}", list(needed));
            findings.add(Error, check, server, what);
        }
        if !wanted.is_empty() {
            let wanted = list(wanted);
            let what = format!("{lacks} {wanted}, which coordinators can do without");
            findings.add(Note, check, server, what);
        }
    }
}

/// Names what the server refuses to any user, unless another rule has found the cause.
fn refuses(server: &str, report: &ServerReport, findings: &mut Findings) {
    for trouble in &report.refuses {
        let check = Check::of(trouble.cause);
        if !findings.has_error(check, server) {
            findings.add(Error, check, server, after_subject(server, &trouble.reason));
        }
    }
}

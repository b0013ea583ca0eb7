//! Settings that all coordinators of a store must share.

use std::collections::BTreeSet;

use leasehold_store::examine::facts::Topology;

use crate::{
    check::Check,
    duration::text,
    finding::{
        Findings,
        Severity::{self, Error, Note, Warning},
    },
    observed::{Observations, Settings},
};

pub(super) fn check(observed: &Observations, findings: &mut Findings) {
    let facts = observed.store.as_ref().map(|store| &store.facts);
    let is_quorum = facts.is_some_and(|facts| matches!(facts.topology, Topology::Quorum { .. }))
        || observed
            .settings
            .iter()
            .any(|it| Place::of(&it.store).scheme == "redis+quorum");
    let severity = if is_quorum { Error } else { Warning };
    compare(
        observed,
        severity,
        Check::TtlBoundsDiffer,
        findings,
        |settings| {
            let [min, default, max] = settings.ttl.map(text);
            format!("TTLs from {min} to {max}, {default} by default")
        },
    );
    compare(
        observed,
        Error,
        Check::PrefixesDiffer,
        findings,
        |settings| format!("the key-prefix {:?}", settings.key_prefix),
    );
    compare(
        observed,
        Warning,
        Check::MinReplicasDiffer,
        findings,
        |settings| format!("min-replicas {}", settings.min_replicas),
    );
    stores(observed, findings);
}

/// Names the first two coordinators that differ.
fn compare(
    observed: &Observations,
    severity: Severity,
    check: Check,
    findings: &mut Findings,
    shown: impl Fn(&Settings) -> String,
) {
    let mut all = observed.settings.iter();
    let Some(first) = all.next() else {
        return;
    };
    let expected = shown(first);
    if let Some(other) = all.find(|other| shown(other) != expected) {
        let what = format!(
            "{} has {expected}, and {} has {}",
            first.of,
            other.of,
            shown(other)
        );
        findings.add(severity, check, "coordinators", what);
    }
}

fn stores(observed: &Observations, findings: &mut Findings) {
    let given = observed.store.as_ref().map(|store| Place::of(&store.url));
    let mut all = observed
        .settings
        .iter()
        .map(|settings| (settings.of.as_str(), &settings.store));
    let Some((first, store)) = all.next() else {
        return;
    };
    let place = Place::of(store);
    if place.scheme == "memory" && observed.settings.len() > 1 {
        let what =
            "there are several coordinators, and one has the store memory:, which no other can use";
        findings.add(Error, Check::StoresDiffer, first, what);
        return;
    }
    for (other, its) in all {
        if let Some(severity) = place.differs(&Place::of(its)) {
            let what = format!("{first} has the store {store}, and {other} has {its}");
            findings.add(severity, Check::StoresDiffer, "coordinators", what);
            break;
        }
    }
    if let Some(severity) = given.and_then(|given| given.differs(&place)) {
        // It matters to what this program found, and to no lock.
        let severity = match severity {
            Error => Warning,
            _ => Note,
        };
        let what = format!(
            "the URL given here leads elsewhere than that of {first}, {store}, unless both name the same servers differently"
        );
        findings.add(severity, Check::StoresDiffer, "this program", what);
    }
}

/// Place to which the URL of a store leads, without logins and parameters.
#[derive(Debug, PartialEq, Eq)]
struct Place {
    /// Without the `s` of TLS.
    scheme: String,
    hosts: BTreeSet<String>,
    /// The name of the master, and the database.
    path: String,
}

impl Place {
    fn of(url: &str) -> Self {
        let (scheme, rest) = url.split_once(':').unwrap_or((url, ""));
        let rest = rest.trim_start_matches('/');
        // A password has none of these unless it is encoded.
        let rest = rest.split('?').next().unwrap_or_default();
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        let hosts = authority.rsplit('@').next().unwrap_or_default();
        let port = if scheme.ends_with("+sentinel") {
            26_379
        } else {
            6_379
        };
        let with_port = |host: &str| match host.rsplit_once(':') {
            Some((_, port))
                if port.bytes().all(|byte| byte.is_ascii_digit()) && !host.ends_with(']') =>
            {
                host.to_owned()
            }
            _ => format!("{host}:{port}"),
        };
        let hosts = hosts.split(',').filter(|host| !host.is_empty());
        let path = path.trim_end_matches('/');
        Self {
            scheme: scheme.to_ascii_lowercase().replacen("rediss", "redis", 1),
            hosts: hosts
                .map(|host| with_port(&host.to_ascii_lowercase()))
                .collect(),
            path: path
                .strip_suffix("/0")
                .or(path.strip_suffix('0').filter(|rest| rest.is_empty()))
                .unwrap_or(path)
                .to_owned(),
        }
    }

    /// Returns whether both lead to different places: surely, or as it seems. Sentinels and nodes of a cluster find one another,
    /// so that lists which share a server lead to the same place; the masters of a quorum must all be the same.
    fn differs(&self, other: &Self) -> Option<Severity> {
        if self == other {
            return None;
        }
        let is_certain = self.scheme != other.scheme || self.path != other.path;
        let find_others = ["redis+sentinel", "redis+cluster"].contains(&&*self.scheme);
        match self.hosts.is_disjoint(&other.hosts) {
            _ if is_certain => Some(Error),
            false if find_others => None,
            false => Some(Error),
            // They may be other names of the same servers.
            true => Some(Warning),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_of_one_place_are_alike() {
        for (one, other, expected) in [
            ("redis://h", "redis://:***@H:6379/0", None),
            ("redis://h/1", "redis://h", Some(Error)),
            ("redis://h/10", "redis://h/1", Some(Error)),
            ("redis://h", "rediss://u:p@h", None),
            ("redis://h", "redis://i", Some(Warning)),
            ("redis://[::1]", "redis://[::1]:6379", None),
            (
                "redis+sentinel://a,b/m?x=y",
                "redis+sentinel://b:26379,c/m/0",
                None,
            ),
            (
                "redis+sentinel://a,b/m",
                "redis+sentinel://a,b/n",
                Some(Error),
            ),
            ("redis+cluster://a,b", "redis+cluster://b,c", None),
            (
                "redis+quorum://a,b,c",
                "redis+quorum://c,b,a?durable=***",
                None,
            ),
            ("redis+quorum://a,b,c", "redis+quorum://a,b,d", Some(Error)),
            ("redis+quorum://a,b,c", "redis+cluster://a,b,c", Some(Error)),
            ("memory:", "memory:", None),
        ] {
            let differs = Place::of(one).differs(&Place::of(other));
            assert_eq!(differs, expected, "{one} {other}");
        }
    }
}

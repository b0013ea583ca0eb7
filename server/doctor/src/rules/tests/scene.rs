//! Healthy deployments, and changes of them.

use super::*;

pub(super) const DAY: Duration = Duration::from_secs(24 * 60 * 60);
pub(super) const SINGLE: Topology = Topology::Single;
pub(super) const QUORUM: Topology = Topology::Quorum { durable: true };

pub(super) fn now() -> SystemTime {
    UNIX_EPOCH + DAY * 20_000
}

pub(super) fn clock(ahead: i64) -> Clock {
    Clock { ahead, within: 500 }
}

pub(super) fn coordinator(name: &str) -> Coordinator {
    let status = Status {
        id: format!("{name}-0123"),
        version: "0.4.1".to_owned(),
        is_serving: true,
        clock: Some(clock(200)),
        identity: Some("token:ops".to_owned()),
        permissions: vec![Permission {
            name: "inspect".to_owned(),
            locks: vec![String::new()],
            elections: Vec::new(),
        }],
        sees_all: true,
        limits: vec![Limit {
            name: "max-sessions".to_owned(),
            used: 79,
            limit: 100,
        }],
        certificates: vec![Certificate {
            purpose: "server".to_owned(),
            expires: now() + DAY * 14,
        }],
        ..Status::default()
    };
    Coordinator {
        address: name.to_owned(),
        answer: Ok(status),
    }
}

pub(super) fn server(number: usize, topology: Topology) -> ServerFacts {
    let is_replicated = matches!(topology, Topology::Sentinel | Topology::Cluster);
    let replica = ReplicaFacts {
        address: "r:1".to_owned(),
        is_online: true,
        lag: Some(Duration::from_secs(1)),
    };
    let replicas = if is_replicated {
        vec![replica; 2]
    } else {
        Vec::new()
    };
    let report = ServerReport {
        version: Some("7.2.0".to_owned()),
        clock: Some(clock(-900)),
        maxmemory_policy: Some("noeviction".to_owned()),
        used_memory: Some(79),
        maxmemory: Some(100),
        clients: Some(5),
        max_clients: Some(10_000),
        appendonly: Some(true),
        appendfsync: Some("always".to_owned()),
        snapshots: Some(false),
        disk_works: Some(true),
        min_replicas_to_write: Some(u64::from(topology == Topology::Sentinel)),
        requires_full_coverage: (topology == Topology::Cluster).then_some(false),
        vote: matches!(topology, Topology::Quorum { .. }).then_some(Vote::Votes {
            hold: Duration::from_secs(120),
        }),
        replicas: Some(replicas),
        certificate_expires: Some(now() + DAY * 14),
        refused: Vec::new(),
        refuses: Vec::new(),
    };
    ServerFacts {
        server: format!("Redis {number}"),
        known_replicas: is_replicated.then_some(2),
        report: Ok(report),
    }
}

pub(super) fn healthy(topology: Topology) -> Observations {
    let (url, servers) = match topology {
        Topology::Memory => ("memory:", 0),
        Topology::Single => ("redis://h", 1),
        Topology::Sentinel => ("redis+sentinel://a,b,c/m", 1),
        Topology::Cluster => ("redis+cluster://a,b,c", 3),
        Topology::Quorum { .. } => ("redis+quorum://a,b,c?durable=true", 3),
    };
    let sentinel = |number| SentinelFacts {
        sentinel: format!("the sentinel {number}"),
        report: Ok(SentinelReport {
            master: "h:6379".to_owned(),
            replicas: 2,
            others: 2,
            quorum: 2,
            certificate_expires: Some(now() + DAY * 14),
        }),
    };
    let standby = |number| StandbyFacts {
        server: format!("Redis {number}, a replica"),
        certificate_expires: now() + DAY * 14,
    };
    let sentinels = if topology == Topology::Sentinel { 3 } else { 0 };
    let settings = |of: &str| Settings {
        of: of.to_owned(),
        store: url.to_owned(),
        key_prefix: "lock:".to_owned(),
        ttl: [1, 10, 60].map(Duration::from_secs),
        min_replicas: 0,
    };
    let names = if topology == Topology::Memory {
        &["c1"][..]
    } else {
        &["c1", "c2"]
    };
    Observations {
        coordinators: names.iter().map(|name| coordinator(name)).collect(),
        settings: names.iter().map(|name| settings(name)).collect(),
        files: [FileEnds::Chain, FileEnds::Authorities]
            .map(|ends| CertificateFile {
                name: "client.pem (--cert)".to_owned(),
                ends: ends(now() + DAY * 14),
            })
            .into(),
        waiters: vec![Waiter {
            lock: "a".to_owned(),
            coordinator: "c1-0123".to_owned(),
        }],
        store: Some(Store {
            url: url.to_owned(),
            facts: Facts {
                topology,
                servers: (0..servers)
                    .map(|number| server(number, topology))
                    .collect(),
                sentinels: (0..sentinels).map(sentinel).collect(),
                standbys: (0..servers).map(standby).collect(),
                cluster: (topology == Topology::Cluster).then(ClusterFacts::default),
            },
        }),
        ..Observations::new(now(), "0.4.0")
    }
}

pub(super) fn status(observed: &mut Observations) -> &mut Status {
    observed.coordinators[0].answer.as_mut().unwrap()
}

pub(super) fn facts(observed: &mut Observations) -> &mut Facts {
    &mut observed.store.as_mut().unwrap().facts
}

pub(super) fn report(observed: &mut Observations) -> &mut ServerReport {
    facts(observed).servers[0].report.as_mut().unwrap()
}

pub(super) fn fails(observed: &mut Observations, cause: DownCause) {
    facts(observed).servers[0].report = Err(trouble(cause));
}

pub(super) fn trouble(cause: DownCause) -> Trouble {
    Trouble {
        cause,
        reason: "for a reason".to_owned(),
    }
}

pub(super) fn refuses(observed: &mut Observations, rule: &str, is_needed: bool) {
    let rule = rule.to_owned();
    let is_unknown = !rule.starts_with('+');
    report(observed).refused = vec![Refusal {
        rule,
        is_unknown,
        is_needed,
    }];
}

pub(super) fn waits(observed: &mut Observations, masters: usize) {
    for server in &mut facts(observed).servers[..masters] {
        server.report.as_mut().unwrap().vote = Some(Vote::Waits {
            hold: Duration::from_secs(120),
            left: Duration::from_secs(60),
        });
    }
}

pub(super) fn none(is_refusal: bool) -> NoAnswer {
    NoAnswer {
        reason: "for a reason".to_owned(),
        is_refusal,
    }
}

pub(super) fn no_replica(observed: &mut Observations) {
    report(observed).replicas = Some(Vec::new());
    report(observed).min_replicas_to_write = None;
    facts(observed).servers[0].known_replicas = Some(0);
}

pub(super) fn fails_in_cluster(observed: &mut Observations, serves_slots: bool) {
    facts(observed).cluster.as_mut().unwrap().failing = vec![FailingNode {
        address: "h:7".to_owned(),
        serves_slots,
    }];
}

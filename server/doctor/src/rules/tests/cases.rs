//! Faults, and the finding of each.

use std::time::Duration;

use leasehold_store::{
    examine::facts::{Topology, Vote},
    redis::status::DownCause,
};

use super::scene::*;
use crate::{
    Check,
    Severity::{self, Error, Note, Warning},
    observed::Observations,
};

/// Change of a healthy deployment, and the one finding that it makes.
pub(super) type Case = (Topology, fn(&mut Observations), Check, Severity);

pub(super) const CASES: &[Case] = &[
    (
        SINGLE,
        |it| it.coordinators[0].answer = Err(none(false)),
        Check::CoordinatorUnreachable,
        Error,
    ),
    (
        SINGLE,
        |it| it.coordinators[1].answer = Err(none(true)),
        Check::CoordinatorRefuses,
        Error,
    ),
    (
        SINGLE,
        |it| status(it).is_serving = false,
        Check::CoordinatorNotServing,
        Error,
    ),
    (
        SINGLE,
        |it| {
            status(it).is_serving = false;
            status(it).is_draining = true;
        },
        Check::CoordinatorDraining,
        Warning,
    ),
    (
        SINGLE,
        |it| fails(it, DownCause::Unreachable),
        Check::StoreUnreachable,
        Error,
    ),
    (
        QUORUM,
        |it| fails(it, DownCause::TimedOut),
        Check::StoreUnreachable,
        Warning,
    ),
    (
        SINGLE,
        |it| fails(it, DownCause::Login),
        Check::StoreRefuses,
        Error,
    ),
    (
        SINGLE,
        |it| fails(it, DownCause::NotMaster),
        Check::StoreUnusable,
        Error,
    ),
    (
        SINGLE,
        |it| status(it).version = "0.5.0".to_owned(),
        Check::VersionsDiffer,
        Note,
    ),
    (
        SINGLE,
        |it| it.version = "0.3.9".to_owned(),
        Check::VersionsDiffer,
        Note,
    ),
    (
        SINGLE,
        |it| status(it).version = "0.2.9".to_owned(),
        Check::VersionTooOld,
        Error,
    ),
    (
        SINGLE,
        |it| it.version = "0.6.0".to_owned(),
        Check::VersionTooOld,
        Error,
    ),
    (
        SINGLE,
        |it| it.version = "1.0.0".to_owned(),
        Check::VersionTooOld,
        Error,
    ),
    (
        SINGLE,
        |it| status(it).clock = None,
        Check::VersionTooOld,
        Warning,
    ),
    (
        SINGLE,
        |it| report(it).version = Some("6.0.16".to_owned()),
        Check::RedisTooOld,
        Error,
    ),
    (
        Topology::Cluster,
        |it| report(it).version = Some("6.2.7".to_owned()),
        Check::RedisTooOld,
        Note,
    ),
    (
        SINGLE,
        |it| report(it).clock = Some(clock(3_600_000_000)),
        Check::ClockDrift,
        Error,
    ),
    (
        QUORUM,
        |it| report(it).clock = Some(clock(-2_000_000)),
        Check::ClockDrift,
        Warning,
    ),
    (
        SINGLE,
        |it| status(it).clock = Some(clock(1_100_000)),
        Check::ClockDrift,
        Warning,
    ),
    (
        SINGLE,
        |it| report(it).appendonly = Some(false),
        Check::NoPersistence,
        Warning,
    ),
    (
        Topology::Quorum { durable: false },
        |it| report(it).appendonly = Some(false),
        Check::NoPersistence,
        Warning,
    ),
    (
        SINGLE,
        |it| report(it).appendfsync = Some("everysec".to_owned()),
        Check::PersistenceLags,
        Note,
    ),
    (
        QUORUM,
        |it| report(it).appendfsync = Some("everysec".to_owned()),
        Check::QuorumNotDurable,
        Error,
    ),
    (
        QUORUM,
        |it| report(it).appendonly = Some(false),
        Check::QuorumNotDurable,
        Error,
    ),
    (
        SINGLE,
        |it| report(it).disk_works = Some(false),
        Check::DiskFails,
        Error,
    ),
    (
        SINGLE,
        |it| report(it).maxmemory_policy = Some("allkeys-lru".to_owned()),
        Check::Evicts,
        Error,
    ),
    (
        SINGLE,
        |it| {
            report(it).maxmemory_policy = Some("allkeys-lru".to_owned());
            report(it).maxmemory = None;
        },
        Check::Evicts,
        Warning,
    ),
    (
        SINGLE,
        |it| status(it).limits[0].used = 80,
        Check::LimitNear,
        Warning,
    ),
    (
        SINGLE,
        |it| status(it).limits[0].used = 100,
        Check::LimitNear,
        Error,
    ),
    (
        SINGLE,
        |it| report(it).used_memory = Some(80),
        Check::LimitNear,
        Warning,
    ),
    (
        SINGLE,
        |it| report(it).clients = Some(9_000),
        Check::LimitNear,
        Warning,
    ),
    (
        SINGLE,
        |it| refuses(it, "+get", true),
        Check::RedisPermission,
        Error,
    ),
    (
        SINGLE,
        |it| refuses(it, "+info", false),
        Check::RedisPermission,
        Note,
    ),
    (
        QUORUM,
        |it| refuses(it, "+info", false),
        Check::RedisPermission,
        Error,
    ),
    (
        Topology::Sentinel,
        |it| {
            report(it).replicas.as_mut().unwrap().pop();
        },
        Check::ReplicaAway,
        Warning,
    ),
    (
        Topology::Sentinel,
        |it| report(it).replicas.as_mut().unwrap()[0].is_online = false,
        Check::ReplicaAway,
        Warning,
    ),
    (
        Topology::Cluster,
        |it| report(it).replicas.as_mut().unwrap()[1].lag = Some(Duration::from_secs(11)),
        Check::ReplicaAway,
        Warning,
    ),
    (
        Topology::Sentinel,
        |it| it.settings.iter_mut().for_each(|it| it.min_replicas = 3),
        Check::ReplicaAway,
        Error,
    ),
    (
        Topology::Sentinel,
        |it| report(it).min_replicas_to_write = Some(3),
        Check::ReplicaAway,
        Error,
    ),
    (Topology::Sentinel, no_replica, Check::NoReplica, Warning),
    (
        Topology::Sentinel,
        |it| report(it).min_replicas_to_write = Some(0),
        Check::MinReplicasToWrite,
        Warning,
    ),
    (
        Topology::Sentinel,
        |it| facts(it).sentinels[0].report = Err(trouble(DownCause::TimedOut)),
        Check::SentinelAway,
        Warning,
    ),
    (
        Topology::Sentinel,
        |it| facts(it).sentinels[0].report.as_mut().unwrap().master = "i:1".to_owned(),
        Check::SentinelsDisagree,
        Error,
    ),
    (
        Topology::Sentinel,
        |it| {
            facts(it)
                .sentinels
                .iter_mut()
                .for_each(|it| it.report.as_mut().unwrap().others = 1)
        },
        Check::FewSentinels,
        Warning,
    ),
    (
        Topology::Cluster,
        |it| facts(it).cluster.as_mut().unwrap().unserved_slots = 1,
        Check::ClusterSlots,
        Error,
    ),
    (
        Topology::Cluster,
        |it| fails_in_cluster(it, true),
        Check::ClusterNodeAway,
        Error,
    ),
    (
        Topology::Cluster,
        |it| fails_in_cluster(it, false),
        Check::ClusterNodeAway,
        Warning,
    ),
    (
        Topology::Cluster,
        |it| {
            fails_in_cluster(it, false);
            report(it).replicas.as_mut().unwrap().pop();
        },
        Check::ReplicaAway,
        Warning,
    ),
    (
        Topology::Cluster,
        |it| report(it).requires_full_coverage = Some(true),
        Check::FullCoverage,
        Note,
    ),
    (QUORUM, |it| waits(it, 1), Check::QuorumStanding, Warning),
    (QUORUM, |it| waits(it, 2), Check::QuorumStanding, Error),
    (
        QUORUM,
        |it| report(it).vote = Some(Vote::Unused),
        Check::QuorumStanding,
        Warning,
    ),
    (
        QUORUM,
        |it| {
            let server = server(3, QUORUM);
            facts(it).servers.push(server);
        },
        Check::QuorumSize,
        Note,
    ),
    (
        SINGLE,
        |it| it.settings[1].ttl[1] = Duration::from_secs(11),
        Check::TtlBoundsDiffer,
        Warning,
    ),
    (
        QUORUM,
        |it| it.settings[1].ttl[0] = Duration::from_secs(2),
        Check::TtlBoundsDiffer,
        Error,
    ),
    (
        QUORUM,
        |it| {
            it.settings
                .iter_mut()
                .for_each(|it| it.ttl[2] = Duration::from_secs(61))
        },
        Check::TtlBoundsDiffer,
        Error,
    ),
    (
        SINGLE,
        |it| it.settings[0].key_prefix = String::new(),
        Check::PrefixesDiffer,
        Error,
    ),
    (
        SINGLE,
        |it| it.settings[1].store = "redis://h/1".to_owned(),
        Check::StoresDiffer,
        Error,
    ),
    (
        SINGLE,
        |it| it.store.as_mut().unwrap().url = "redis://:secret@i".to_owned(),
        Check::StoresDiffer,
        Note,
    ),
    (
        SINGLE,
        |it| it.store.as_mut().unwrap().url = "redis://h/7".to_owned(),
        Check::StoresDiffer,
        Warning,
    ),
    (
        Topology::Sentinel,
        |it| it.settings[1].min_replicas = 1,
        Check::MinReplicasDiffer,
        Warning,
    ),
    (
        SINGLE,
        |it| it.waiters[0].coordinator = "c3-0123".to_owned(),
        Check::StrayWaiters,
        Warning,
    ),
    (
        SINGLE,
        |it| {
            it.coordinators
                .iter_mut()
                .for_each(|it| it.answer.as_mut().unwrap().sees_all = false)
        },
        Check::Permissions,
        Note,
    ),
    (
        SINGLE,
        |it| {
            it.coordinators
                .iter_mut()
                .for_each(|it| it.answer.as_mut().unwrap().permissions.clear())
        },
        Check::Permissions,
        Warning,
    ),
    (
        SINGLE,
        |it| status(it).permissions[0].locks[0] = "a/".to_owned(),
        Check::PermissionsDiffer,
        Warning,
    ),
];

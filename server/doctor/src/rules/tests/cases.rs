//! Faults, and the finding of each.

use super::*;

/// The one finding that a change of a healthy deployment makes, and the change.
pub(super) type Case = (Topology, Check, Severity, fn(&mut Observations));

pub(super) const CASES: &[Case] = &[
    (SINGLE, Check::CoordinatorUnreachable, Error, |it| {
        it.coordinators[0].answer = Err(none(false))
    }),
    (SINGLE, Check::CoordinatorRefuses, Error, |it| {
        it.coordinators[1].answer = Err(none(true))
    }),
    (SINGLE, Check::CoordinatorNotServing, Error, |it| {
        status(it).is_serving = false
    }),
    (SINGLE, Check::CoordinatorDraining, Warning, |it| {
        status(it).is_serving = false;
        status(it).is_draining = true;
    }),
    (SINGLE, Check::StoreUnreachable, Error, |it| {
        fails(it, DownCause::Unreachable)
    }),
    (QUORUM, Check::StoreUnreachable, Warning, |it| {
        fails(it, DownCause::TimedOut)
    }),
    (SINGLE, Check::StoreRefuses, Error, |it| {
        fails(it, DownCause::Login)
    }),
    (SINGLE, Check::CommandsRefused, Error, |it| {
        status(it).reason = Some("Redis is out of memory".to_owned())
    }),
    (SINGLE, Check::StoreUnusable, Error, |it| {
        fails(it, DownCause::NotRedis)
    }),
    (SINGLE, Check::WrongKind, Error, |it| {
        fails(it, DownCause::WrongKind)
    }),
    (SINGLE, Check::CertificateWanted, Error, |it| {
        fails(it, DownCause::CertificateWanted)
    }),
    (SINGLE, Check::StoreLoading, Error, |it| {
        fails(it, DownCause::Loading)
    }),
    (SINGLE, Check::StoreIsReplica, Error, |it| {
        fails(it, DownCause::NotMaster)
    }),
    (SINGLE, Check::StoreBusy, Error, |it| {
        fails(it, DownCause::Busy)
    }),
    (SINGLE, Check::TooManyClients, Error, |it| {
        fails(it, DownCause::Full)
    }),
    (SINGLE, Check::OutOfMemory, Error, |it| {
        report(it).refuses = vec![trouble(DownCause::OutOfMemory)]
    }),
    (SINGLE, Check::CommandMissing, Error, |it| {
        refuses(it, "EVALSHA", true)
    }),
    (SINGLE, Check::CommandMissing, Note, |it| {
        refuses(it, "CONFIG GET", false)
    }),
    // Found once, though both tell of it.
    (SINGLE, Check::DiskFails, Error, |it| {
        report(it).disk_works = Some(false);
        report(it).refuses = vec![trouble(DownCause::DiskFails)];
    }),
    (SINGLE, Check::Evicts, Note, |it| {
        report(it).maxmemory_policy = None
    }),
    (SINGLE, Check::VersionsDiffer, Note, |it| {
        status(it).version = "0.5.0".to_owned()
    }),
    (SINGLE, Check::VersionsDiffer, Note, |it| {
        it.version = "0.3.9".to_owned()
    }),
    (SINGLE, Check::VersionTooOld, Error, |it| {
        status(it).version = "0.2.9".to_owned()
    }),
    (SINGLE, Check::VersionTooOld, Error, |it| {
        it.version = "0.6.0".to_owned()
    }),
    (SINGLE, Check::VersionTooOld, Error, |it| {
        it.version = "1.0.0".to_owned()
    }),
    (SINGLE, Check::VersionTooOld, Warning, |it| {
        status(it).clock = None
    }),
    (SINGLE, Check::RedisTooOld, Error, |it| {
        report(it).version = Some("6.0.16".to_owned())
    }),
    (Topology::Cluster, Check::RedisTooOld, Note, |it| {
        report(it).version = Some("6.2.7".to_owned())
    }),
    (SINGLE, Check::ClockDrift, Error, |it| {
        report(it).clock = Some(clock(3_600_000_000))
    }),
    (QUORUM, Check::ClockDrift, Warning, |it| {
        report(it).clock = Some(clock(-2_000_000))
    }),
    (SINGLE, Check::ClockDrift, Warning, |it| {
        status(it).clock = Some(clock(1_100_000))
    }),
    (SINGLE, Check::NoPersistence, Warning, |it| {
        report(it).appendonly = Some(false)
    }),
    (
        Topology::Quorum { durable: false },
        Check::NoPersistence,
        Warning,
        |it| report(it).appendonly = Some(false),
    ),
    (SINGLE, Check::PersistenceLags, Note, |it| {
        report(it).appendfsync = Some("everysec".to_owned())
    }),
    (QUORUM, Check::QuorumNotDurable, Error, |it| {
        report(it).appendfsync = Some("everysec".to_owned())
    }),
    (QUORUM, Check::QuorumNotDurable, Error, |it| {
        report(it).appendonly = Some(false)
    }),
    (SINGLE, Check::DiskFails, Error, |it| {
        report(it).disk_works = Some(false)
    }),
    (SINGLE, Check::Evicts, Error, |it| {
        report(it).maxmemory_policy = Some("allkeys-lru".to_owned())
    }),
    (SINGLE, Check::Evicts, Warning, |it| {
        report(it).maxmemory_policy = Some("allkeys-lru".to_owned());
        report(it).maxmemory = None;
    }),
    (SINGLE, Check::LimitNear, Warning, |it| {
        status(it).limits[0].used = 80
    }),
    (SINGLE, Check::LimitNear, Error, |it| {
        status(it).limits[0].used = 100
    }),
    (SINGLE, Check::LimitNear, Warning, |it| {
        report(it).used_memory = Some(80)
    }),
    (SINGLE, Check::LimitNear, Warning, |it| {
        report(it).clients = Some(9_000)
    }),
    (SINGLE, Check::RedisPermission, Error, |it| {
        refuses(it, "+get", true)
    }),
    (SINGLE, Check::RedisPermission, Note, |it| {
        refuses(it, "+info", false)
    }),
    (QUORUM, Check::RedisPermission, Error, |it| {
        refuses(it, "+info", false)
    }),
    (Topology::Sentinel, Check::ReplicaAway, Warning, |it| {
        report(it).replicas.as_mut().unwrap().pop();
    }),
    (Topology::Sentinel, Check::ReplicaAway, Warning, |it| {
        report(it).replicas.as_mut().unwrap()[0].is_online = false
    }),
    (Topology::Cluster, Check::ReplicaAway, Warning, |it| {
        report(it).replicas.as_mut().unwrap()[1].lag = Some(Duration::from_secs(11))
    }),
    (Topology::Sentinel, Check::ReplicaAway, Error, |it| {
        it.settings.iter_mut().for_each(|it| it.min_replicas = 3)
    }),
    (Topology::Sentinel, Check::ReplicaAway, Error, |it| {
        report(it).min_replicas_to_write = Some(3)
    }),
    (Topology::Sentinel, Check::NoReplica, Warning, no_replica),
    (
        Topology::Sentinel,
        Check::MinReplicasToWrite,
        Warning,
        |it| report(it).min_replicas_to_write = Some(0),
    ),
    (Topology::Sentinel, Check::SentinelAway, Warning, |it| {
        facts(it).sentinels[0].report = Err(trouble(DownCause::TimedOut))
    }),
    (Topology::Sentinel, Check::SentinelsDisagree, Error, |it| {
        facts(it).sentinels[0].report.as_mut().unwrap().master = "i:1".to_owned()
    }),
    (Topology::Sentinel, Check::FewSentinels, Warning, |it| {
        facts(it)
            .sentinels
            .iter_mut()
            .for_each(|it| it.report.as_mut().unwrap().others = 1)
    }),
    (Topology::Cluster, Check::ClusterSlots, Error, |it| {
        facts(it).cluster.as_mut().unwrap().unserved_slots = 1
    }),
    (Topology::Cluster, Check::ClusterNodeAway, Error, |it| {
        fails_in_cluster(it, true)
    }),
    (Topology::Cluster, Check::ClusterNodeAway, Warning, |it| {
        fails_in_cluster(it, false)
    }),
    (Topology::Cluster, Check::ReplicaAway, Warning, |it| {
        fails_in_cluster(it, false);
        report(it).replicas.as_mut().unwrap().pop();
    }),
    (Topology::Cluster, Check::FullCoverage, Note, |it| {
        report(it).requires_full_coverage = Some(true)
    }),
    (QUORUM, Check::QuorumStanding, Warning, |it| waits(it, 1)),
    (QUORUM, Check::QuorumStanding, Error, |it| waits(it, 2)),
    (QUORUM, Check::QuorumStanding, Warning, |it| {
        report(it).vote = Some(Vote::Unused)
    }),
    (QUORUM, Check::QuorumSize, Note, |it| {
        let server = server(3, QUORUM);
        facts(it).servers.push(server);
    }),
    (SINGLE, Check::TtlBoundsDiffer, Warning, |it| {
        it.settings[1].ttl[1] = Duration::from_secs(11)
    }),
    (QUORUM, Check::TtlBoundsDiffer, Error, |it| {
        it.settings[1].ttl[0] = Duration::from_secs(2)
    }),
    (QUORUM, Check::TtlBoundsDiffer, Error, |it| {
        it.settings
            .iter_mut()
            .for_each(|it| it.ttl[2] = Duration::from_secs(61))
    }),
    (SINGLE, Check::PrefixesDiffer, Error, |it| {
        it.settings[0].key_prefix = String::new()
    }),
    (SINGLE, Check::StoresDiffer, Error, |it| {
        it.settings[1].store = "redis://h/1".to_owned()
    }),
    (SINGLE, Check::StoresDiffer, Note, |it| {
        it.store.as_mut().unwrap().url = "redis://:secret@i".to_owned()
    }),
    (SINGLE, Check::StoresDiffer, Warning, |it| {
        it.store.as_mut().unwrap().url = "redis://h/7".to_owned()
    }),
    (
        Topology::Sentinel,
        Check::MinReplicasDiffer,
        Warning,
        |it| it.settings[1].min_replicas = 1,
    ),
    (SINGLE, Check::StrayWaiters, Warning, |it| {
        it.waiters[0].coordinator = "c3-0123".to_owned()
    }),
    (SINGLE, Check::Permissions, Note, |it| {
        it.coordinators
            .iter_mut()
            .for_each(|it| it.answer.as_mut().unwrap().sees_all = false)
    }),
    (SINGLE, Check::Permissions, Warning, |it| {
        it.coordinators
            .iter_mut()
            .for_each(|it| it.answer.as_mut().unwrap().permissions.clear())
    }),
    (SINGLE, Check::PermissionsDiffer, Warning, |it| {
        status(it).permissions[0].locks[0] = "a/".to_owned()
    }),
];

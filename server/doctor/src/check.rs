//! Kinds of findings. `docs/doctor.md` has a section for each, in this order.

use leasehold_store::redis::status::DownCause;

/// Declares the kinds: name, reason, remedy.
macro_rules! checks {
    ($($(#[$doc:meta])* $check:ident $name:literal, $why:literal, $remedy:expr;)*) => {
        /// Kind of a finding.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Check {
            $($(#[$doc])* $check,)*
        }

        impl Check {
            /// All kinds, in the order of the page.
            pub const ALL: &'static [Self] = &[$(Self::$check),*];

            /// Returns its name, which is part of the interface.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Self::$check => $name,)* }
            }

            /// Returns why it matters.
            #[must_use]
            pub const fn why(self) -> &'static str {
                match self { $(Self::$check => $why,)* }
            }

            /// Returns what to do.
            #[must_use]
            pub const fn remedy(self) -> &'static str {
                match self { $(Self::$check => $remedy,)* }
            }
        }
    };
}

checks! {
    /// A coordinator does not answer.
    CoordinatorUnreachable "coordinator-unreachable",
        "Its clients have moved to other coordinators, or lose their locks within the TTL",
        "Check the endpoint, the network, and the process: systemctl status leasehold-server";
    /// A coordinator refuses the caller, or one side does not trust the other's certificate.
    CoordinatorRefuses "coordinator-refuses",
        "Nothing is known of this coordinator, and clients with the same credentials can't use it",
        "Correct the token or the certificate, or let the coordinator admit them";
    /// A coordinator does not serve.
    CoordinatorNotServing "coordinator-not-serving",
        "It grants no locks, and renewals may be late",
        "Mend what the reason names; the coordinator goes on by itself";
    /// A coordinator's store refuses commands.
    CommandsRefused "commands-refused",
        "It serves, but clients' requests fail, or locks are not renewed",
        "Mend what the reason names; the coordinator goes on by itself";
    /// A coordinator drains.
    CoordinatorDraining "coordinator-draining",
        "It takes no new sessions and ends when its clients have left, or after drain-timeout",
        "Nothing, if the restart is intended; if it was stopped for good, remove it from the clients' endpoints";
    /// A server of the store does not answer.
    StoreUnreachable "store-unreachable",
        "Without its store a coordinator grants and renews nothing; locks end with their TTL",
        DownCause::Unreachable.remedy();
    /// A server of the store refuses the login.
    StoreRefuses "store-refuses",
        "Coordinators with this URL can't use the store",
        DownCause::Login.remedy();
    /// A server of the store can't be used.
    StoreUnusable "store-unusable",
        "Coordinators with this URL can't use the store",
        DownCause::Rejected.remedy();
    /// A server of another kind than the URL says.
    WrongKind "wrong-kind",
        "Coordinators with this URL can't use the store",
        DownCause::WrongKind.remedy();
    /// A server that asks for a certificate.
    CertificateWanted "certificate-wanted",
        "Without a certificate that the server trusts, coordinators can't connect to it",
        DownCause::CertificateWanted.remedy();
    /// A server that reads its data.
    StoreLoading "store-loading",
        "Until a server has read its data, it knows no lock and answers nothing",
        DownCause::Loading.remedy();
    /// A replica in the place of the master.
    StoreIsReplica "store-is-replica",
        "A replica grants and renews nothing; locks end with their TTL",
        DownCause::NotMaster.remedy();
    /// A server that runs a script without end.
    StoreBusy "store-busy",
        "Meanwhile Redis refuses everything else; locks end with their TTL",
        DownCause::Busy.remedy();
    /// A server with as many clients as it takes.
    TooManyClients "too-many-clients",
        "Coordinators that lose their connection, or start, can't connect",
        DownCause::Full.remedy();
    /// A server without memory.
    OutOfMemory "out-of-memory",
        "No lock is granted, and no acquire waits",
        DownCause::OutOfMemory.remedy();
    /// A server without a command.
    CommandMissing "command-missing",
        "Coordinators use commands that were renamed, or are newer than the server",
        DownCause::CommandMissing.remedy();
    /// Versions differ.
    VersionsDiffer "versions-differ",
        "Coordinators of neighbouring releases work together, which an upgrade needs",
        "Complete the upgrade";
    /// A version is too old.
    VersionTooOld "version-too-old",
        "Only neighbouring releases read what each other writes into the store",
        "Upgrade it, one release at a time";
    /// A Redis server is too old.
    RedisTooOld "redis-too-old",
        "Coordinators use commands that it lacks",
        "Upgrade Redis to version 7 or later";
    /// A clock differs from the others.
    ClockDrift "clock-drift",
        "Redis ends locks by its own clock, and tokens rise with it: a step or a fail-over to another clock can end locks early",
        "Keep all clocks together by NTP that slews and does not step";
    /// A server writes nothing to disk.
    NoPersistence "no-persistence",
        "A restart of the server forgets every lock that is held, or costs its vote",
        "Set appendonly yes, and appendfsync always where a restart must lose nothing";
    /// A server writes changes late.
    PersistenceLags "persistence-lags",
        "A crash of the server's machine forgets the grants of the last second",
        "Set appendfsync always, unless the disk is too slow for it";
    /// A server declared to be durable is not.
    QuorumNotDurable "quorum-not-durable",
        "The URL says durable=true, so coordinators don't count the votes of a master that could forget",
        "Set appendonly yes and appendfsync always on every master, or remove ?durable=true from the URL";
    /// A server's last write to disk failed.
    DiskFails "disk-fails",
        "Redis refuses writes while it can't persist them, and a restart forgets what was not written",
        DownCause::DiskFails.remedy();
    /// A server deletes keys when its memory is full.
    Evicts "evicts",
        "When its memory is full, Redis deletes keys of locks that are held, and they are granted to others",
        "Set maxmemory-policy noeviction";
    /// A limit is nearly reached.
    LimitNear "limit-near",
        "Beyond the limit, clients are refused",
        "Find the callers that use most of it, or raise the limit";
    /// The store's user lacks rights.
    RedisPermission "redis-permission",
        "Commands of coordinators fail with NOPERM",
        DownCause::NotPermitted.remedy();
    /// A replica is away or behind.
    ReplicaAway "replica-away",
        "A fail-over would lose what the replica lacks; coordinators that wait for it grant nothing",
        DownCause::NotReplicated.remedy();
    /// A master has no replica.
    NoReplica "no-replica",
        "Nothing can take over if it dies: its locks stop until it is back",
        "Add a replica";
    /// An old master would go on taking writes.
    MinReplicasToWrite "min-replicas-to-write",
        "A master that a partition cuts off goes on granting locks that the new master grants, too",
        "Set min-replicas-to-write 1 and min-replicas-max-lag 10 on every server, or let coordinators wait: min-replicas";
    /// A sentinel does not answer.
    SentinelAway "sentinel-away",
        "With fewer sentinels, the death of the master may not be noticed by enough of them",
        "Start the sentinel, or correct the store's URL";
    /// Sentinels name different masters.
    SentinelsDisagree "sentinels-disagree",
        "Coordinators may grant locks at two masters",
        "Wait for a fail-over to finish; if it lasts, reset the sentinels that are behind";
    /// There are too few sentinels.
    FewSentinels "few-sentinels",
        "The loss of one sentinel can prevent a fail-over",
        "Run three or five sentinels on machines of their own";
    /// No master serves some slots.
    ClusterSlots "cluster-slots",
        "Locks in these slots can be neither taken nor renewed",
        DownCause::ClusterDown.remedy();
    /// A node of the cluster does not answer the others.
    ClusterNodeAway "cluster-node-away",
        "The locks of a master that is away stop until a replica takes over",
        "Start the node, or remove it: redis-cli --cluster del-node";
    /// One dead part stops the whole cluster.
    FullCoverage "full-coverage",
        "If one master and its replicas die, the others refuse commands as well",
        "Set cluster-require-full-coverage no on every node";
    /// Masters of a quorum have no vote.
    QuorumStanding "quorum-standing",
        "A master without a vote counts as failed; a majority must vote for locks to be granted",
        "Wait; if all masters are new, declare the first start with leasehold-server quorum-bootstrap";
    /// The number of masters is even.
    QuorumSize "quorum-size",
        "An even number of masters survives the loss of no more than one fewer would",
        "Run three, five or seven masters";
    /// TTL bounds differ.
    TtlBoundsDiffer "ttl-bounds-differ",
        "A client that moves to another coordinator may get another TTL or be refused; a quorum counts no votes",
        "Give all coordinators of a store the same min-ttl, default-ttl and max-ttl";
    /// Prefixes of keys differ.
    PrefixesDiffer "prefixes-differ",
        "The same name is two locks: both can be held at the same time",
        "Give all coordinators the same key-prefix";
    /// Stores differ.
    StoresDiffer "stores-differ",
        "Coordinators on different stores grant the same lock twice",
        "Give all coordinators the same store";
    /// Numbers of replicas to wait for differ.
    MinReplicasDiffer "min-replicas-differ",
        "Grants of one coordinator survive a fail-over that those of another one don't",
        "Give all coordinators the same min-replicas";
    /// Waiters belong to a coordinator that was not reached.
    StrayWaiters "stray-waiters",
        "If their coordinator is dead, others wait up to three seconds for each to be skipped",
        "Name all coordinators in --endpoint; waiters of a dead one vanish within ten seconds";
    /// The caller may not see or do what it asks for.
    Permissions "permissions",
        "Checks that need the permission were left out",
        "Use an identity with inspect on every lock, locks = [\"\"]";
    /// Coordinators permit the caller different things.
    PermissionsDiffer "permissions-differ",
        "The same client is refused or not, depending on its coordinator",
        "Give all coordinators the same [[permission]] tables, and reload them";
    /// A certificate ends soon.
    CertificateEnds "certificate-ends",
        "After that, peers that check it refuse to connect",
        "Renew it; coordinators and clients take changed files over by themselves, and Redis by CONFIG SET tls-cert-file";
}

impl Check {
    /// Returns the kind for a server of the store that can't be used, or that refuses commands.
    pub(crate) fn of(cause: DownCause) -> Self {
        let mut all = Self::ALL.iter().copied();
        let found = all.find(|check| check.name() == cause.finding());
        found.unwrap_or(Self::StoreUnusable)
    }

    /// Returns the page and the section that explain it.
    #[must_use]
    pub fn link(self) -> String {
        format!("docs/doctor.md#{}", self.name())
    }
}

#[cfg(test)]
mod tests {
    use leasehold_store::redis::status::DownCause;

    use super::Check;

    const PAGE: &str = include_str!("../../../docs/doctor.md");
    const OPERATIONS: &str = include_str!("../../../docs/operations.md");

    #[test]
    fn the_page_has_a_section_for_each_kind_in_this_order() {
        let (_, findings) = PAGE.split_once("\n# Findings\n").unwrap_or_default();
        let sections = findings.lines().filter_map(|line| line.strip_prefix("## "));
        let names = Check::ALL.iter().map(|check| check.name());
        assert_eq!(sections.collect::<Vec<_>>(), names.collect::<Vec<_>>());
    }

    #[test]
    fn the_runbook_has_a_row_for_each_state_of_redis_with_its_remedy() {
        for cause in DownCause::ALL {
            let name = cause.finding();
            assert_eq!(Check::of(*cause).name(), name, "no finding {name}");
            if name == Check::StoreUnusable.name() {
                continue;
            }
            let begins = format!("| [`{name}`](doctor.md#{name}) |");
            let mut rows = OPERATIONS.lines().filter(|row| row.starts_with(&begins));
            let is_row = |row: &str| {
                row.ends_with(&format!(" | {} |", cause.remedy()))
                    && cause.codes().iter().all(|code| row.contains(code))
            };
            assert!(rows.any(is_row), "{cause:?}");
        }
    }
}

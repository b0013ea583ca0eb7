//! Facts that the servers of a store report of themselves: plain data, without a judgement.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::redis::status::DownCause;

/// Facts about a store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Facts {
    /// Kind of the store.
    pub topology: Topology,
    /// Redis servers that keep locks, or should: the master, or each of several.
    pub servers: Vec<ServerFacts>,
    /// Sentinels of the URL, in its order; empty in other topologies.
    pub sentinels: Vec<SentinelFacts>,
    /// Replicas that would take over for a master, under sentinels and in a cluster with TLS.
    pub standbys: Vec<StandbyFacts>,
    /// State of the cluster, if a node reported it; `None` in other topologies.
    pub cluster: Option<ClusterFacts>,
}

impl Facts {
    /// Returns no facts about a store of this kind.
    #[must_use]
    pub fn of(topology: Topology) -> Self {
        Self {
            topology,
            servers: Vec::new(),
            sentinels: Vec::new(),
            standbys: Vec::new(),
            cluster: None,
        }
    }
}

/// Kind of a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Topology {
    /// `memory:`, which has no servers.
    Memory,
    /// One Redis server, `redis://`.
    Single,
    /// A master that sentinels name, `redis+sentinel://`.
    Sentinel,
    /// A Redis Cluster, `redis+cluster://`.
    Cluster,
    /// Several independent masters, `redis+quorum://`.
    Quorum {
        /// Whether the URL declares that the masters keep everything across restarts.
        durable: bool,
    },
}

/// Reason why a server could not be asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trouble {
    /// The kind of reason.
    pub cause: DownCause,
    /// The event, its server, and what to do; for people, without a password.
    pub reason: String,
}

/// One Redis server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerFacts {
    /// Name in messages, such as `Redis at 10.0.0.1:6379`.
    pub server: String,
    /// Number of replicas that sentinels or the cluster know of it; `None` in other topologies.
    pub known_replicas: Option<usize>,
    /// The server's report, or the reason why there is none.
    pub report: Result<ServerReport, Trouble>,
}

/// Report of a Redis server. A field is `None` if the server has nothing to report, or the store's user may not ask.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServerReport {
    /// Version, for example `7.2.4`.
    pub version: Option<String>,
    /// Reading of its clock.
    pub clock: Option<Clock>,
    /// The setting `maxmemory-policy`.
    pub maxmemory_policy: Option<String>,
    /// Bytes of data in use.
    pub used_memory: Option<u64>,
    /// Most bytes of data; `None` if there is no bound.
    pub maxmemory: Option<u64>,
    /// Number of connected clients.
    pub clients: Option<u64>,
    /// Most clients.
    pub max_clients: Option<u64>,
    /// Whether it writes every change to a file (`appendonly`).
    pub appendonly: Option<bool>,
    /// The setting `appendfsync`.
    pub appendfsync: Option<String>,
    /// Whether it writes snapshots by itself (`save`).
    pub snapshots: Option<bool>,
    /// Whether its last write to disk succeeded.
    pub disk_works: Option<bool>,
    /// Its replicas.
    pub replicas: Option<Vec<ReplicaFacts>>,
    /// The setting `min-replicas-to-write`.
    pub min_replicas_to_write: Option<u64>,
    /// The setting `cluster-require-full-coverage`, on a node of a cluster.
    pub requires_full_coverage: Option<bool>,
    /// Rights that coordinators use and the store's user lacks, and commands that the server does not know.
    pub refused: Vec<Refusal>,
    /// Reasons why it refuses commands to any user, one for each kind.
    pub refuses: Vec<Trouble>,
    /// Time at which the first certificate that it shows expires; `None` without TLS.
    pub certificate_expires: Option<SystemTime>,
    /// Standing of one of several independent masters; `None` in other topologies, and if it could not be read.
    pub vote: Option<Vote>,
}

/// Reading of another machine's wall clock, relative to this one's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Clock {
    /// Microseconds by which the other clock is ahead; negative if it is behind.
    pub ahead: i64,
    /// Largest error of the reading, in microseconds: half of the time that the answer took.
    pub within: u64,
}

impl Clock {
    /// Returns the reading of a clock that showed a time, in microseconds since 1970, between two moments of this machine's.
    #[must_use]
    pub fn read(shown: i64, asked: SystemTime, answered: SystemTime) -> Self {
        let since = |time: SystemTime| {
            let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
            i64::try_from(since.as_micros()).unwrap_or(i64::MAX)
        };
        let (asked, answered) = (since(asked), since(answered));
        let half = answered.saturating_sub(asked) / 2;
        Self {
            ahead: shown.saturating_sub(asked.saturating_add(half)),
            within: half.unsigned_abs(),
        }
    }
}

/// Replica, as its master reports it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplicaFacts {
    /// Host and port.
    pub address: String,
    /// Whether it has the master's data and receives changes.
    pub is_online: bool,
    /// Time since it last acknowledged anything, to the second.
    pub lag: Option<Duration>,
}

/// Right that the store's user lacks, or command that the server does not know.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Refusal {
    /// The rule that would give it, as an ACL has it: `+get`, `~lock:*` or `&lh:*`; the command's name if it is unknown.
    pub rule: String,
    /// Whether no rule gives it, because the server does not know the command: it was renamed, or is newer than the server.
    pub is_unknown: bool,
    /// Whether coordinators can't serve without it.
    pub is_needed: bool,
}

/// Standing of one of several independent masters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Vote {
    /// No coordinator has used it.
    Unused,
    /// Coordinators count its votes.
    Votes {
        /// The longest hold that coordinators agree on: the largest TTL and lock-delay together.
        hold: Duration,
    },
    /// It has no vote for so long: coordinators have not seen its present run for long enough.
    Waits {
        /// The longest hold that coordinators agree on.
        hold: Duration,
        /// Least time until it votes.
        left: Duration,
    },
    /// The URL declares it durable, and it is not.
    NotDurable,
}

/// One sentinel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SentinelFacts {
    /// Name in messages, such as `the sentinel at 10.0.0.1:26379`.
    pub sentinel: String,
    /// The sentinel's report, or the reason why there is none.
    pub report: Result<SentinelReport, Trouble>,
}

/// Report of a sentinel on the master.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SentinelReport {
    /// Address of the master.
    pub master: String,
    /// Number of replicas that it knows, those that are away included.
    pub replicas: usize,
    /// Number of other sentinels that it knows.
    pub others: usize,
    /// Number of sentinels that must agree that the master is down.
    pub quorum: usize,
    /// Time at which the first certificate that it shows expires; `None` without TLS.
    pub certificate_expires: Option<SystemTime>,
}

/// Replica that would take over for a master, and that a handshake of TLS reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StandbyFacts {
    /// Name in messages, such as `Redis at 10.0.0.2:6379`.
    pub server: String,
    /// Time at which the first certificate that it shows expires.
    pub certificate_expires: SystemTime,
}

/// State of a cluster, as one node reports it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClusterFacts {
    /// Number of slots that no master serves.
    pub unserved_slots: usize,
    /// Nodes that the others take for failed, or suspect.
    pub failing: Vec<FailingNode>,
}

/// Node of a cluster that does not answer the others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FailingNode {
    /// Host and port.
    pub address: String,
    /// Whether it is a master that serves slots.
    pub serves_slots: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_is_read_in_the_middle_of_the_question() {
        let at = |micros| UNIX_EPOCH + Duration::from_micros(micros);
        let clock = |ahead, within| Clock { ahead, within };
        assert_eq!(Clock::read(150, at(100), at(200)), clock(0, 50));
        assert_eq!(Clock::read(3_150, at(100), at(200)), clock(3_000, 50));
        assert_eq!(Clock::read(50, at(100), at(200)), clock(-100, 50));
        // This machine's clock was set back meanwhile.
        assert_eq!(Clock::read(150, at(200), at(100)), clock(0, 50));
    }
}

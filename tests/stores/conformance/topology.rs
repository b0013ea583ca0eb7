//! The stores, each as its users run it.

use std::collections::BTreeSet;

use leasehold_tests::{Cluster, Masters, RedisServer, Sentinels, redis_server::RedisOptions};

use crate::conformance::user::{self, LOGIN};

/// A kind of store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Topology {
    /// In the memory of a single coordinator.
    Memory,
    /// One Redis server.
    Single,
    /// A master with two replicas, followed by three sentinels.
    Sentinel,
    /// The same, where both replicas acknowledge each grant.
    Replicated,
    /// Three masters with a replica each.
    Cluster,
    /// Five independent masters.
    Quorum,
}

/// Features of a store beyond exclusive locks, which all stores have.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Offers {
    /// Shared locks, semaphores, and making an exclusive hold a shared one.
    pub(crate) modes: bool,
    /// Watching locks and observing elections.
    pub(crate) watching: bool,
    /// One queue for all coordinators.
    pub(crate) one_queue: bool,
}

/// The processes behind a store. They end when it is dropped.
pub(crate) enum Servers {
    None,
    Single(RedisServer),
    Sentinel(Box<Sentinels>),
    Cluster(Cluster),
    Quorum(Masters),
}

impl Topology {
    pub(crate) fn offers(self) -> Offers {
        let all = self != Self::Quorum;
        Offers {
            modes: all,
            watching: all,
            one_queue: all,
        }
    }

    /// Returns the number of coordinators that can share it.
    pub(crate) fn coordinators(self) -> usize {
        if self == Self::Memory { 1 } else { 2 }
    }

    /// Returns the arguments of the coordinators for it, besides its URL.
    pub(crate) fn arguments(self) -> &'static [&'static str] {
        match self {
            // No case is about replicas that are slow.
            Self::Replicated => &["--min-replicas", "2", "--replica-timeout", "1s"],
            _ => &[],
        }
    }

    pub(crate) fn start(self) -> Servers {
        self.start_with(&RedisServer::options())
    }

    /// Starts it on servers that are configured otherwise, where it is made of independent ones.
    pub(crate) fn start_with(self, options: &RedisOptions) -> Servers {
        let servers = match self {
            Self::Memory => Servers::None,
            Self::Single => Servers::Single(options.clone().start()),
            Self::Sentinel | Self::Replicated => Servers::Sentinel(Box::new(Sentinels::start())),
            Self::Cluster => {
                // No case is about a master that is slow.
                let patient = ["--cluster-node-timeout", "10000"];
                Servers::Cluster(Cluster::start_with(
                    RedisOptions::default().arguments(patient),
                ))
            }
            Self::Quorum => Servers::Quorum(Masters::start_with(options, 5).bootstrapped()),
        };
        for server in servers.all() {
            user::make(server, self == Self::Cluster);
        }
        servers
    }
}

impl Servers {
    /// Returns the value of `--store`, with which coordinators log in as the documented [user](user).
    pub(crate) fn url(&self) -> String {
        let url = match self {
            Self::None => "memory:".to_owned(),
            Self::Single(redis) => redis.url(),
            Self::Sentinel(sentinels) => sentinels.url(),
            Self::Cluster(cluster) => cluster.url(),
            Self::Quorum(masters) => format!("redis+quorum://{}", masters.hosts()),
        };
        url.replacen("://", &format!("://{LOGIN}@"), 1)
    }

    /// Returns all servers that coordinators use, with those that would take a master's place.
    pub(crate) fn all(&self) -> Vec<&RedisServer> {
        match self {
            Self::None => Vec::new(),
            Self::Single(redis) => vec![redis],
            Self::Sentinel(sentinels) => sentinels.redis().servers().iter().collect(),
            Self::Cluster(cluster) => cluster.nodes().iter().collect(),
            Self::Quorum(masters) => masters.servers().iter().collect(),
        }
    }

    /// Returns the servers that can be asked for their keys.
    pub(crate) fn masters(&self) -> Vec<&RedisServer> {
        match self {
            Self::None => Vec::new(),
            Self::Single(redis) => vec![redis],
            Self::Sentinel(sentinels) => vec![sentinels.redis().server(sentinels.master())],
            Self::Cluster(cluster) => {
                // The three share the slots evenly.
                let slots = [0, 8_000, 16_000].map(|slot| cluster.master_of(slot));
                let masters = BTreeSet::from(slots);
                masters.into_iter().map(|at| cluster.node(at)).collect()
            }
            Self::Quorum(masters) => masters.servers().iter().collect(),
        }
    }
}

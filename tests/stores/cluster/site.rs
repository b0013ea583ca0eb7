//! A cluster with two coordinators.

use std::{collections::BTreeMap, time::Duration};

use leasehold_client::{Client, Session};
use leasehold_core::name::LockName;
use leasehold_store::redis::keys::Keys;
use leasehold_tests::{
    Cluster, Coordinator, CoordinatorProcess, cluster::MASTERS, redis_server::RedisOptions,
};

/// As long as a test waits for what should come soon.
pub(crate) const LIMIT: Duration = Duration::from_secs(20);

/// A cluster, and coordinators that keep their locks in it.
pub(crate) struct Site {
    pub(crate) coordinators: Vec<CoordinatorProcess>,
    pub(crate) cluster: Cluster,
}

impl Site {
    pub(crate) async fn start() -> Self {
        Self::of(RedisOptions::default()).await
    }

    /// Starts a cluster that serves its other slots while some are not served.
    pub(crate) async fn of_parts() -> Self {
        let partly = ["--cluster-require-full-coverage", "no"];
        Self::of(RedisOptions::default().arguments(partly)).await
    }

    async fn of(options: RedisOptions) -> Self {
        let cluster = Cluster::start_with(options);
        let options = Coordinator::process().store(cluster.url());
        let coordinators = [0, 1].map(|_| options.clone().start()).into();
        Self {
            coordinators,
            cluster,
        }
    }

    /// Returns a client of one of the coordinators.
    pub(crate) async fn client(&self, coordinator: usize) -> Client {
        Client::connect(self.coordinators[coordinator].endpoint())
            .await
            .unwrap()
    }

    /// Returns a session of one of them.
    pub(crate) async fn session(&self, coordinator: usize, ttl: Duration) -> Session {
        let client = self.client(coordinator).await;
        client.session().ttl(ttl).open().await.unwrap()
    }

    /// Says what no node may have been asked, and no coordinator have seen.
    pub(crate) fn assert_clean(&self) {
        for (index, node) in self.cluster.nodes().iter().enumerate() {
            if node.is_running() {
                let errors = errors(node);
                assert!(
                    !errors.contains_key("CROSSSLOT"),
                    "node {index}: {errors:?}"
                );
            }
        }
        for coordinator in &self.coordinators {
            let log = coordinator.log();
            assert!(!log.contains("does not answer its command"), "{log}");
            assert!(!log.contains("panicked"), "{log}");
        }
    }
}

/// Returns the errors that a node has answered with, and how many times.
pub(crate) fn errors(node: &leasehold_tests::RedisServer) -> BTreeMap<String, u64> {
    let info: String = redis::cmd("INFO")
        .arg("errorstats")
        .query(&mut node.connection())
        .unwrap();
    info.lines()
        .filter_map(|line| {
            let (error, count) = line.strip_prefix("errorstat_")?.split_once(":count=")?;
            Some((error.to_owned(), count.trim().parse().unwrap()))
        })
        .collect()
}

/// Returns the slot of a lock.
pub(crate) fn slot_of(name: &str) -> u16 {
    Keys::new("lock:").of(&LockName::parse(name).unwrap()).slot
}

/// Names of locks that a fresh cluster has on one of its masters.
pub(crate) fn names_on(master: usize) -> impl Iterator<Item = String> {
    assert!(master < MASTERS);
    (0..)
        .map(move |number| format!("on {master}/{number}"))
        .filter(move |name| {
            // As the fixture shares them out.
            usize::from(slot_of(name) / 16_384_u16.div_ceil(3)) == master
        })
}

/// Returns a name on each master.
pub(crate) fn a_name_on_each() -> [String; MASTERS] {
    std::array::from_fn(|master| names_on(master).next().unwrap())
}

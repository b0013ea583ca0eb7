//! Coordinators that serve the same locks.

use std::time::Duration;

use leasehold_tests::{
    Coordinator, CoordinatorProcess, RedisServer, audit, coordinator::Metrics, wait,
};
use tonic::transport::Channel;

use crate::deadlocks::client::Client;

/// The TTL of sessions that nothing happens to.
pub(crate) const TTL: Duration = Duration::from_secs(20);
/// A store that answers late is not what this suite is about.
const UNHURRIED: [&str; 1] = ["--store-timeout=10s"];
/// Longest time until leftovers are cleaned up.
const CLEAN: Duration = Duration::from_secs(5);

/// Coordinator processes on one store, and a connection to each.
pub(crate) struct Site {
    pub(crate) coordinators: Vec<CoordinatorProcess>,
    /// None where locks are in memory.
    pub(crate) redis: Option<RedisServer>,
    channels: Vec<Channel>,
}

impl Site {
    /// Returns this many coordinators on a Redis server of their own.
    pub(crate) async fn redis(coordinators: usize) -> Self {
        Self::redis_with(coordinators, &[]).await
    }

    /// Does the same with further arguments.
    pub(crate) async fn redis_with(coordinators: usize, arguments: &[&str]) -> Self {
        let redis = RedisServer::start();
        let options = Coordinator::process()
            .store(redis.url())
            .arguments(UNHURRIED)
            .arguments(arguments.iter().copied());
        let coordinators = (0..coordinators).map(|_| options.clone().start()).collect();
        Self::of(coordinators, Some(redis)).await
    }

    /// Returns one coordinator that keeps its locks in memory.
    pub(crate) async fn memory() -> Self {
        Self::of(vec![Coordinator::process().start()], None).await
    }

    async fn of(coordinators: Vec<CoordinatorProcess>, redis: Option<RedisServer>) -> Self {
        let mut channels = Vec::new();
        for coordinator in &coordinators {
            channels.push(coordinator.channel().await);
        }
        Self {
            coordinators,
            redis,
            channels,
        }
    }

    /// Returns a connection to a coordinator, which many sessions share. Numbers wrap around.
    pub(crate) fn channel(&self, at: usize) -> Channel {
        self.channels[at % self.channels.len()].clone()
    }

    /// Returns a session at a coordinator, on that connection.
    pub(crate) async fn client(&self, at: usize) -> Client {
        Client::open(self.channel(at), TTL).await
    }

    /// Returns a metric, over all coordinators.
    pub(crate) async fn sum(&self, metric: &str) -> f64 {
        let mut sum = 0.0;
        for coordinator in &self.coordinators {
            sum += coordinator.metrics().await.sum(metric);
        }
        sum
    }

    /// Returns the number of waits that were ended because of a deadlock.
    pub(crate) async fn deadlocks(&self) -> f64 {
        self.sum("leasehold_deadlocks_total").await
    }

    /// Returns every key, with its time to live in milliseconds.
    ///
    /// # Panics
    ///
    /// If locks are in memory.
    pub(crate) async fn keys(&self) -> Vec<(String, i64)> {
        let redis = self.redis.as_ref().expect("locks are in Redis");
        let mut connection = redis.async_connection().await;
        let keys = audit::keys(&mut connection, "*").await;
        keys.expect("Redis answers").into_iter().collect()
    }

    /// Returns the keys of the publications of blocked actors.
    pub(crate) async fn told(&self) -> Vec<(String, i64)> {
        let mut keys = self.keys().await;
        keys.retain(|(key, _)| key.starts_with("lh:blocked-waits:"));
        keys
    }

    /// Waits until nothing is left, once every session was closed: not in the coordinators by their own gauges, and in Redis
    /// only the records of tokens, which outlive their locks.
    pub(crate) async fn nothing_is_left(&self) {
        self.nothing_is_left_within(CLEAN).await;
    }

    /// Does the same within `limit`.
    pub(crate) async fn nothing_is_left_within(&self, limit: Duration) {
        wait::until("the coordinators to have nothing left", limit, || async {
            let mut left = Vec::new();
            for metric in Metrics::GAUGES {
                let value = self.sum(metric).await;
                if value != 0.0 {
                    left.push((metric, value));
                }
            }
            if left.is_empty() { Ok(()) } else { Err(left) }
        })
        .await;
        if self.redis.is_none() {
            return;
        }
        wait::until("only tokens' records to be in Redis", limit, || async {
            let mut keys = self.keys().await;
            keys.retain(|(key, _)| !(key.starts_with("lh:") && key.contains(":token:")));
            if keys.is_empty() { Ok(()) } else { Err(keys) }
        })
        .await;
    }

    /// Ends a coordinator with SIGKILL, for good.
    pub(crate) fn kill(&mut self, at: usize) {
        self.coordinators[at].kill();
        self.coordinators.remove(at);
        self.channels.remove(at);
    }
}

/// Waits at most for `limit`.
///
/// # Panics
///
/// If that passes first: with `what` was waited for.
pub(crate) async fn within<T>(what: &str, limit: Duration, future: impl Future<Output = T>) -> T {
    tokio::time::timeout(limit, future)
        .await
        .unwrap_or_else(|_| panic!("waited {limit:?} for {what}"))
}

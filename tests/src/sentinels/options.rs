//! Options of the Redis servers and sentinels that a test starts.

use std::time::Duration;

use super::{INSIDER_PASSWORD, INSIDERS, Sentinels};
use crate::{redis_server::RedisOptions, replicas::Replicas};

/// Options of the servers and sentinels.
#[derive(Clone, Debug)]
pub struct SentinelsOptions {
    pub(super) down_after: Duration,
    pub(super) failover_timeout: Duration,
    pub(super) redis: [RedisOptions; 3],
    pub(super) redis_password: Option<String>,
    pub(super) sentinel_password: Option<String>,
}

impl Default for SentinelsOptions {
    fn default() -> Self {
        Self {
            down_after: Duration::from_secs(1),
            failover_timeout: Duration::from_secs(2),
            redis: Default::default(),
            redis_password: None,
            sentinel_password: None,
        }
    }
}

impl SentinelsOptions {
    /// Sets the time without an answer after which a sentinel takes the master for down; 1 s by default.
    #[must_use]
    pub fn down_after(mut self, down_after: Duration) -> Self {
        self.down_after = down_after;
        self
    }

    /// Sets the sentinels' `failover-timeout`; 2 s by default. A second attempt, after a vote that was split, waits for twice
    /// this.
    #[must_use]
    pub fn failover_timeout(mut self, failover_timeout: Duration) -> Self {
        self.failover_timeout = failover_timeout;
        self
    }

    /// Sets the password that the Redis servers ask clients for.
    #[must_use]
    pub fn redis_password(mut self, password: &str) -> Self {
        self.redis = self.redis.map(|options| options.password(password));
        self.redis_password = Some(password.to_owned());
        self
    }

    /// Sets the password that the sentinels ask clients, and one another, for.
    #[must_use]
    pub fn sentinel_password(mut self, password: &str) -> Self {
        self.sentinel_password = Some(password.to_owned());
        self
    }

    /// Configures one of the Redis servers otherwise: 0 is the master, 1 and 2 are the replicas.
    ///
    /// # Panics
    ///
    /// If there is none of this index.
    #[must_use]
    pub fn server(
        mut self,
        index: usize,
        configure: impl FnOnce(RedisOptions) -> RedisOptions,
    ) -> Self {
        self.redis[index] = configure(self.redis[index].clone());
        self
    }

    /// Starts them, and waits until every sentinel knows both replicas and the two other sentinels.
    ///
    /// # Panics
    ///
    /// If that takes longer than 30 seconds, or `redis-server` is not installed.
    pub fn start(self) -> Sentinels {
        let password = format!(">{INSIDER_PASSWORD}");
        let redis = self.redis.clone().map(|mut redis| {
            for user in INSIDERS {
                redis = redis.arguments(["--user", user, "on", &password, "~*", "&*", "+@all"]);
            }
            redis
        });
        let [_, replica] = INSIDERS;
        let redis = Replicas::start_each(redis.to_vec(), Some((replica, INSIDER_PASSWORD)));
        let master = redis.server(0).address();
        let mut sentinels = Sentinels {
            redis,
            sentinels: Vec::new(),
            options: self,
        };
        for _ in 0..3 {
            let sentinel = sentinels.sentinel(master).start();
            sentinels.sentinels.push(sentinel);
        }
        sentinels.settle(master);
        sentinels
    }
}

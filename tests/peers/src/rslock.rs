//! rslock: Redlock in Rust, on one Redis server of its own, through the one multiplexed connection of its lock manager.

use std::time::Duration;

use anyhow::{Context, ensure};
use leasehold_tests::RedisServer;
use rslock::{Lock, LockManager};

use crate::rival::{self, Grant, Rival};

const LOCK_FILE: &str = include_str!("../Cargo.lock");
const TTL: Duration = Duration::from_secs(30);
/// One attempt: with this count nothing is ever delayed.
const ONCE: (u32, Duration) = (1, Duration::from_millis(1));

/// Reaction of a client to a taken name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Taken {
    /// It fails: nobody else asks for the name.
    Fail,
    /// It polls until the name is free, as rslock does by default.
    Poll,
}

/// A lock manager and its Redis.
pub struct Rslock {
    redis: RedisServer,
    manager: LockManager,
    taken: Taken,
    version: String,
    redis_version: String,
}

impl Rslock {
    /// Starts a Redis server that keeps nothing on disk, and connects one lock manager to it.
    ///
    /// # Errors
    ///
    /// If Redis does not answer.
    pub async fn start(taken: Taken) -> anyhow::Result<Self> {
        let redis = RedisServer::start();
        let mut manager = LockManager::new(vec![redis.url()]);
        if taken == Taken::Fail {
            manager.set_retry(ONCE.0, ONCE.1);
        }
        let info: String = redis::cmd("INFO")
            .arg("server")
            .query_async(&mut redis.async_connection().await)
            .await?;
        let redis_version = info
            .lines()
            .find_map(|line| line.strip_prefix("redis_version:"))
            .context("Redis does not say its version")?;
        Ok(Self {
            version: locked("rslock", LOCK_FILE).context("rslock is not in the lock file")?,
            redis_version: redis_version.trim().to_owned(),
            redis,
            manager,
            taken,
        })
    }
}

/// Returns the version of `package` in a lock file of cargo.
fn locked(package: &str, file: &str) -> Option<String> {
    let name = format!("name = \"{package}\"");
    let mut lines = file.lines().skip_while(|line| *line != name).skip(1);
    let version = lines.next()?.strip_prefix("version = \"")?;
    Some(version.strip_suffix('"')?.to_owned())
}

impl Rival for Rslock {
    type Session = Session;

    const QUEUES: bool = false;

    fn version(&self) -> &str {
        &self.version
    }

    fn settings(&self) -> String {
        let taken = match self.taken {
            Taken::Fail => "no retries",
            Taken::Poll => "its default retries, after up to 200 ms",
        };
        format!(
            "one lock manager for all clients, on one multiplexed connection to Redis {}, which keeps nothing on disk; \
             {taken}",
            self.redis_version
        )
    }

    async fn session(&self) -> anyhow::Result<Session> {
        Ok(Session {
            manager: self.manager.clone(),
            taken: self.taken,
        })
    }

    async fn known(&self) -> anyhow::Result<u64> {
        let mut connection = self.redis.async_connection().await;
        Ok(redis::cmd("DBSIZE").query_async(&mut connection).await?)
    }
}

/// A client: all of them share the lock manager.
#[derive(Clone)]
pub struct Session {
    manager: LockManager,
    taken: Taken,
}

impl rival::Session for Session {
    type Hold = Lock;

    async fn acquire(&mut self, name: &str) -> anyhow::Result<Grant<Lock>> {
        let hold = match self.taken {
            Taken::Fail => self.manager.lock(name, TTL).await?,
            Taken::Poll => self.manager.acquire(name, TTL).await?.lock,
        };
        ensure!(hold.resource == name.as_bytes(), "another name was granted");
        Ok(Grant { hold, token: None })
    }

    async fn release(&mut self, hold: Lock) -> anyhow::Result<()> {
        // It says nothing about how that went; what is left at the end is counted.
        self.manager.unlock(&hold).await;
        Ok(())
    }
}

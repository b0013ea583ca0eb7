//! A Redis server whose clock stands still until the test moves it, so that nothing depends on how fast the machine is.

use std::time::Duration;

use leasehold_core::time::StoreTime;
use leasehold_store::Store;
use leasehold_tests::{RedisServer, WallClock};
use redis::{FromRedisValue, aio::MultiplexedConnection};

use crate::common::{connect, options};

/// The time at which each clock begins, in microseconds since 1970.
const START: i64 = 1_900_000_000_000_000;

pub(crate) struct Server {
    pub(crate) redis: RedisServer,
    connection: MultiplexedConnection,
    clock: WallClock,
    now: StoreTime,
}

impl Server {
    pub(crate) async fn start() -> Self {
        let clock = WallClock::make();
        clock.stop_at(START);
        let redis = clock.of(RedisServer::options()).start();
        Self {
            connection: redis.async_connection().await,
            redis,
            clock,
            now: StoreTime::from_micros(START),
        }
    }

    pub(crate) async fn connect(&self) -> Store {
        connect(options(&self.redis.url())).await.0
    }

    /// Returns the server's time.
    pub(crate) fn now(&self) -> StoreTime {
        self.now
    }

    /// Sets the server's clock, forwards or back.
    pub(crate) fn set(&mut self, now: StoreTime) {
        self.now = now;
        self.clock.stop_at(now.as_micros());
    }

    /// Lets time pass.
    pub(crate) fn pass(&mut self, time: Duration) {
        self.set(self.now.after(time));
    }

    /// Carries out a command of these words.
    pub(crate) async fn ask<T: FromRedisValue>(&self, words: &[&str]) -> T {
        let mut command = redis::cmd(words[0]);
        command.arg(&words[1..]);
        let answer = command.query_async(&mut self.connection.clone()).await;
        answer.unwrap()
    }

    /// Leaves Redis no memory.
    pub(crate) async fn fill(&self) {
        let () = self.ask(&["CONFIG", "SET", "maxmemory", "1"]).await;
    }

    /// Asserts that no lock has left more than its token.
    pub(crate) async fn nothing_but_tokens_is_left(&self) {
        let left: Vec<String> = self.ask(&["KEYS", "*"]).await;
        assert!(left.iter().all(|key| key.contains(":token:")), "{left:?}");
    }
}

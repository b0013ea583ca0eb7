//! Two coordinators on a Redis server whose clock the test moves, and the check that no key is left in the end.

use std::time::Duration;

use leasehold_tests::{
    Coordinator, CoordinatorProcess, RawSession, RedisServer, WallClock,
    audit::{self, TtlAudit},
    coordinator::Metrics,
    wait,
};
use redis::aio::MultiplexedConnection;

pub(super) const TTL: Duration = Duration::from_secs(10);
/// Longest time for anything to recover from a jump of the clock.
pub(super) const LIMIT: Duration = Duration::from_secs(20);

/// Two coordinators and a Redis server whose clock the test moves.
pub(super) struct Scene {
    clock: WallClock,
    pub(super) redis: RedisServer,
    pub(super) coordinators: Vec<CoordinatorProcess>,
    pub(super) connection: MultiplexedConnection,
    audit: TtlAudit,
}

impl Scene {
    pub(super) async fn start() -> Self {
        let clock = WallClock::make();
        let redis = clock.of(RedisServer::options()).start();
        let options = Coordinator::process()
            .store(redis.url())
            .arguments(["--max-ttl", "10s"]);
        let coordinators = (0..2).map(|_| options.clone().start()).collect();
        let connection = redis.async_connection().await;
        let audit = TtlAudit::start(&redis, Duration::from_millis(20)).await;
        Self {
            clock,
            redis,
            coordinators,
            connection,
            audit,
        }
    }

    /// Has the server's clock be so far ahead of this machine's, or behind it if negative.
    pub(super) fn ahead(&self, seconds: i64) {
        self.clock.set_ahead(seconds * 1_000_000);
    }

    pub(super) async fn session(&self, at: usize) -> RawSession {
        let mut session = RawSession::open(&self.coordinators[at].endpoint(), TTL).await;
        session.keep_alive(TTL / 5);
        session
    }

    /// Returns how long a key has left (ms).
    pub(super) async fn left(&self, key: &str) -> i64 {
        let mut keys = self.connection.clone();
        let left = redis::cmd("PTTL").arg(key).query_async(&mut keys).await;
        left.unwrap()
    }

    /// Returns the server's clock (µs).
    pub(super) async fn time(&self) -> i64 {
        let mut connection = self.connection.clone();
        let time = redis::cmd("TIME").query_async(&mut connection).await;
        let (seconds, micros): (i64, i64) = time.unwrap();
        seconds * 1_000_000 + micros
    }

    /// Waits until the coordinators know of nothing any more, and until what is left in Redis is known to have ended by
    /// itself all along.
    pub(super) async fn nothing_is_left(self) {
        for coordinator in &self.coordinators {
            coordinator.until_zero(Metrics::GAUGES, LIMIT).await;
        }
        audit::until_only(&self.connection, LIMIT, |key| {
            audit::is_token(key) || key.starts_with("test:")
        })
        .await;
        let audited = self.audit.finish().await;
        assert!(audited.passes > 10, "{audited:?}");
        drop(self.redis);
    }

    /// Waits until what is left of a lock's key is as it is after a renewal.
    pub(super) async fn renewed(&self, key: &str, is_renewed: impl Fn(i64) -> bool) {
        wait::until("a renewal after the step", LIMIT, || async {
            let left = self.left(key).await;
            if is_renewed(left) { Ok(()) } else { Err(left) }
        })
        .await;
    }
}

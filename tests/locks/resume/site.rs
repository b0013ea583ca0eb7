//! Coordinators on one Redis, and the check that nothing is left of their sessions in the end.

use std::time::Duration;

use leasehold_proto::v1::{GetLockRequest, LockView, admin_service_client::AdminServiceClient};
use leasehold_tests::{
    Coordinator, CoordinatorProcess, RawSession, RedisServer, audit, coordinator::Metrics,
    raw::connect, wait,
};

/// The TTL of sessions that nothing happens to.
pub(crate) const TTL: Duration = Duration::from_secs(10);
/// Tolerated delay of any event on a busy machine.
pub(crate) const LATE: Duration = Duration::from_secs(2);
/// Longest time until leftovers are cleaned up.
pub(crate) const CLEAN: Duration = Duration::from_secs(5);

/// Coordinator processes on a Redis server of their own.
pub(crate) struct Site {
    pub(crate) coordinators: Vec<CoordinatorProcess>,
    pub(crate) redis: RedisServer,
}

impl Site {
    pub(crate) fn new(coordinators: usize) -> Self {
        Self::with(coordinators, [])
    }

    /// Does the same with coordinators that keep silent connections.
    pub(crate) fn without_probes(coordinators: usize) -> Self {
        Self::with(coordinators, ["--keepalive-interval", "1m"])
    }

    fn with<const N: usize>(coordinators: usize, arguments: [&str; N]) -> Self {
        let redis = RedisServer::start();
        let options = Coordinator::process()
            .store(redis.url())
            .arguments(arguments);
        Self {
            coordinators: (0..coordinators).map(|_| options.clone().start()).collect(),
            redis,
        }
    }

    /// Returns the URL at which a coordinator serves.
    pub(crate) fn endpoint(&self, at: usize) -> String {
        self.coordinators[at].endpoint()
    }

    /// Returns a session that sends heartbeats by itself.
    pub(crate) async fn session(&self, at: usize) -> RawSession {
        self.session_of(at, TTL).await
    }

    /// Does the same with another TTL.
    pub(crate) async fn session_of(&self, at: usize, ttl: Duration) -> RawSession {
        let mut session = RawSession::open(&self.endpoint(at), ttl).await;
        session.keep_alive(ttl / 5);
        session
    }

    /// Returns a coordinator's view of a lock.
    pub(crate) async fn view(&self, at: usize, name: &str) -> LockView {
        let name = name.to_owned();
        let mut admin = AdminServiceClient::new(connect(&self.endpoint(at)).await);
        let shown = admin.get_lock(GetLockRequest { name }).await.unwrap();
        shown.into_inner().lock.unwrap()
    }

    /// Returns the sum of a metric over all labels, at one coordinator.
    pub(crate) async fn metric(&self, at: usize, name: &str) -> f64 {
        let metrics = self.coordinators[at].metrics().await;
        // A family without members has no line.
        metrics.find(name).unwrap_or(0.0)
    }

    /// Waits until a coordinator's gauge has come down, or up, to this.
    pub(crate) async fn gauge(&self, at: usize, name: &str, wanted: f64) {
        wait::until(&format!("{name} to be {wanted}"), CLEAN, || async {
            let value = self.metric(at, name).await;
            if value == wanted { Ok(()) } else { Err(value) }
        })
        .await;
    }

    /// Returns Redis's clock, as time since 1970.
    pub(crate) async fn time(&self) -> Duration {
        let mut connection = self.redis.async_connection().await;
        let ask = redis::cmd("TIME");
        let (seconds, micros): (u64, u32) = ask.query_async(&mut connection).await.unwrap();
        Duration::new(seconds, micros * 1000)
    }

    /// Returns the time for which Redis keeps the key of a lock from now on.
    pub(crate) async fn expires_in(&self, name: &str) -> Duration {
        let mut connection = self.redis.async_connection().await;
        let mut ask = redis::cmd("PTTL");
        ask.arg(format!("lock:{name}"));
        let left: i64 = ask.query_async(&mut connection).await.unwrap();
        Duration::from_millis(u64::try_from(left).unwrap_or(0))
    }

    /// Waits until nothing is left of the sessions, all of which have ended: in the coordinators' gauges, and in Redis.
    pub(crate) async fn nothing_is_left(self) {
        for coordinator in &self.coordinators {
            coordinator.until_zero(Metrics::GAUGES, CLEAN).await;
        }
        let connection = self.redis.async_connection().await;
        let is_record = |key: &str| {
            let kinds = [":token:", ":replaced:", "lh:ended-sessions:"];
            key.starts_with("lh:") && kinds.iter().any(|kind| key.contains(kind))
        };
        wait::until("only records to be in Redis", CLEAN, || {
            let mut connection = connection.clone();
            async move {
                let mut keys = audit::keys(&mut connection, "*").await.unwrap();
                assert!(keys.values().all(|ttl| *ttl >= 0), "no TTL: {keys:?}");
                keys.retain(|key, _| !is_record(key));
                if keys.is_empty() { Ok(()) } else { Err(keys) }
            }
        })
        .await;
    }
}

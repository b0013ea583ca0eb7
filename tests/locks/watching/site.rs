//! Coordinators that serve the same locks.

use std::time::Duration;

use leasehold_proto::v1::{
    EndSessionRequest, ForceReleaseRequest, GetLockRequest, RequestReleaseRequest,
    admin_service_client::AdminServiceClient, force_release_request::Only,
};
use leasehold_tests::{Coordinator, CoordinatorProcess, RawSession, RedisServer};
use redis::aio::MultiplexedConnection;
use tokio::sync::{RwLock, RwLockReadGuard};

use crate::watching::watch::Watch;

/// The TTL of sessions that nothing happens to.
pub(crate) const TTL: Duration = Duration::from_secs(10);

/// For how long Redis may say nothing: longer than a busy machine keeps it from running, which would be a gap for watchers.
const SILENCE: [&str; 2] = ["--store-timeout", "5s"];

/// Held by those that measure; by all others for as long as they last, together.
pub(crate) static AMONG_OTHERS: RwLock<()> = RwLock::const_new(());

/// Coordinator processes on one store.
pub(crate) struct Site {
    pub(crate) coordinators: Vec<CoordinatorProcess>,
    redis: Option<RedisServer>,
    /// Keeps those that measure waiting.
    _among_others: Option<RwLockReadGuard<'static, ()>>,
}

impl Site {
    /// Returns two coordinators on a Redis server of their own.
    pub(crate) async fn redis() -> Self {
        let among_others = AMONG_OTHERS.read().await;
        Self {
            _among_others: Some(among_others),
            ..Self::redis_alone()
        }
    }

    /// Does the same for a test that is alone.
    pub(crate) fn redis_alone() -> Self {
        let redis = RedisServer::start();
        let options = Coordinator::process().store(redis.url()).arguments(SILENCE);
        let coordinators = [0, 1].map(|_| options.clone().start()).into();
        Self {
            coordinators,
            redis: Some(redis),
            _among_others: None,
        }
    }

    /// Returns one coordinator that keeps its locks in memory.
    fn memory() -> Self {
        Self {
            coordinators: vec![Coordinator::process().start()],
            redis: None,
            _among_others: None,
        }
    }

    /// Returns a coordinator. Numbers wrap around.
    pub(crate) fn at(&self, at: usize) -> &CoordinatorProcess {
        &self.coordinators[at % self.coordinators.len()]
    }

    /// Returns a session that sends heartbeats by itself.
    pub(crate) async fn session(&self, at: usize) -> RawSession {
        let mut session = RawSession::open(&self.at(at).endpoint(), TTL).await;
        session.keep_alive(TTL / 5);
        session
    }

    /// Opens a watch, and reads its snapshot.
    pub(crate) async fn watch(&self, at: usize, prefix: &str) -> Watch {
        let (watch, _) = Watch::begin(self.at(at).channel().await, prefix).await;
        watch
    }

    pub(crate) async fn admin(&self, at: usize) -> AdminServiceClient<tonic::transport::Channel> {
        AdminServiceClient::new(self.at(at).channel().await)
    }

    /// Force-releases a lock.
    pub(crate) async fn force(&self, at: usize, name: &str) {
        self.force_one(at, name, None).await;
    }

    /// Ends one hold or wait of a lock, or all holds.
    pub(crate) async fn force_one(&self, at: usize, name: &str, only: Option<Only>) {
        let name = name.to_owned();
        let mut admin = self.admin(at).await;
        let forced = admin
            .force_release(ForceReleaseRequest { name, only })
            .await;
        assert!(forced.unwrap().into_inner().released);
    }

    /// Ends the session that holds a lock.
    pub(crate) async fn end_holder(&self, at: usize, name: &str) {
        let mut admin = self.admin(at).await;
        let name = name.to_owned();
        let lock = admin.get_lock(GetLockRequest { name }).await.unwrap();
        let lock = lock.into_inner().lock.unwrap();
        let session_id = lock.holders[0].session_id.clone();
        let ended = admin.end_session(EndSessionRequest { session_id }).await;
        assert!(ended.unwrap().into_inner().ended);
    }

    /// Asks the holders of a lock to release it.
    pub(crate) async fn ask(&self, at: usize, name: &str) {
        let mut admin = self.admin(at).await;
        let asked = admin.request_release(RequestReleaseRequest {
            name: name.to_owned(),
            ..RequestReleaseRequest::default()
        });
        asked.await.unwrap();
    }

    /// Returns a plain connection to the site's Redis.
    pub(crate) async fn plain(&self) -> MultiplexedConnection {
        let redis = self.redis.as_ref().expect("locks are in Redis");
        redis.async_connection().await
    }

    /// Ends Redis with SIGKILL.
    pub(crate) fn stop_redis(&mut self) {
        self.redis.as_mut().expect("locks are in Redis").kill();
    }

    pub(crate) fn restart_redis(&mut self) {
        self.redis.as_mut().expect("locks are in Redis").restart();
    }
}

/// Runs a case on Redis behind two coordinators, and in memory.
pub(crate) async fn everywhere(case: impl AsyncFn(&Site)) {
    let _among_others = AMONG_OTHERS.read().await;
    let (redis, memory) = (Site::redis_alone(), Site::memory());
    tokio::join!(Box::pin(case(&redis)), Box::pin(case(&memory)));
}

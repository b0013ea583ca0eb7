//! Coordinators that serve the same locks, and the check that nothing is left of them in the end.

use std::time::Duration;

use leasehold_proto::v1::{
    ForceReleaseRequest, GetLockRequest, LockView, SessionAcquire,
    admin_service_client::AdminServiceClient, lock_service_client::LockServiceClient,
};
use leasehold_tests::{
    Coordinator, CoordinatorProcess, RawSession, RedisServer,
    audit::{self, TtlAudit},
    coordinator::Metrics,
    raw, wait,
};
use redis::aio::MultiplexedConnection;
use tonic::transport::Channel;

/// The TTL of sessions that nothing happens to.
pub(crate) const TTL: Duration = Duration::from_secs(10);
/// Tolerated delay of any event on a busy machine.
pub(crate) const LATE: Duration = Duration::from_secs(2);
/// The same of what does not wait for a coordinator's next refresh, which comes once a second.
pub(crate) const AT_ONCE: Duration = Duration::from_millis(900);
/// Longest time until leftovers are cleaned up.
const CLEAN: Duration = Duration::from_secs(5);
/// Interval at which the audit looks at every key for one without a TTL.
const LOOK: Duration = Duration::from_millis(20);

/// Coordinator processes on one store.
pub(crate) struct Site {
    pub(crate) coordinators: Vec<CoordinatorProcess>,
    channels: Vec<Channel>,
    /// None where locks are in memory.
    redis: Option<(RedisServer, TtlAudit)>,
}

impl Site {
    /// Returns this many coordinators on a Redis server of their own.
    pub(crate) async fn redis(coordinators: usize) -> Self {
        let redis = RedisServer::start();
        let options = Coordinator::process().store(redis.url());
        let coordinators = (0..coordinators).map(|_| options.clone().start()).collect();
        let looking = TtlAudit::start(&redis, LOOK).await;
        Self::of(coordinators, Some((redis, looking))).await
    }

    /// Returns one coordinator that keeps its locks in memory.
    pub(crate) async fn memory() -> Self {
        Self::of(vec![Coordinator::process().start()], None).await
    }

    async fn of(
        coordinators: Vec<CoordinatorProcess>,
        redis: Option<(RedisServer, TtlAudit)>,
    ) -> Self {
        let mut channels = Vec::new();
        for coordinator in &coordinators {
            channels.push(coordinator.channel().await);
        }
        Self {
            coordinators,
            channels,
            redis,
        }
    }

    fn channel(&self, at: usize) -> Channel {
        self.channels[at % self.channels.len()].clone()
    }

    /// Returns the URL at which a coordinator serves. Numbers wrap around, here and below.
    pub(crate) fn endpoint(&self, at: usize) -> String {
        self.coordinators[at % self.coordinators.len()].endpoint()
    }

    /// Returns a session at a coordinator, that sends heartbeats by itself.
    pub(crate) async fn session(&self, at: usize) -> RawSession {
        self.session_of(at, TTL).await
    }

    /// Does the same with another TTL.
    pub(crate) async fn session_of(&self, at: usize, ttl: Duration) -> RawSession {
        let mut session = RawSession::open_on(self.channel(at), ttl).await;
        session.keep_alive(ttl / 5);
        session
    }

    /// Ends the last coordinator with SIGKILL; numbers go round the others from here on.
    pub(crate) fn kill_last(&mut self) {
        self.channels.pop();
        let mut last = self.coordinators.pop().expect("there is one");
        last.kill();
    }

    /// Returns a client of the unary calls.
    pub(crate) fn unary(&self, at: usize) -> LockServiceClient<Channel> {
        LockServiceClient::new(self.channel(at))
    }

    /// Returns a coordinator's view of a lock.
    pub(crate) async fn view(&self, at: usize, name: &str) -> LockView {
        let name = name.to_owned();
        let mut admin = AdminServiceClient::new(self.channel(at));
        let shown = admin.get_lock(GetLockRequest { name }).await.unwrap();
        shown.into_inner().lock.unwrap()
    }

    /// Waits until a coordinator's view of a lock is as wanted.
    pub(crate) async fn seen(
        &self,
        at: usize,
        name: &str,
        what: &str,
        wanted: impl Fn(&LockView) -> bool,
    ) -> LockView {
        let what = format!("{name} to have {what}");
        wait::until(&what, CLEAN, || async {
            let view = self.view(at, name).await;
            if wanted(&view) { Ok(view) } else { Err(view) }
        })
        .await
    }

    /// Waits until nobody holds a lock, waits for it, or keeps it closed.
    pub(crate) async fn free(&self, name: &str) {
        self.seen(0, name, "nobody", |view| {
            view.holder_count == 0 && view.waiter_count == 0 && view.closed_for.is_none()
        })
        .await;
    }

    /// Returns whether an acquire is granted at once; what it took is given back.
    pub(crate) async fn is_free_for(&self, at: usize, acquire: SessionAcquire) -> bool {
        use leasehold_proto::v1::session_response::Response;
        let mut session = self.session(at).await;
        let acquire = raw::for_at_most(Duration::ZERO, acquire);
        let id = session.ask_for(acquire).await;
        match session.outcome(id, raw::PROMPT).await {
            Response::Granted(granted) => {
                for lock in &granted.locks {
                    assert!(session.release(lock).await);
                }
                true
            }
            Response::NotGranted(_) => false,
            other => panic!("neither granted nor busy: {other:?}"),
        }
    }

    /// Force-releases a lock; its token then.
    pub(crate) async fn force(&self, at: usize, name: &str) -> i64 {
        let name = name.to_owned();
        let mut admin = AdminServiceClient::new(self.channel(at));
        let forced = admin
            .force_release(ForceReleaseRequest { name, only: None })
            .await;
        let forced = forced.unwrap().into_inner();
        assert!(forced.released, "{forced:?}");
        forced.fencing_token
    }

    /// Returns a plain connection to the site's Redis.
    pub(crate) async fn plain(&self) -> MultiplexedConnection {
        let (redis, _) = self.redis.as_ref().expect("locks are in Redis");
        redis.async_connection().await
    }

    /// Waits until nothing is left of the sessions, all of which have ended: in the coordinators' gauges, and in Redis,
    /// where no key was ever without a TTL.
    pub(crate) async fn nothing_is_left(self) {
        for coordinator in &self.coordinators {
            coordinator.until_zero(Metrics::GAUGES, CLEAN).await;
        }
        let Some((redis, looking)) = self.redis else {
            return;
        };
        let connection = redis.async_connection().await;
        // Owner ids that repeated requests have replaced are remembered for as long as tokens.
        let may_stay =
            |key: &str| audit::is_token(key) || audit::is_limit(key) || key.contains(":replaced:");
        audit::until_only(&connection, CLEAN, may_stay).await;
        let audited = looking.finish().await;
        assert!(audited.passes > 1, "{audited:?}");
    }
}

/// Runs a case on Redis behind two coordinators, and in memory, and looks at what is left.
pub(crate) async fn everywhere(case: impl AsyncFn(&Site)) {
    let (redis, memory) = tokio::join!(Site::redis(2), Site::memory());
    tokio::join!(Box::pin(case(&redis)), Box::pin(case(&memory)));
    tokio::join!(redis.nothing_is_left(), memory.nothing_is_left());
}

/// Does the same on Redis alone.
pub(crate) async fn on_redis(case: impl AsyncFn(&Site)) {
    let site = Site::redis(2).await;
    Box::pin(case(&site)).await;
    site.nothing_is_left().await;
}

/// Sends `SET key value NX PX`, as clients do that lock without a coordinator.
pub(crate) async fn set_nx(redis: &mut MultiplexedConnection, name: &str) -> bool {
    let mut set = redis::cmd("SET");
    set.arg(format!("lock:{name}")).arg("a stranger");
    set.arg("NX").arg("PX").arg(60_000);
    let answer: Option<String> = set.query_async(redis).await.unwrap();
    answer.is_some()
}

/// Deletes the key of a lock, as nobody should; false if there was none.
pub(crate) async fn delete(redis: &mut MultiplexedConnection, name: &str) -> bool {
    let mut delete = redis::cmd("DEL");
    delete.arg(format!("lock:{name}"));
    let deleted: u32 = delete.query_async(redis).await.unwrap();
    deleted == 1
}

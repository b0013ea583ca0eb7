//! Coordinators on a store of one kind, and the check that nothing is left of them in the end.

use std::time::Duration;

use leasehold_core::name::TtlBounds;
use leasehold_proto::v1::{
    GetLockRequest, LockView, admin_service_client::AdminServiceClient,
    election_service_client::ElectionServiceClient, lock_service_client::LockServiceClient,
};
use leasehold_store::{Options, Store};
use leasehold_tests::{
    Cluster, Coordinator, CoordinatorProcess, RawSession, RedisServer,
    audit::{self, TtlAudit},
    coordinator::Metrics,
    wait,
};
use redis::aio::MultiplexedConnection;
use tonic::transport::Channel;

use super::{
    topology::{Offers, Servers, Topology},
    user,
};
use crate::store;

/// The TTL of sessions that nothing happens to.
pub(crate) const TTL: Duration = Duration::from_secs(30);
/// Tolerated delay of any event: the coordinator makes up for a lost message within a second or two, and a busy machine may delay
/// that by several times as much.
pub(crate) const LATE: Duration = Duration::from_secs(20);
/// Longest time until leftovers are cleaned up.
const CLEAN: Duration = Duration::from_secs(30);
/// Interval at which the audit looks at every key for one without a TTL.
const LOOK: Duration = Duration::from_millis(50);

/// Coordinator processes on a store.
pub(crate) struct Site {
    topology: Topology,
    coordinators: Vec<CoordinatorProcess>,
    channels: Vec<Channel>,
    servers: Servers,
    looking: Vec<TtlAudit>,
}

impl Site {
    pub(crate) async fn start(topology: Topology) -> Self {
        let servers = topology.start();
        let options = Coordinator::process()
            .store(servers.url())
            .arguments(topology.arguments().iter().copied())
            // No case is about a slow store.
            .arguments(["--store-timeout=10s"]);
        let coordinators: Vec<CoordinatorProcess> = (0..topology.coordinators())
            .map(|_| options.clone().start())
            .collect();
        let mut channels = Vec::new();
        for coordinator in &coordinators {
            channels.push(coordinator.channel().await);
        }
        let mut looking = Vec::new();
        for redis in servers.masters() {
            looking.push(TtlAudit::start(redis, LOOK).await);
        }
        Self {
            topology,
            coordinators,
            channels,
            servers,
            looking,
        }
    }

    pub(crate) fn topology(&self) -> Topology {
        self.topology
    }

    /// Returns a further coordinator, with further arguments.
    pub(crate) fn coordinator<'a>(
        &self,
        arguments: impl IntoIterator<Item = &'a str>,
    ) -> CoordinatorProcess {
        Coordinator::process()
            .store(self.servers.url())
            .arguments(self.topology.arguments().iter().copied())
            .arguments(arguments)
            .start()
    }

    /// Returns the servers that keep locks.
    pub(crate) fn masters(&self) -> Vec<&RedisServer> {
        self.servers.masters()
    }

    pub(crate) fn sentinels(&self) -> &[RedisServer] {
        match &self.servers {
            Servers::Sentinel(sentinels) => sentinels.sentinels(),
            _ => &[],
        }
    }

    pub(crate) fn cluster(&self) -> Option<&Cluster> {
        match &self.servers {
            Servers::Cluster(cluster) => Some(cluster),
            _ => None,
        }
    }

    pub(crate) fn offers(&self) -> Offers {
        self.topology.offers()
    }

    /// Returns a connection to a coordinator. Numbers wrap around, here and below.
    pub(crate) fn channel(&self, at: usize) -> Channel {
        self.channels[at % self.channels.len()].clone()
    }

    /// Returns the URL at which a coordinator serves.
    pub(crate) fn endpoint(&self, at: usize) -> String {
        self.coordinators[at % self.coordinators.len()].endpoint()
    }

    /// Returns a session at a coordinator, that sends heartbeats by itself.
    pub(crate) async fn session(&self, at: usize) -> RawSession {
        let mut session = RawSession::open_on(self.channel(at), TTL).await;
        session.keep_alive(TTL / 5);
        session
    }

    /// Returns the store itself, as a further coordinator uses it.
    pub(crate) async fn store(&self, coordinator: &str) -> Store {
        open(&self.servers, coordinator).await
    }

    /// Returns a client of the unary calls.
    pub(crate) fn unary(&self, at: usize) -> LockServiceClient<Channel> {
        LockServiceClient::new(self.channel(at))
    }

    pub(crate) fn admin(&self, at: usize) -> AdminServiceClient<Channel> {
        AdminServiceClient::new(self.channel(at))
    }

    pub(crate) fn elections(&self, at: usize) -> ElectionServiceClient<Channel> {
        ElectionServiceClient::new(self.channel(at))
    }

    /// Returns a coordinator's view of a lock.
    pub(crate) async fn view(&self, at: usize, name: &str) -> LockView {
        let name = name.to_owned();
        let shown = self.admin(at).get_lock(GetLockRequest { name }).await;
        shown.unwrap().into_inner().lock.unwrap()
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

    /// Takes a lock as clients do that lock without a coordinator, `SET key value NX PX`, wherever its key belongs; none
    /// where there is nothing to set it in.
    pub(crate) async fn take_as_a_stranger(&self, name: &str) -> Option<Stranger> {
        let key = format!("lock:{name}");
        let mut taken = Vec::new();
        for redis in self.servers.masters() {
            let mut connection = redis.async_connection().await;
            let mut set = redis::cmd("SET");
            set.arg(&key).arg("a stranger").arg("NX").arg("PX");
            set.arg(60_000);
            match set.query_async::<Option<String>>(&mut connection).await {
                Ok(answer) => {
                    assert!(answer.is_some(), "{key} is free");
                    taken.push(connection);
                }
                Err(error) => assert_eq!(error.code(), Some("MOVED"), "{error}"),
            }
        }
        (!taken.is_empty()).then_some(Stranger { key, taken })
    }

    /// Waits until nothing is left of the cases, all of which have ended: in the coordinators' gauges, and in Redis, where
    /// no key was ever without a TTL.
    pub(crate) async fn nothing_is_left(self) {
        for coordinator in &self.coordinators {
            coordinator.until_zero(Metrics::GAUGES, CLEAN).await;
        }
        for redis in self.servers.masters() {
            let connection = redis.async_connection().await;
            audit::until_only(&connection, CLEAN, audit::may_stay).await;
        }
        for redis in self.servers.all() {
            user::was_enough(redis);
        }
        for audit in self.looking {
            let audited = audit.finish().await;
            assert!(audited.passes > 1, "{audited:?}");
        }
    }
}

/// Opens a store as a coordinator does.
pub(crate) async fn open(servers: &Servers, coordinator: &str) -> Store {
    let (store, _) = leasehold_store::open(Options {
        timeout: LATE,
        max_hold: TtlBounds::default().max * 2,
        ..store::options(servers.url(), coordinator)
    })
    .unwrap();
    store::up(&store, CLEAN).await;
    store
}

/// Stranger that locked without a coordinator.
pub(crate) struct Stranger {
    key: String,
    taken: Vec<MultiplexedConnection>,
}

impl Stranger {
    pub(crate) async fn give_back(mut self) {
        for connection in &mut self.taken {
            let delete = redis::cmd("DEL").arg(&self.key).clone();
            let deleted: u32 = delete.query_async(connection).await.unwrap();
            assert_eq!(deleted, 1);
        }
    }
}

//! Coordinators that serve the same elections, and the check that nothing is left of them in the end.

use std::time::Duration;

use leasehold_client::Client;
use leasehold_proto::v1::{
    CheckTokenRequest, ForceReleaseRequest, GetLockRequest, Leader, LeaderRequest, LockView,
    admin_service_client::AdminServiceClient, election_service_client::ElectionServiceClient,
};
use leasehold_tests::{
    Coordinator, CoordinatorProcess, FaultProxy, RawCandidate, RawObserver, RawSession,
    RedisServer,
    audit::{self, TtlAudit},
    coordinator::Metrics,
    ports::free_port,
    wait,
};
use redis::aio::MultiplexedConnection;
use tokio::{
    sync::{RwLock, RwLockReadGuard, RwLockWriteGuard},
    task::spawn_blocking,
};
use tonic::transport::Channel;

/// The TTL of candidates that nothing happens to.
pub(crate) const TTL: Duration = Duration::from_secs(10);
/// Tolerated delay of any event on a busy machine.
pub(crate) const LATE: Duration = Duration::from_secs(2);
/// Longest time until leftovers are cleaned up.
const CLEAN: Duration = Duration::from_secs(5);
/// Interval at which the audit looks at every key for one without a TTL.
const LOOK: Duration = Duration::from_millis(20);

/// Sites that measure are alone, others stand beside each other.
static TURNS: RwLock<()> = RwLock::const_new(());

/// Kept for as long as a site stands.
enum Turn {
    Alone {
        _guard: RwLockWriteGuard<'static, ()>,
    },
    Beside {
        _guard: RwLockReadGuard<'static, ()>,
    },
}

impl Turn {
    async fn alone() -> Self {
        let _guard = TURNS.write().await;
        Self::Alone { _guard }
    }

    async fn beside() -> Self {
        let _guard = TURNS.read().await;
        Self::Beside { _guard }
    }
}

/// One coordinator, which comes back to the same port.
struct Place {
    /// None while it is dead.
    process: Option<CoordinatorProcess>,
    endpoint: String,
    channel: Channel,
}

/// Coordinator processes on one Redis server.
pub(crate) struct Site {
    places: Vec<Place>,
    redis: RedisServer,
    /// The proxy between its first coordinator and Redis, if that connection is to fail.
    pub(crate) proxy: Option<FaultProxy>,
    looking: TtlAudit,
    _turn: Turn,
}

impl Site {
    /// Returns this many coordinators on a Redis server of their own, beside other sites.
    pub(crate) async fn start(coordinators: usize) -> Self {
        let turn = Turn::beside().await;
        Self::of(coordinators, false, turn).await
    }

    /// Does the same with a proxy between the first coordinator and Redis.
    pub(crate) async fn with_proxy(coordinators: usize) -> Self {
        let turn = Turn::beside().await;
        Self::of(coordinators, true, turn).await
    }

    /// Does the same for a test that measures, while no other site exists.
    pub(crate) async fn alone(coordinators: usize) -> Self {
        let turn = Turn::alone().await;
        Self::of(coordinators, false, turn).await
    }

    async fn of(coordinators: usize, is_to_fail: bool, turn: Turn) -> Self {
        let redis = RedisServer::start();
        let mut proxy = None;
        if is_to_fail {
            proxy = Some(FaultProxy::start(redis.address()).await);
        }
        let mut places = Vec::new();
        for at in 0..coordinators {
            let first = proxy.as_ref().filter(|_| at == 0);
            let store = first.map_or(redis.url(), |proxy| redis.url_through(proxy.address()));
            let address = format!("127.0.0.1:{}", free_port());
            let process = serve(&store, &address).await;
            places.push(Place {
                endpoint: process.endpoint(),
                channel: process.channel().await,
                process: Some(process),
            });
        }
        Self {
            places,
            looking: TtlAudit::start(&redis, LOOK).await,
            redis,
            proxy,
            _turn: turn,
        }
    }

    /// Returns the URL at which a coordinator serves. Numbers wrap around, here and below.
    pub(crate) fn endpoint(&self, at: usize) -> &str {
        &self.places[at % self.places.len()].endpoint
    }

    /// Returns a connection to it that is shared.
    pub(crate) fn channel(&self, at: usize) -> Channel {
        self.places[at % self.places.len()].channel.clone()
    }

    /// Ends a coordinator with SIGKILL.
    pub(crate) fn kill(&mut self, at: usize) {
        let mut process = self.places[at].process.take().expect("it lives");
        process.kill();
    }

    /// Starts it again, at the same address.
    pub(crate) async fn revive(&mut self, at: usize) {
        let place = &mut self.places[at];
        let address = place.endpoint.trim_start_matches("http://");
        let process = serve(&self.redis.url(), address).await;
        place.channel = process.channel().await;
        place.process = Some(process);
    }

    /// Returns a candidate on a connection that is shared.
    pub(crate) async fn candidate(&self, at: usize, election: &str, value: &[u8]) -> RawCandidate {
        RawCandidate::campaign(self.channel(at), election, value, TTL).await
    }

    /// Returns an observer on such a connection.
    pub(crate) async fn observer(&self, at: usize, election: &str) -> RawObserver {
        RawObserver::observe(self.channel(at), election).await
    }

    /// Returns a session of the lock service, that sends heartbeats by itself.
    pub(crate) async fn session(&self, at: usize) -> RawSession {
        let mut session = RawSession::open_on(self.channel(at), TTL).await;
        session.keep_alive(TTL / 5);
        session
    }

    /// Returns the Rust client.
    pub(crate) async fn client(&self, at: usize, ttl: Duration) -> Client {
        let client = Client::builder().ttl(ttl).connect(self.endpoint(at)).await;
        client.unwrap()
    }

    /// Returns the leader by a coordinator's account.
    pub(crate) async fn leader(&self, at: usize, election: &str) -> Option<Leader> {
        let election = election.to_owned();
        let mut elections = ElectionServiceClient::new(self.channel(at));
        let answer = elections.leader(LeaderRequest { election }).await;
        answer.unwrap().into_inner().leader
    }

    fn admin(&self, at: usize) -> AdminServiceClient<Channel> {
        AdminServiceClient::new(self.channel(at))
    }

    /// Returns a coordinator's view of an election's lock.
    pub(crate) async fn view(&self, at: usize, election: &str) -> LockView {
        let name = election.to_owned();
        let shown = self.admin(at).get_lock(GetLockRequest { name }).await;
        shown.unwrap().into_inner().lock.unwrap()
    }

    /// Waits until so many candidates wait, as a coordinator sees it.
    pub(crate) async fn waiting(&self, at: usize, election: &str, count: u64) {
        let what = format!("{count} to wait for {election}");
        wait::until(&what, CLEAN, || async {
            match self.view(at, election).await {
                view if view.waiter_count == count => Ok(()),
                view => Err(view),
            }
        })
        .await;
    }

    /// Deposes the leader.
    pub(crate) async fn force(&self, at: usize, election: &str) {
        let name = election.to_owned();
        let forced = self
            .admin(at)
            .force_release(ForceReleaseRequest { name, only: None })
            .await;
        assert!(forced.unwrap().into_inner().released);
    }

    /// Returns whether no newer token is known.
    pub(crate) async fn is_current(&self, at: usize, election: &str, token: i64) -> bool {
        let request = CheckTokenRequest {
            name: election.to_owned(),
            fencing_token: token,
        };
        let checked = self.admin(at).check_token(request).await;
        checked.unwrap().into_inner().current
    }

    /// Returns a plain connection to Redis.
    pub(crate) async fn plain(&self) -> MultiplexedConnection {
        self.redis.async_connection().await
    }

    /// Waits until nothing is left of the candidates and observers, all of which have ended: in the coordinators' gauges,
    /// and in Redis, where no key was ever without a TTL.
    pub(crate) async fn nothing_is_left(self) {
        self.nothing_is_left_within(CLEAN).await;
    }

    /// Does the same if something is left on purpose that takes longer to run out.
    pub(crate) async fn nothing_is_left_within(self, limit: Duration) {
        for coordinator in self
            .places
            .iter()
            .filter_map(|place| place.process.as_ref())
        {
            let watching = ["leasehold_observers", "leasehold_watchers"];
            let gauges = Metrics::GAUGES.into_iter().chain(watching);
            coordinator.until_zero(gauges, limit).await;
        }
        let connection = self.plain().await;
        audit::until_only(&connection, limit, audit::is_token).await;
        let audited = self.looking.finish().await;
        assert!(audited.passes > 1, "{audited:?}");
    }
}

async fn serve(store: &str, address: &str) -> CoordinatorProcess {
    let options = Coordinator::process()
        .store(store)
        .arguments(["--listen", address]);
    // Waited for elsewhere: the proxy that it goes through runs here.
    spawn_blocking(|| options.start()).await.unwrap()
}

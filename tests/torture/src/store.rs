//! Stores in each topology, and the keys that are left in them.

use std::{
    collections::BTreeSet,
    net::{Ipv4Addr, SocketAddr},
    time::Duration,
};

use clap::ValueEnum;
use leasehold_tests::{
    Cluster, FaultProxy, Host, Masters, Network, RedisServer, Sentinels, WallClock, audit,
    cluster::SLOTS, wait,
};
use redis::Value;
use tokio::time::{Instant, sleep};

use crate::coordinators::Coordinators;

/// Longest time until nothing is left: places of dead waiters are kept for ten seconds.
const CLEAN: Duration = Duration::from_secs(20);
/// Longest time until a fail-over is complete.
const SETTLED: Duration = Duration::from_secs(30);
/// Masters of a quorum.
const MASTERS: usize = 5;

/// Kind of a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Topology {
    Memory,
    Single,
    Sentinel,
    Cluster,
    Quorum,
}

impl Topology {
    pub(crate) fn name(self) -> String {
        format!("{self:?}").to_lowercase()
    }
}

/// A store.
pub(crate) enum Store {
    Memory,
    /// Keeps everything over a kill. Each coordinator reaches it through a proxy of its own.
    Single(Box<RedisServer>, Proxies, Vec<WallClock>),
    Sentinel(Box<Sentinels>),
    Cluster(Cluster),
    /// Each coordinator reaches each master through a proxy of its own.
    Quorum(Masters, Proxies, Vec<WallClock>),
}

/// Proxies between coordinators and servers. Those before one server have an address of their own, if there is a network.
pub(crate) struct Proxies {
    all: Vec<FaultProxy>,
    hosts: Vec<Host>,
}

/// The clock and the disk of each server, if there is a C compiler.
fn clocks(number: usize) -> Vec<WallClock> {
    if std::process::Command::new("cc")
        .arg("--version")
        .output()
        .is_err()
    {
        eprintln!("torture: goes on without steps of the clock and slow disks: there is no cc");
        return Vec::new();
    }
    (0..number).map(|_| WallClock::make()).collect()
}

impl Proxies {
    fn of(servers: usize, network: Option<&Network>) -> Self {
        let aliases = network.map(|network| (0..servers).map(|_| network.alias()).collect());
        Self {
            all: Vec::new(),
            hosts: aliases.unwrap_or_default(),
        }
    }

    /// Adds one, and returns its address.
    async fn add(&mut self, server: usize, upstream: SocketAddr) -> SocketAddr {
        let host = self.hosts.get(server).map(Host::address);
        let at = host.unwrap_or(Ipv4Addr::LOCALHOST);
        let proxy = FaultProxy::start_at(at, upstream).await;
        let address = proxy.address();
        self.all.push(proxy);
        address
    }
}

impl Store {
    pub(crate) async fn start(topology: Topology, network: Option<&Network>) -> Self {
        let options = RedisServer::options()
            .arguments(["--enable-debug-command", "yes"])
            .network(network);
        tokio::task::block_in_place(|| match topology {
            Topology::Memory => Self::Memory,
            Topology::Single => {
                let clocks = clocks(1);
                let options = options.append_only();
                let options = clocks.iter().fold(options, |to, clock| clock.of(to));
                let redis = options.start();
                Self::Single(Box::new(redis), Proxies::of(1, network), clocks)
            }
            Topology::Sentinel => {
                let sentinels = (0..3).fold(Sentinels::options(), |to, index| {
                    to.server(index, |_| options.clone())
                });
                Self::Sentinel(Box::new(sentinels.start()))
            }
            Topology::Cluster => Self::Cluster(Cluster::start_with(options)),
            Topology::Quorum => {
                let clocks = clocks(MASTERS);
                let masters = (0..MASTERS).map(|master| {
                    let options = options.clone();
                    match clocks.get(master) {
                        Some(clock) => clock.of(options),
                        None => options,
                    }
                });
                let masters = Masters::start_each(masters).bootstrapped();
                Self::Quorum(masters, Proxies::of(MASTERS, network), clocks)
            }
        })
    }

    /// Returns how many coordinators may share it.
    pub(crate) fn coordinators(&self) -> usize {
        match self {
            Self::Memory => 1,
            _ => 3,
        }
    }

    /// Returns the URL for a coordinator, with its proxies.
    pub(crate) async fn url(&mut self) -> String {
        match self {
            Self::Memory => "memory:".to_owned(),
            Self::Single(redis, proxies, _) => {
                let address = proxies.add(0, redis.address()).await;
                redis.url_through(address)
            }
            Self::Sentinel(sentinels) => sentinels.url(),
            Self::Cluster(cluster) => cluster.url(),
            Self::Quorum(masters, proxies, _) => {
                let mut hosts = Vec::new();
                for (number, server) in masters.servers().iter().enumerate() {
                    hosts.push(proxies.add(number, server.address()).await.to_string());
                }
                format!("redis+quorum://{}", hosts.join(","))
            }
        }
    }

    /// Returns the URLs of the servers on which hand-written lockers can work: not on several masters, each with its own truth.
    pub(crate) fn for_lockers(&self) -> Vec<String> {
        match self {
            Self::Memory | Self::Quorum(..) => Vec::new(),
            _ => self.servers().into_iter().map(RedisServer::url).collect(),
        }
    }

    /// Returns the proxies between coordinators and the store.
    pub(crate) fn proxies(&self) -> &[FaultProxy] {
        match self {
            Self::Single(_, proxies, _) | Self::Quorum(_, proxies, _) => &proxies.all,
            _ => &[],
        }
    }

    /// Returns the hosts of the store that coordinators, and one another, talk to; none without a network.
    pub(crate) fn hosts(&self) -> Vec<Host> {
        match self {
            Self::Memory => Vec::new(),
            Self::Single(_, proxies, _) | Self::Quorum(_, proxies, _) => proxies.hosts.clone(),
            Self::Sentinel(sentinels) => {
                let all = sentinels
                    .redis()
                    .servers()
                    .iter()
                    .chain(sentinels.sentinels());
                all.filter_map(|server| server.host().cloned()).collect()
            }
            Self::Cluster(cluster) => {
                let all = cluster.nodes().iter();
                all.filter_map(|server| server.host().cloned()).collect()
            }
        }
    }

    /// Returns the clock and disk of each server that has its own.
    pub(crate) fn clocks(&self) -> &[WallClock] {
        match self {
            Self::Single(_, _, clocks) | Self::Quorum(_, _, clocks) => clocks,
            _ => &[],
        }
    }

    /// Returns all servers with data.
    pub(crate) fn servers(&self) -> Vec<&RedisServer> {
        match self {
            Self::Memory => Vec::new(),
            Self::Single(redis, ..) => vec![redis],
            Self::Sentinel(sentinels) => sentinels.redis().servers().iter().collect(),
            Self::Cluster(cluster) => cluster.nodes().iter().collect(),
            Self::Quorum(masters, ..) => masters.servers().iter().collect(),
        }
    }

    /// Returns a server that takes writes, chosen by a number.
    ///
    /// # Panics
    ///
    /// If the store has none.
    pub(crate) fn master(&self, any: u32) -> &RedisServer {
        match self {
            Self::Memory => panic!("memory has no server"),
            Self::Single(redis, ..) => redis,
            Self::Sentinel(sentinels) => sentinels.redis().server(sentinels.master()),
            Self::Cluster(cluster) => cluster.node(cluster.master_of(slot(any))),
            Self::Quorum(masters, ..) => masters.server(any as usize % MASTERS),
        }
    }

    /// Returns the addresses of the masters that replicas can replace.
    pub(crate) fn masters(&self) -> BTreeSet<SocketAddr> {
        let address = |server: &RedisServer| server.address();
        match self {
            Self::Sentinel(_) => [address(self.master(0))].into(),
            Self::Cluster(cluster) => {
                let slots = (0..SLOTS).step_by(1000);
                let masters = slots.map(|slot| cluster.master_of(slot));
                masters.map(|node| address(cluster.node(node))).collect()
            }
            _ => BTreeSet::new(),
        }
    }

    /// Waits until each master has its replicas again.
    ///
    /// # Panics
    ///
    /// If that takes longer than 30 seconds.
    pub(crate) fn settle(&self) {
        match self {
            Self::Sentinel(sentinels) => {
                wait::until_blocking("replicas to follow the master", SETTLED, || {
                    // It may be another one each time, while a fail-over goes on.
                    let master = sentinels.redis().server(sentinels.master());
                    let role = redis::cmd("ROLE").query(&mut master.connection());
                    match role.map_err(|error| error.to_string())? {
                        Value::Array(words) if matches!(words.get(2), Some(Value::Array(all)) if all.len() == 2) => {
                            Ok(())
                        }
                        other => Err(format!("{other:?}")),
                    }
                });
            }
            Self::Cluster(cluster) => cluster.wait_until_ok(),
            _ => {}
        }
    }

    /// Returns the keys, and the locks that coordinators know, that are left although they should not be.
    pub(crate) async fn left(&self, coordinators: &Coordinators) -> Vec<String> {
        let deadline = Instant::now() + CLEAN;
        loop {
            let left = self.look(coordinators).await;
            if left.is_empty() || Instant::now() >= deadline {
                return left.into_iter().collect();
            }
            sleep(Duration::from_millis(200)).await;
        }
    }

    async fn look(&self, coordinators: &Coordinators) -> BTreeSet<String> {
        let mut left = BTreeSet::new();
        for endpoint in coordinators.endpoints() {
            match coordinators.admin(&endpoint).list_locks("").await {
                Ok(locks) => {
                    left.extend(locks.iter().map(|lock| format!("{} (listed)", lock.name)))
                }
                Err(error) => {
                    left.insert(format!("failed to list locks: {error}"));
                }
            }
        }
        for server in self.servers() {
            let mut connection = server.async_connection().await;
            match audit::keys(&mut connection, "*").await {
                Ok(keys) => {
                    let bad = keys
                        .iter()
                        .filter(|(key, life)| **life < 0 || !audit::may_stay(key));
                    left.extend(bad.map(|(key, life)| format!("{key} ({life} ms)")));
                }
                Err(error) => {
                    left.insert(format!("failed to list keys: {error}"));
                }
            }
        }
        left
    }
}

/// Returns a slot of a cluster, chosen by a number.
pub(crate) fn slot(any: u32) -> u16 {
    u16::try_from(any % u32::from(SLOTS)).unwrap()
}

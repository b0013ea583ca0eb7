//! Faults of coordinators and the store.

use std::time::Duration;

use leasehold_tests::{
    Cluster, Sentinels, cluster,
    proxy::{Cut, Direction, Flow},
    wait,
};
use rand::{Rng, rngs::StdRng};
use serde_json::json;
use tokio::{
    task::block_in_place,
    time::{Instant, sleep},
};

use super::{millis, redis};
use crate::{
    TTL,
    coordinators::Coordinators,
    record::{Effects, Record},
    store::{Store, slot},
};

/// Number of faults one after the other, before a calm in which the order of service can be checked.
const BURST: usize = 6;
/// The calm. The checker takes waiting for disturbed until twelve seconds after a fault.
const CALM: Duration = Duration::from_secs(20);

/// Longest time until a master has been replaced.
const FAILED_OVER: Duration = Duration::from_secs(30);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    KillCoordinator,
    StopCoordinator,
    Drain,
    RollingRestart,
    StopServer,
    KillServer,
    Scripts,
    KillConnections(&'static str),
    Pause(&'static str),
    Sleep,
    FlushAll,
    Stall,
    Mute,
    Cut,
    Slow,
    FailOver,
    FailOverByKill,
    FailOverByStop,
    StopSentinel,
    FullMemory,
    MoveSlot,
    Partition,
    PartitionOneWay,
    Isolate,
    SlowLink,
}

const COORDINATORS: [Fault; 4] = [
    Fault::KillCoordinator,
    Fault::StopCoordinator,
    Fault::Drain,
    Fault::RollingRestart,
];
const COMMANDS: [Fault; 8] = [
    Fault::StopServer,
    Fault::Scripts,
    Fault::KillConnections("normal"),
    Fault::KillConnections("pubsub"),
    Fault::Pause("ALL"),
    Fault::Pause("WRITE"),
    Fault::Sleep,
    Fault::FullMemory,
];
const PROXIES: [Fault; 4] = [Fault::Stall, Fault::Mute, Fault::Cut, Fault::Slow];
const NETWORK: [Fault; 4] = [
    Fault::Partition,
    Fault::PartitionOneWay,
    Fault::Isolate,
    Fault::SlowLink,
];
const FAIL_OVERS: [Fault; 3] = [
    Fault::FailOver,
    Fault::FailOverByKill,
    Fault::FailOverByStop,
];

impl Fault {
    /// Returns those that a store can have.
    fn of(store: &Store) -> Vec<Self> {
        let mut all = COORDINATORS.to_vec();
        let further: &[&[Self]] = match store {
            Store::Memory => &[],
            Store::Single(..) => &[&COMMANDS, &PROXIES, &[Self::KillServer, Self::FlushAll]],
            Store::Sentinel(..) => &[
                &COMMANDS,
                &FAIL_OVERS,
                &[Self::StopSentinel, Self::FlushAll],
            ],
            Store::Cluster(..) => &[&COMMANDS, &FAIL_OVERS, &[Self::MoveSlot, Self::FlushAll]],
            // One master that forgets is a master less, unless it says nothing of it, as with FLUSHALL.
            Store::Quorum(..) => &[&COMMANDS, &PROXIES, &[Self::KillServer]],
        };
        all.extend(further.iter().copied().flatten());
        if !store.hosts().is_empty() {
            all.extend(NETWORK);
        }
        all
    }

    fn name(self) -> &'static str {
        match self {
            Self::KillCoordinator => "SIGKILL of a coordinator",
            Self::StopCoordinator => "SIGSTOP of a coordinator",
            Self::Drain => "drain",
            Self::RollingRestart => "rolling restart",
            Self::StopServer => "SIGSTOP of Redis",
            Self::KillServer => "SIGKILL of Redis",
            Self::Scripts => "SCRIPT FLUSH",
            Self::KillConnections(_) => "CLIENT KILL",
            Self::Pause(_) => "CLIENT PAUSE",
            Self::Sleep => "DEBUG SLEEP",
            Self::FlushAll => "FLUSHALL",
            Self::Stall => "store stalled",
            Self::Mute => "store mute",
            Self::Cut => "store cut",
            Self::Slow => "store slow",
            Self::FailOver => "fail-over on request",
            Self::FailOverByKill => "fail-over after SIGKILL",
            Self::FailOverByStop => "fail-over after SIGSTOP",
            Self::StopSentinel => "SIGSTOP of a sentinel",
            Self::FullMemory => "full memory",
            Self::MoveSlot => "slot moved",
            Self::Partition => "partition",
            Self::PartitionOneWay => "partition one way",
            Self::Isolate => "host isolated",
            Self::SlowLink => "slow link",
        }
    }

    /// Returns whether the store may forget by it what it had confirmed.
    fn loses_data(self, store: &Store) -> bool {
        let replaced = matches!(
            self,
            Self::FailOver | Self::FailOverByKill | Self::FailOverByStop | Self::Isolate
        );
        match (store, self) {
            (Store::Memory, Self::KillCoordinator | Self::Drain | Self::RollingRestart) => true,
            // The replica waits until it has everything.
            (Store::Cluster(_), Self::FailOver) => false,
            // A server that stands still for long is replaced.
            (Store::Sentinel(_) | Store::Cluster(_), fault) => {
                replaced || matches!(fault, Self::StopServer | Self::Sleep | Self::FlushAll)
            }
            (_, fault) => fault == Self::FlushAll,
        }
    }
}

/// Does faults to coordinators and the store until the end.
pub(crate) async fn run(
    store: &mut Store,
    coordinators: &mut Coordinators,
    record: &Record,
    mut random: StdRng,
    end: Instant,
) {
    let faults = Fault::of(store);
    let mut calm = CALM;
    let mut left = 0;
    while Instant::now() + calm < end {
        sleep(calm).await;
        left = if left == 0 { BURST } else { left - 1 };
        let fault = faults[random.random_range(0..faults.len())];
        let drawn = Drawn {
            fault,
            coordinator: random.random_range(0..coordinators.count()),
            any: random.random(),
            time: millis(&mut random, 50, 5000),
        };
        let pause = millis(&mut random, 200, 4000);
        calm = if left == 0 { CALM } else { pause };
        drawn.apply(store, coordinators, record).await;
    }
    sleep(end.saturating_duration_since(Instant::now())).await;
}

/// A fault with all that is left to chance.
struct Drawn {
    fault: Fault,
    coordinator: usize,
    /// Chooses a server or a proxy.
    any: u32,
    time: Duration,
}

impl Drawn {
    async fn apply(&self, store: &mut Store, coordinators: &mut Coordinators, record: &Record) {
        let loses_data = self.fault.loses_data(store);
        let effects = if loses_data {
            Effects::losing_data()
        } else {
            Effects::on_all()
        };
        let target = self.target(store);
        let masters = block_in_place(|| store.masters());
        let begun = record.begin(self.fault.name(), &target, &effects);
        match self.fault {
            Fault::KillCoordinator
            | Fault::StopCoordinator
            | Fault::Drain
            | Fault::RollingRestart => self.to_coordinators(coordinators).await,
            Fault::Partition | Fault::PartitionOneWay | Fault::Isolate | Fault::SlowLink => {
                self.to_network(store, coordinators).await
            }
            Fault::Stall | Fault::Mute | Fault::Cut | Fault::Slow => self.to_proxies(store).await,
            Fault::FailOver | Fault::FailOverByKill | Fault::FailOverByStop => {
                block_in_place(|| self.fail_over(store));
            }
            Fault::MoveSlot => {
                if let Store::Cluster(cluster) = store {
                    block_in_place(|| self.move_slot(cluster));
                }
            }
            Fault::StopSentinel => {
                if let Store::Sentinel(sentinels) = store {
                    let number = self.any as usize % sentinels.sentinels().len();
                    sentinels.pause_sentinel(number);
                    sleep(self.time).await;
                    sentinels.resume_sentinel(number);
                }
            }
            Fault::KillServer => {
                if let Store::Single(redis, _) = store {
                    redis.kill();
                    sleep(self.time / 2).await;
                    block_in_place(|| redis.restart());
                } else if let Store::Quorum(masters, _) = store {
                    let number = self.any as usize % masters.servers().len();
                    masters.kill(number);
                    sleep(self.time / 2).await;
                    block_in_place(|| masters.restart(number));
                }
            }
            _ => self.to_server(store).await,
        }
        // The next one may need it: a server that stood still for long has been replaced.
        let now = block_in_place(|| {
            store.settle();
            store.masters()
        });
        for new in now.difference(&masters) {
            record.line("failed_over", json!({"to": new.to_string()}));
        }
        if loses_data {
            // Until each holder of before has been told, or its lease is over.
            sleep(TTL).await;
        }
        record.end(begun);
    }

    fn target(&self, store: &Store) -> String {
        match self.fault {
            Fault::KillCoordinator | Fault::StopCoordinator | Fault::Drain => {
                format!("coordinator {}", self.coordinator)
            }
            Fault::RollingRestart => "all coordinators".to_owned(),
            _ => match store.servers().len() {
                0 => "nothing".to_owned(),
                servers => format!("server or proxy {} ({servers} servers)", self.any),
            },
        }
    }

    async fn to_coordinators(&self, coordinators: &mut Coordinators) {
        let number = self.coordinator;
        match self.fault {
            Fault::KillCoordinator => {
                coordinators.kill(number);
                sleep(self.time / 2).await;
                coordinators.start_again(number);
            }
            Fault::StopCoordinator => {
                coordinators.process(number).stop();
                sleep(self.time).await;
                coordinators.process(number).cont();
            }
            Fault::Drain => {
                coordinators.drain(number).await;
                coordinators.start_again(number);
            }
            _ => {
                for number in 0..coordinators.count() {
                    coordinators.drain(number).await;
                    coordinators.start_again(number);
                }
            }
        }
    }

    /// Loses packets between hosts, or makes a link slow.
    async fn to_network(&self, store: &Store, coordinators: &Coordinators) {
        let theirs = store.hosts();
        let mut all = coordinators.hosts();
        all.extend(theirs.iter().cloned());
        let any = self.any as usize;
        let one = &theirs[any % theirs.len()];
        // A coordinator or another host of the store. Aliases of one host can't be cut off from one another.
        let others = all
            .iter()
            .filter(|host| host.address() != one.address())
            .filter(|host| host.has_link() || one.has_link());
        let others: Vec<_> = others.collect();
        let other = others[any / theirs.len() % others.len()];
        match self.fault {
            Fault::Partition => super::partition(&[(one, other), (other, one)], self.time).await,
            Fault::PartitionOneWay if self.coordinator.is_multiple_of(2) => {
                super::partition(&[(one, other)], self.time).await;
            }
            Fault::PartitionOneWay => super::partition(&[(other, one)], self.time).await,
            Fault::Isolate => {
                let pairs = others
                    .iter()
                    .flat_map(|other| [(one, *other), (*other, one)]);
                super::partition(&pairs.collect::<Vec<_>>(), self.time).await;
            }
            _ => {
                let links: Vec<_> = all.iter().filter(|host| host.has_link()).collect();
                let slow = links[any % links.len()];
                block_in_place(|| slow.slow_down());
                sleep(self.time).await;
                block_in_place(|| slow.speed_up());
            }
        }
    }

    async fn to_proxies(&self, store: &Store) {
        let proxies = store.proxies();
        let proxy = &proxies[self.any as usize % proxies.len()];
        match self.fault {
            Fault::Stall => {
                proxy.black_hole();
                sleep(self.time).await;
                proxy.forward();
            }
            Fault::Mute => {
                proxy.set_flow(Direction::ToClient, Flow::Discard);
                sleep(self.time).await;
                super::cut(proxy, Cut::Rst).await;
                proxy.forward();
            }
            Fault::Slow => {
                proxy.set_delay(self.time / 20);
                sleep(self.time).await;
                proxy.set_delay(Duration::ZERO);
            }
            _ => super::cut(proxy, Cut::Rst).await,
        }
    }

    async fn to_server(&self, store: &Store) {
        let servers = store.servers();
        let server = servers[self.any as usize % servers.len()];
        let time = self.time.as_millis().to_string();
        match self.fault {
            Fault::StopServer => {
                server.stop();
                sleep(self.time).await;
                server.cont();
            }
            Fault::Scripts => {
                redis::send(server, &redis::command(&["SCRIPT", "FLUSH"])).await;
            }
            Fault::KillConnections(kind) => {
                let kill = redis::command(&["CLIENT", "KILL", "TYPE", kind]);
                redis::send(server, &kill).await;
            }
            Fault::Pause(mode) => {
                let pause = redis::command(&["CLIENT", "PAUSE", &time, mode]);
                redis::send(server, &pause).await;
                sleep(self.time).await;
            }
            Fault::FullMemory => {
                let limit = |limit| redis::command(&["CONFIG", "SET", "maxmemory", limit]);
                redis::send(server, &limit("1")).await;
                sleep(self.time).await;
                redis::send(server, &limit("0")).await;
            }
            Fault::Sleep => {
                // Below the time for which the command itself is waited for.
                let seconds = (self.time / 2).as_secs_f64().to_string();
                redis::send(server, &redis::command(&["DEBUG", "SLEEP", &seconds])).await;
            }
            _ => {
                let flush = redis::command(&["FLUSHALL"]);
                let master = block_in_place(|| store.master(self.any));
                redis::send(master, &flush).await;
            }
        }
    }

    /// Moves the slot of a lock, while clients use it.
    fn move_slot(&self, cluster: &Cluster) {
        let lock = format!("lock:torture/exclusive/{}", self.any % 4);
        let slot = cluster.slot_of(&lock);
        let from = cluster.master_of(slot);
        let others = (0..cluster::SLOTS).step_by(1000);
        let to = others.map(|slot| cluster.master_of(slot));
        if let Some(to) = to.into_iter().find(|to| *to != from) {
            cluster.move_slot(slot, from, to);
        }
    }

    fn fail_over(&self, store: &mut Store) {
        match store {
            Store::Sentinel(sentinels) => self.fail_over_sentinels(sentinels),
            Store::Cluster(cluster) => self.fail_over_cluster(cluster),
            _ => {}
        }
    }

    fn fail_over_sentinels(&self, sentinels: &mut Sentinels) {
        let old = sentinels.master();
        match self.fault {
            Fault::FailOverByKill => sentinels.redis_mut().server_mut(old).kill(),
            Fault::FailOverByStop => sentinels.redis().server(old).stop(),
            _ => {
                let sentinel = &sentinels.sentinels()[self.any as usize % 3];
                let mut command = redis::command(&["SENTINEL", "FAILOVER"]);
                let asked = command
                    .arg(leasehold_tests::sentinels::MASTER_NAME)
                    .exec(&mut sentinel.connection());
                if let Err(error) = asked {
                    eprintln!("torture: no fail-over: {error}");
                    return;
                }
            }
        }
        sentinels.wait_failed_over(old);
        match self.fault {
            Fault::FailOverByKill => sentinels.redis_mut().server_mut(old).restart(),
            Fault::FailOverByStop => sentinels.redis().server(old).cont(),
            _ => {}
        }
    }

    fn fail_over_cluster(&self, cluster: &mut Cluster) {
        let old = cluster.master_of(slot(self.any));
        let Some(replica) = cluster.replica_of(old) else {
            return;
        };
        match self.fault {
            Fault::FailOverByKill => {
                cluster.kill(old);
                wait::until_blocking("the replica to be promoted", FAILED_OVER, || {
                    cluster.replica_of(old).map_or(Ok(()), Err)
                });
                cluster.restart(old);
            }
            Fault::FailOverByStop => {
                cluster.pause(old);
                std::thread::sleep(self.time + Duration::from_secs(2));
                cluster.resume(old);
            }
            _ => cluster.fail_over(replica),
        }
    }
}

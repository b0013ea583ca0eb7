//! Faults of coordinators and the store.

use std::time::Duration;

use leasehold_tests::{
    Cluster, Sentinels, cluster,
    proxy::{Cut, Direction},
    sentinels::MASTER_NAME,
    wait,
};
use rand::{Rng, rngs::StdRng};
use serde_json::json;
use tokio::{
    task::block_in_place,
    time::{Instant, sleep},
};

use super::{Break, credentials, disturb, kinds::Fault, millis, operators, redis};
use crate::{
    TTL,
    coordinators::Coordinators,
    record::Record,
    store::{Store, slot},
};

/// Number of faults one after the other, before a calm in which the order of service can be checked.
const BURST: usize = 6;
/// The calm. The checker takes waiting for disturbed until twelve seconds after a fault.
const CALM: Duration = Duration::from_secs(20);

/// Longest time until a master has been replaced.
const FAILED_OVER: Duration = Duration::from_secs(30);

/// Does faults to coordinators and the store until the end.
pub(crate) async fn run(
    store: &mut Store,
    coordinators: &mut Coordinators,
    record: &Record,
    mut random: StdRng,
    end: Instant,
) {
    let faults = Fault::of(store, coordinators.credentials().is_some());
    let mut calm = CALM;
    // Apart, so that each seed draws the same faults with and without what is done in a calm.
    let mut calm_random = random.clone();
    let mut left = 0;
    while Instant::now() + calm < end {
        sleep(calm).await;
        if left == 0 {
            // Whatever disturbed anybody is over: what is lost now is lost by this.
            credentials::rotate_any(coordinators, record, &mut calm_random).await;
            operators::force(coordinators, record, &mut calm_random).await;
        }
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
pub(super) struct Drawn {
    pub(super) fault: Fault,
    coordinator: usize,
    /// Chooses a server, a proxy or a client.
    pub(super) any: u32,
    pub(super) time: Duration,
}

impl Drawn {
    async fn apply(&self, store: &mut Store, coordinators: &mut Coordinators, record: &Record) {
        if credentials::apply(self, coordinators, record).await {
            return;
        }
        let effects = self.fault.effects(store);
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
            Fault::ClockAhead | Fault::ClockBehind | Fault::SlowDisk => self.to_clock(store).await,
            Fault::FailOver
            | Fault::FailOverByKill
            | Fault::FailOverByStop
            | Fault::LaggingFailOver => {
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
                if let Store::Single(redis, ..) = store {
                    redis.kill();
                    sleep(self.time / 2).await;
                    block_in_place(|| redis.restart());
                } else if let Store::Quorum(masters, ..) = store {
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
        if effects.loses_data || effects.cuts_leases {
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
        let proxy = std::slice::from_ref(&proxies[self.any as usize % proxies.len()]);
        let what = match self.fault {
            Fault::Stall => Break::Stall,
            Fault::Mute => Break::Discard(Direction::ToClient),
            Fault::Slow => Break::Slow,
            _ => Break::Cut,
        };
        disturb(proxy, what, self.time, Cut::Rst).await;
    }

    /// Steps a clock by less than the ten seconds beyond which the order of service is not promised, or slows a disk down.
    async fn to_clock(&self, store: &Store) {
        let clocks = store.clocks();
        let clock = &clocks[self.any as usize % clocks.len()];
        let by = i64::try_from(self.time.as_micros()).unwrap_or(i64::MAX);
        match self.fault {
            Fault::SlowDisk => {
                clock.delay_syncs(self.time / 20);
                sleep(self.time).await;
                clock.delay_syncs(Duration::ZERO);
            }
            fault => {
                clock.set_ahead(if fault == Fault::ClockAhead { by } else { -by });
                sleep(self.time).await;
                clock.set_ahead(0);
            }
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
                redis::send(server, &["SCRIPT", "FLUSH"]).await;
            }
            Fault::KillConnections(kind) => {
                redis::send(server, &["CLIENT", "KILL", "TYPE", kind]).await;
            }
            Fault::Pause(mode) => {
                redis::send(server, &["CLIENT", "PAUSE", &time, mode]).await;
                sleep(self.time).await;
            }
            Fault::FullMemory => {
                redis::send(server, &["CONFIG", "SET", "maxmemory", "1"]).await;
                sleep(self.time).await;
                redis::send(server, &["CONFIG", "SET", "maxmemory", "0"]).await;
            }
            Fault::Eviction => {
                let master = block_in_place(|| store.master(self.any));
                let set = |name, value| ["CONFIG", "SET", name, value];
                redis::send(master, &set("maxmemory-policy", "allkeys-random")).await;
                redis::send(master, &set("maxmemory", "1")).await;
                sleep(self.time / 2).await;
                redis::send(master, &set("maxmemory", "0")).await;
                redis::send(master, &set("maxmemory-policy", "noeviction")).await;
            }
            Fault::Sleep => {
                // Below the time for which the command itself is waited for.
                let seconds = (self.time / 2).as_secs_f64().to_string();
                redis::send(server, &["DEBUG", "SLEEP", &seconds]).await;
            }
            _ => {
                let master = block_in_place(|| store.master(self.any));
                redis::send(master, &["FLUSHALL"]).await;
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
            Fault::LaggingFailOver => {
                let servers = sentinels.redis().servers().iter().enumerate();
                let replicas: Vec<_> = servers.filter(|(number, _)| *number != old).collect();
                replicas.iter().for_each(|(_, replica)| replica.stop());
                std::thread::sleep(self.time / 2);
                let replicas: Vec<_> = replicas.into_iter().map(|(number, _)| number).collect();
                sentinels.redis_mut().server_mut(old).kill();
                for replica in replicas {
                    sentinels.redis().server(replica).cont();
                }
            }
            Fault::FailOverByStop => sentinels.redis().server(old).stop(),
            _ => {
                let sentinel = &sentinels.sentinels()[self.any as usize % 3];
                let mut command = ::redis::cmd("SENTINEL");
                let command = command.arg("FAILOVER").arg(MASTER_NAME);
                if let Err(error) = command.exec(&mut sentinel.connection()) {
                    eprintln!("torture: no fail-over: {error}");
                    return;
                }
            }
        }
        sentinels.wait_failed_over(old);
        match self.fault {
            Fault::FailOverByKill | Fault::LaggingFailOver => {
                sentinels.redis_mut().server_mut(old).restart();
            }
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
            Fault::FailOverByKill | Fault::LaggingFailOver => {
                if self.fault == Fault::LaggingFailOver {
                    cluster.pause(replica);
                    std::thread::sleep(self.time / 2);
                }
                cluster.kill(old);
                if self.fault == Fault::LaggingFailOver {
                    cluster.resume(replica);
                }
                until_promoted(cluster, old);
                cluster.restart(old);
            }
            Fault::FailOverByStop => {
                cluster.pause(old);
                until_promoted(cluster, old);
                cluster.resume(old);
            }
            _ => cluster.fail_over(replica),
        }
    }
}

/// Waits until the replica of a node that does not run has taken its place.
fn until_promoted(cluster: &Cluster, old: usize) {
    wait::until_blocking("the replica to be promoted", FAILED_OVER, || {
        cluster.replica_of(old).map_or(Ok(()), Err)
    });
}

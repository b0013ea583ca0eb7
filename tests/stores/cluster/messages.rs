//! Messages of coordinators to one another, and their cost on other nodes: each plain one goes to every node.

use std::collections::BTreeSet;

use leasehold_core::{
    command::{Acquire, Op, Reply, Resume},
    id::{OwnerId, SessionId},
    name::ClientName,
};
use leasehold_store::{Feed, Store, WakeUp};
use leasehold_tests::{Cluster, wait};
use tokio::{
    sync::mpsc::Receiver,
    task::block_in_place,
    time::{Instant, timeout},
};

use crate::{
    cluster::site::{LIMIT, names_on, slot_of},
    store::{self, LONG, command, options, up},
};

/// A coordinator without anything but its store.
pub(crate) struct Coordinator {
    id: &'static str,
    pub(crate) store: Store,
    wake_ups: Receiver<WakeUp>,
}

impl Coordinator {
    pub(crate) async fn start(cluster: &Cluster, id: &'static str) -> Self {
        let (store, wake_ups) = leasehold_store::open(options(cluster.url(), id)).unwrap();
        up(&store, LIMIT).await;
        Self {
            id,
            store,
            wake_ups,
        }
    }

    async fn ask(&self, name: &str, op: Op) -> Reply {
        let command = command(self.id, name, op);
        self.store.execute(command).await.unwrap().executed.reply
    }

    pub(crate) async fn acquire(&self, name: &str) {
        let granted = self.ask(name, acquire(owner(name, 0), false)).await;
        assert!(matches!(granted, Reply::Granted { .. }), "{granted:?}");
    }

    /// Joins the queue of a lock that is held.
    async fn wait_for(&self, name: &str) {
        let queued = self.ask(name, acquire(owner(name, 1), true)).await;
        assert!(matches!(queued, Reply::Queued { .. }), "{queued:?}");
    }

    pub(crate) async fn release(&self, name: &str) {
        let released = self.ask(name, store::release(owner(name, 0))).await;
        assert!(matches!(released, Reply::Released { .. }), "{released:?}");
    }

    pub(crate) async fn look(&self, name: &str, feed: &Feed) {
        let look = Op::Look { feed: feed.id() };
        assert_eq!(self.ask(name, look).await, Reply::Looked);
    }

    async fn renew(&self, name: &str) {
        let renewed = self.ask(name, store::renew(owner(name, 0))).await;
        assert_eq!(renewed, Reply::Renewed);
    }

    async fn resume(&self, name: &str) {
        let resume = Resume {
            from: vec![owner(name, 0)],
            next: owner(name, 1),
            session: Some(SessionId::from_bytes([1; 16])),
            client_name: ClientName::default(),
            ttl: LONG,
            count: 1,
            max_hold: None,
        };
        let resumed = self.ask(name, Op::Resume(resume)).await;
        assert!(matches!(resumed, Reply::Resumed { .. }), "{resumed:?}");
    }

    /// Returns the names in the next messages about resumes and force releases, sorted.
    async fn told(&mut self, number: usize) -> Vec<String> {
        let deadline = Instant::now() + LIMIT;
        let mut names = Vec::new();
        while names.len() < number {
            let told = tokio::time::timeout_at(deadline, self.wake_ups.recv()).await;
            match told.expect("it is told").unwrap() {
                WakeUp::Resumed { name, .. } | WakeUp::Forced { name, .. } => {
                    names.push(name.as_str().to_owned());
                }
                _ => {}
            }
        }
        names.sort();
        names
    }
}

fn acquire(owner: OwnerId, wait: bool) -> Op {
    Op::Acquire(Acquire {
        wait,
        ..store::acquire(owner)
    })
}

fn owner(name: &str, number: u8) -> OwnerId {
    let mut bytes = [number; 16];
    bytes[..2].copy_from_slice(&slot_of(name).to_be_bytes());
    OwnerId::from_bytes(bytes)
}

/// Returns the number of plain messages that the nodes have sent one another.
pub(crate) fn on_the_bus(cluster: &Cluster) -> u64 {
    let sent = cluster.nodes().iter().map(|node| {
        let mut info = redis::cmd("CLUSTER");
        let info: String = info.arg("INFO").query(&mut node.connection()).unwrap();
        let sent = info
            .lines()
            .find_map(|line| line.strip_prefix("cluster_stats_messages_publish_sent:"));
        sent.map_or(0, |sent| sent.trim().parse::<u64>().unwrap())
    });
    sent.sum()
}

/// Returns the number of slot channels that this coordinator listens to.
fn listened_to(cluster: &Cluster, coordinator: &str) -> usize {
    channels(cluster, &format!("*:wake:{coordinator}"))
}

/// Returns the number of slot channels that match a pattern and have a listener.
pub(crate) fn channels(cluster: &Cluster, pattern: &str) -> usize {
    let of_node = cluster.nodes().iter().map(|node| {
        let mut channels = redis::cmd("PUBSUB");
        channels.arg("SHARDCHANNELS").arg(pattern);
        let channels: Vec<String> = channels.query(&mut node.connection()).unwrap();
        channels.len()
    });
    of_node.sum()
}

/// Waits until this coordinator listens to so many of them.
async fn until_listened_to(cluster: &Cluster, coordinator: &str, slots: usize) {
    wait::until("it to listen to slots", LIMIT, || async {
        let number = listened_to(cluster, coordinator);
        if number == slots { Ok(()) } else { Err(number) }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ends_of_kept_holds_are_sent_to_their_coordinator_and_to_no_other_node() {
    const LOCKS: usize = 60;
    let cluster = Cluster::start();
    let mut here = Coordinator::start(&cluster, "here").await;
    let there = Coordinator::start(&cluster, "there").await;
    let mut names: Vec<String> = (0..LOCKS).map(|number| format!("lock/{number}")).collect();
    names.sort();
    let slots: BTreeSet<u16> = names.iter().map(|name| slot_of(name)).collect();
    for name in &names {
        here.acquire(name).await;
        here.renew(name).await;
    }
    until_listened_to(&cluster, "here", slots.len()).await;

    // Half of them move to another coordinator, as in a drain; the others are released by force.
    let before = on_the_bus(&cluster);
    let (resumed, forced) = names.split_at(names.len() / 2);
    for name in resumed {
        there.resume(name).await;
    }
    for name in forced {
        let released = there.ask(name, Op::ForceRelease).await;
        assert!(matches!(released, Reply::Forced { .. }), "{released:?}");
    }
    assert_eq!(here.told(names.len()).await, names);
    assert_eq!(on_the_bus(&cluster), before, "no other node is told");

    // A hold that was never renewed: its coordinator does not listen there, and is told all the same.
    let young = (0..).map(|number| format!("young/{number}"));
    let mut young = young.filter(|name| names.iter().all(|other| slot_of(other) != slot_of(name)));
    let young = young.next().unwrap();
    here.acquire(&young).await;
    there.resume(&young).await;
    assert_eq!(here.told(1).await, [young]);
    wait::until("the nodes to be told of that one", LIMIT, || async {
        let sent = on_the_bus(&cluster) - before;
        if sent > 0 { Ok(()) } else { Err(sent) }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn slots_in_which_nobody_waits_any_more_are_not_listened_to() {
    let cluster = Cluster::start();
    let here = Coordinator::start(&cluster, "here").await;
    assert_eq!(listened_to(&cluster, "here"), 0);
    // Whoever refreshes a name has waiters there.
    for name in ["waited for", "waited for, too"] {
        let seen = here.ask(name, Op::Refresh { oldest: None }).await;
        assert!(matches!(seen, Reply::Refreshed { .. }), "{seen:?}");
    }
    until_listened_to(&cluster, "here", 2).await;
    until_listened_to(&cluster, "here", 0).await;
}

/// A waiter's coordinator listens to the slot at its old node until it learns of the move, which may take a second.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_waiter_is_woken_though_its_coordinator_does_not_listen_at_the_new_node_yet() {
    let cluster = Cluster::start();
    let holder = Coordinator::start(&cluster, "holder").await;
    let mut waiter = Coordinator::start(&cluster, "waiter").await;
    let name = names_on(0).next().unwrap();
    holder.acquire(&name).await;
    waiter.wait_for(&name).await;
    until_listened_to(&cluster, "waiter", 1).await;
    block_in_place(|| cluster.move_slot(slot_of(&name), 0, 1));
    until_listened_to(&cluster, "waiter", 0).await;

    holder.release(&name).await;
    let woken = async {
        loop {
            if let WakeUp::Granted { name, .. } = waiter.wake_ups.recv().await.unwrap() {
                return name;
            }
        }
    };
    let woken = timeout(LIMIT, woken).await.expect("the waiter is woken");
    assert_eq!(woken.as_str(), name);
}

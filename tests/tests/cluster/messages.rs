//! Messages of coordinators to one another, and what they cost the other nodes: each plain one goes to every node.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use leasehold_core::{
    command::{Acquire, Caller, Command, End, Op, Reply, Resume},
    id::{Actor, CoordinatorId, FencingToken, OwnerId, SessionId},
    mode::Mode,
    name::{ClientName, LockName, Value},
};
use leasehold_store::{Feed, FeedItem, LockStore, Options, Status, Store, Subject, WakeUp};
use leasehold_tests::{Cluster, alone::alone, report, wait};
use tokio::{
    sync::mpsc::Receiver,
    time::{Instant, timeout},
};

use crate::site::{LIMIT, names_on, slot_of};

const TTL: Duration = Duration::from_secs(600);

/// A coordinator without anything but its store.
struct Coordinator {
    id: CoordinatorId,
    store: Store,
    wake_ups: Receiver<WakeUp>,
}

impl Coordinator {
    async fn start(cluster: &Cluster, id: &str) -> Self {
        let id = CoordinatorId::new(id);
        let (store, wake_ups) = leasehold_store::open(Options {
            url: cluster.url(),
            tls: leasehold_store::TlsFiles::default(),
            key_prefix: "lock:".into(),
            timeout: Duration::from_secs(5),
            connections: 1,
            acknowledgement: None,
            max_hold: TTL,
            meter: leasehold_store::measure::Meter::default(),
            coordinator: id.clone(),
        })
        .unwrap();
        let mut status = store.status();
        let up = status.wait_for(|status| matches!(status, Status::Up { .. }));
        timeout(LIMIT, up).await.unwrap().unwrap();
        Self {
            id,
            store,
            wake_ups,
        }
    }

    async fn ask(&self, name: &str, op: Op) -> Reply {
        let command = Command {
            name: LockName::parse(name).unwrap(),
            caller: Caller {
                coordinator: self.id.clone(),
                floor: FencingToken::new(0),
                token_memory: TTL * 2,
                not_after: None,
            },
            op,
        };
        self.store.execute(command).await.unwrap().executed.reply
    }

    async fn acquire(&self, name: &str) {
        let acquire = Acquire {
            owner: owner(name, 0),
            session: None,
            actor: Actor::NOBODY,
            client_name: ClientName::default(),
            mode: Mode::Exclusive,
            value: Value::default(),
            ttl: TTL,
            lock_delay: Duration::ZERO,
            wait: false,
            again: false,
        };
        let granted = self.ask(name, Op::Acquire(acquire)).await;
        assert!(matches!(granted, Reply::Granted { .. }), "{granted:?}");
    }

    async fn release(&self, name: &str) {
        let release = Op::Release {
            owner: owner(name, 0),
            end: End::Clean,
        };
        let released = self.ask(name, release).await;
        assert!(matches!(released, Reply::Released { .. }), "{released:?}");
    }

    async fn look(&self, name: &str, feed: &Feed) {
        let look = Op::Look { feed: feed.id() };
        assert_eq!(self.ask(name, look).await, Reply::Looked);
    }

    async fn renew(&self, name: &str) {
        let renew = Op::Renew {
            owner: owner(name, 0),
            ttl: TTL,
        };
        assert_eq!(self.ask(name, renew).await, Reply::Renewed);
    }

    async fn resume(&self, name: &str) {
        let resume = Resume {
            from: vec![owner(name, 0)],
            next: owner(name, 1),
            session: SessionId::from_bytes([1; 16]),
            client_name: ClientName::default(),
            ttl: TTL,
            count: 1,
        };
        let resumed = self.ask(name, Op::Resume(resume)).await;
        assert!(matches!(resumed, Reply::Resumed { .. }), "{resumed:?}");
    }

    /// The names of the next locks of which it is told that they were resumed or force released, sorted.
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

fn owner(name: &str, number: u8) -> OwnerId {
    let mut bytes = [number; 16];
    bytes[..2].copy_from_slice(&slot_of(name).to_be_bytes());
    OwnerId::from_bytes(bytes)
}

/// How many plain messages the nodes have sent one another.
fn on_the_bus(cluster: &Cluster) -> u64 {
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

/// How many channels of slots this coordinator listens to.
fn listened_to(cluster: &Cluster, coordinator: &str) -> usize {
    channels(cluster, &format!("*:wake:{coordinator}"))
}

/// How many channels of slots that match a pattern somebody listens to.
fn channels(cluster: &Cluster, pattern: &str) -> usize {
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
async fn what_becomes_of_kept_holds_is_told_to_their_coordinator_and_to_no_other_node() {
    const LOCKS: usize = 60;
    let _alone = alone().await;
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
    let _alone = alone().await;
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

/// Follows subjects until the feed says that it does. Fails if it has to begin anew meanwhile.
async fn follow(feed: &mut Feed, subjects: &[Subject]) {
    for subject in subjects {
        feed.follow(subject.clone());
    }
    let mut missing = subjects.to_vec();
    while !missing.is_empty() {
        match next(feed).await {
            FeedItem::Followed(subject) => missing.retain(|it| *it != subject),
            other => panic!("{other:?}"),
        }
    }
}

async fn next(feed: &mut Feed) -> FeedItem {
    let item = timeout(LIMIT, feed.next()).await;
    item.expect("the feed goes on").unwrap()
}

/// The next items, counted by lock and by what each is told for.
async fn told(feed: &mut Feed, number: usize) -> BTreeMap<(String, &'static str), usize> {
    let mut told = BTreeMap::new();
    for _ in 0..number {
        let FeedItem::Told(item) = next(feed).await else {
            panic!("something else is told");
        };
        let subject = match item.subject {
            None => "look",
            Some(Subject::Everything) => "everything",
            Some(Subject::Name(_)) => "name",
        };
        *told.entry((item.name.to_string(), subject)).or_default() += 1;
    }
    told
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn changes_are_told_to_those_who_watch_and_to_no_other_node() {
    let _alone = alone().await;
    let cluster = Cluster::start();
    let here = Coordinator::start(&cluster, "here").await;
    let there = Coordinator::start(&cluster, "there").await;
    let names: Vec<String> = (0..3).flat_map(|master| names_on(master).take(4)).collect();
    let subject = |name: &String| Subject::Name(LockName::parse(name).unwrap());
    let [mut all, mut some] = [here.store.feed(), there.store.feed()];
    for feed in [&mut all, &mut some] {
        assert_eq!(next(feed).await, FeedItem::Started);
    }
    let asked = Instant::now();
    follow(&mut all, &[Subject::Everything]).await;
    report(format!(
        "all slots are followed after {:?}",
        asked.elapsed()
    ));
    let followed: Vec<_> = names.iter().step_by(2).map(subject).collect();
    follow(&mut some, &followed).await;

    let before = on_the_bus(&cluster);
    for name in &names {
        there.acquire(name).await;
        there.release(name).await;
        here.look(name, &all).await;
    }
    for name in names.iter().step_by(2) {
        here.look(name, &some).await;
    }
    let each = |names: &mut dyn Iterator<Item = &String>, subject, number| {
        let counted = names.map(|name| ((name.clone(), subject), number));
        counted.collect::<BTreeMap<_, usize>>()
    };
    let mut expected = each(&mut names.iter(), "everything", 2);
    expected.extend(each(&mut names.iter(), "look", 1));
    assert_eq!(told(&mut all, 3 * names.len()).await, expected);
    let mut expected = each(&mut names.iter().step_by(2), "name", 2);
    expected.extend(each(&mut names.iter().step_by(2), "look", 1));
    assert_eq!(told(&mut some, 3 * followed.len()).await, expected);
    assert_eq!(on_the_bus(&cluster), before, "no other node is told");

    // What is not followed any more is told no more, and its slots are given up.
    all.unfollow(Subject::Everything);
    assert_eq!(
        next(&mut all).await,
        FeedItem::Unfollowed(Subject::Everything)
    );
    for subject in &followed {
        some.unfollow(subject.clone());
    }
    wait::until("the slots to be forgotten", LIMIT, || async {
        let listened_to = channels(&cluster, "*:watch");
        if listened_to == 0 {
            Ok(())
        } else {
            Err(listened_to)
        }
    })
    .await;
    there.acquire(&names[0]).await;
    follow(&mut all, &[subject(&names[1])]).await;
    there.acquire(&names[1]).await;
    let expected = each(&mut names[1..2].iter(), "name", 1);
    assert_eq!(told(&mut all, 1).await, expected);
}

//! Feeds, which learn of changes by messages: those of a slot's channel go to no other node, plain ones to every node.

use std::collections::BTreeMap;

use leasehold_core::name::LockName;
use leasehold_store::{Feed, FeedItem, Subject};
use leasehold_tests::{Cluster, report, wait};
use tokio::{
    task::block_in_place,
    time::{Instant, timeout},
};

use crate::cluster::{
    messages::{Coordinator, channels, on_the_bus},
    site::{LIMIT, names_on, slot_of},
};

/// Returns how many times the nodes were asked to tell of a slot.
fn subscriptions(cluster: &Cluster) -> u64 {
    let of_node = cluster.nodes().iter().map(|node| {
        let mut info = redis::cmd("INFO");
        let info = info.arg("commandstats").query(&mut node.connection());
        let info: String = info.unwrap();
        let calls = info.lines().find_map(|line| {
            let (calls, _) = line
                .strip_prefix("cmdstat_ssubscribe:calls=")?
                .split_once(',')?;
            Some(calls.parse::<u64>().unwrap())
        });
        calls.unwrap_or(0)
    });
    of_node.sum()
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

/// Waits until the feed follows everything, however often it begins anew meanwhile.
async fn follow_everything(feed: &mut Feed) {
    let followed = async {
        loop {
            match next(feed).await {
                FeedItem::Started => feed.follow(Subject::Everything),
                FeedItem::Followed(Subject::Everything) => return,
                other => panic!("{other:?}"),
            }
        }
    };
    let followed = timeout(LIMIT, followed).await;
    followed.expect("the feed follows everything in time");
}

/// Returns the next items, counted by lock and audience.
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
    assert_eq!(on_the_bus(&cluster), before, "no other node is told");
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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_feed_of_everything_listens_to_no_other_slot_than_the_one_that_has_moved() {
    let cluster = Cluster::start();
    let here = Coordinator::start(&cluster, "here").await;
    let there = Coordinator::start(&cluster, "there").await;
    let mut feed = here.store.feed();
    follow_everything(&mut feed).await;
    let before = subscriptions(&cluster);
    assert!(before >= 16_384, "{before}");

    let name = names_on(0).next().unwrap();
    block_in_place(|| cluster.move_slot(slot_of(&name), 0, 1));
    follow_everything(&mut feed).await;
    assert_eq!(subscriptions(&cluster), before + 1);

    let before = on_the_bus(&cluster);
    there.acquire(&name).await;
    assert_eq!(on_the_bus(&cluster), before, "no other node is told");
    let expected = BTreeMap::from([((name, "everything"), 1)]);
    assert_eq!(told(&mut feed, 1).await, expected);
}

/// As before Redis 7, or where the user may not use channels of slots.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn changes_are_told_to_every_node_where_slots_have_no_channels() {
    let cluster = Cluster::start();
    for node in cluster.nodes() {
        let mut acl = redis::cmd("ACL");
        let acl = acl.arg(&["SETUSER", "default", "-ssubscribe"]);
        acl.exec(&mut node.connection()).unwrap();
    }
    let here = Coordinator::start(&cluster, "here").await;
    let there = Coordinator::start(&cluster, "there").await;
    let name = names_on(0).next().unwrap();
    let [mut all, mut some] = [here.store.feed(), there.store.feed()];
    follow_everything(&mut all).await;
    assert_eq!(next(&mut some).await, FeedItem::Started);
    let subject = Subject::Name(LockName::parse(&name).unwrap());
    follow(&mut some, &[subject]).await;

    let before = on_the_bus(&cluster);
    there.acquire(&name).await;
    for (feed, subject) in [(&mut all, "everything"), (&mut some, "name")] {
        let expected = BTreeMap::from([((name.clone(), subject), 1)]);
        assert_eq!(told(feed, 1).await, expected);
    }
    assert!(on_the_bus(&cluster) > before, "every node is told");
}

//! Cost of a feed without followers: scripts publish nothing and ask one question a call.

use std::collections::HashMap;

use leasehold_core::mode::Mode;
use leasehold_store::{FeedItem, Subject};

use super::world::{World, acquire, command, follow, heard, named, next};
use crate::{common::release, store::server::Server};

/// Returns the number of calls of each command.
fn calls(server: &mut Server) -> HashMap<String, u64> {
    let info: String = server.admin("INFO commandstats");
    let mut sums = HashMap::new();
    for line in info.lines() {
        let Some((command, stats)) = line
            .strip_prefix("cmdstat_")
            .and_then(|line| line.split_once(":calls="))
        else {
            continue;
        };
        // Redis 6.2 counts subcommands together.
        let command = command.split('|').next().unwrap().to_owned();
        let calls = stats.split(',').next().unwrap();
        *sums.entry(command).or_default() += calls.parse::<u64>().unwrap();
    }
    sums
}

/// Commands of a kind that Redis carries out meanwhile: in how many calls of the script, and how often.
async fn count(world: &mut World, kind: &str, names: &[&str]) -> (u64, u64) {
    let before = calls(world.server());
    for op in [acquire(1, Mode::Exclusive), release(1)] {
        let commands = names.iter().map(|name| command(name, op.clone()));
        let results = world.store.execute_all(commands.collect()).await;
        assert!(results.iter().all(Result::is_ok));
    }
    let after = calls(world.server());
    let of = |kind: &str| {
        let times = |calls: &HashMap<String, u64>| calls.get(kind).copied().unwrap_or(0);
        times(&after) - times(&before)
    };
    (of("evalsha"), of(kind))
}

#[tokio::test(flavor = "multi_thread")]
async fn while_nobody_watches_one_question_a_call_is_all() {
    let mut world = World::on_redis().await;
    let names: Vec<String> = (0..200).map(|number| format!("name {number}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    for _ in 0..5 {
        let (scripts, asked) = count(&mut world, "pubsub", &names).await;
        assert!(scripts < 100, "{scripts} calls are few enough to tell");
        assert_eq!(asked, scripts);
        assert_eq!(count(&mut world, "publish", &names).await.1, 0);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn others_who_listen_to_patterns_see_nothing_published() {
    let mut world = World::on_redis().await;
    let mut connection = world.server().connection();
    let mut listener = connection.as_pubsub();
    listener.psubscribe("elsewhere:*").unwrap();
    let (scripts, asked) = count(&mut world, "pubsub", &["x", "y"]).await;
    assert_eq!(asked, 2 * scripts);
    assert_eq!(count(&mut world, "publish", &["x", "y"]).await.1, 0);
    let mut feed = world.follow(named("x")).await;
    world.cycle("x").await;
    assert_eq!(heard(&mut feed).await, "x: x granted");
}

#[tokio::test(flavor = "multi_thread")]
async fn changes_of_unfollowed_names_are_not_published() {
    let mut world = World::on_redis().await;
    let mut feed = world.feed().await;
    assert_eq!(count(&mut world, "publish", &["x", "y"]).await.1, 0);
    follow(&mut feed, named("x")).await;
    assert_eq!(count(&mut world, "publish", &["y", "z"]).await.1, 0);
    assert_eq!(count(&mut world, "publish", &["x", "y"]).await.1, 2);
    for told in ["x: x granted", "x: x released"] {
        assert_eq!(heard(&mut feed).await, told);
    }
    follow(&mut feed, Subject::Everything).await;
    // An acquire and a release of each, and those of x for each who follows it.
    assert_eq!(count(&mut world, "publish", &["x", "y"]).await.1, 6);
    feed.unfollow(Subject::Everything);
    feed.unfollow(named("x"));
    while next(&mut feed).await != FeedItem::Unfollowed(named("x")) {}
    assert_eq!(count(&mut world, "publish", &["x", "y"]).await.1, 0);
    drop(feed);
}

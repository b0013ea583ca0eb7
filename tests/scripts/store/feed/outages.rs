//! Feed that may have missed something, and begins anew.

use std::time::{Duration, Instant};

use leasehold_core::mode::Mode;
use leasehold_store::{FeedItem, Subject};

use super::{
    proxy::Proxy,
    world::{World, acquire, command, connect_with, follow, heard, named, next, release},
};
use crate::store::server::{PATIENCE, RedisServer};

/// Number of changes that exceeds what a feed keeps for a slow reader.
const MANY: usize = 20_000;

#[tokio::test(flavor = "multi_thread")]
async fn it_begins_anew_when_its_connection_is_killed() {
    let mut world = World::on_redis().await;
    let mut feed = world.follow(named("x")).await;
    for _ in 0..3 {
        let server = world.server.as_mut().unwrap();
        let killed: i64 = server.admin("CLIENT KILL TYPE pubsub");
        assert!(killed >= 1, "{killed} connections were killed");
        assert_eq!(next(&mut feed).await, FeedItem::Started);
        // It follows nothing.
        world.cycle("x").await;
        follow(&mut feed, named("x")).await;
        world.cycle("x").await;
        assert_eq!(heard(&mut feed).await, "x: x granted");
        assert_eq!(heard(&mut feed).await, "x: x released");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn it_begins_anew_when_nothing_comes_through() {
    let world = World::on_redis().await;
    let proxy = Proxy::start(world.server.as_ref().unwrap().port()).await;
    let store = connect_with(&proxy.url(), Duration::from_secs(1)).await;
    let mut feed = store.feed();
    assert_eq!(next(&mut feed).await, FeedItem::Started);
    follow(&mut feed, Subject::Everything).await;
    proxy.swallow();
    world.cycle("x").await;
    assert_eq!(next(&mut feed).await, FeedItem::Started);
    follow(&mut feed, Subject::Everything).await;
    world.cycle("y").await;
    assert_eq!(heard(&mut feed).await, "*: y granted");
}

#[tokio::test(flavor = "multi_thread")]
async fn it_begins_anew_when_the_server_comes_back() {
    let mut world = World::on_redis().await;
    let mut feed = world.follow(Subject::Everything).await;
    let server = world.server.as_mut().unwrap();
    server.kill();
    server.start_again();
    let item = next(&mut feed).await;
    assert_eq!(item, FeedItem::Started);
    follow(&mut feed, named("y")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn it_begins_anew_when_its_reader_falls_behind() {
    for mut world in World::each().await {
        let mut quick = world.follow(named("y")).await;
        let mut feed = world.follow(Subject::Everything).await;
        let before = world.server.as_mut().map(newest_listener);
        let commands = (0..MANY).map(|number| match number % 2 {
            0 => command("x", acquire(1, Mode::Exclusive)),
            _ => command("x", release(1)),
        });
        let results = world.store.execute_all(commands.collect()).await;
        assert!(results.iter().all(Result::is_ok));
        let begun = Instant::now();
        while before.is_some() && world.server.as_mut().map(newest_listener) == before {
            assert!(begun.elapsed() < PATIENCE, "its connection is still there");
            tokio::task::yield_now().await;
        }
        let mut told = 0;
        loop {
            match next(&mut feed).await {
                FeedItem::Told(_) => told += 1,
                FeedItem::Started => break,
                other => panic!("{other:?} was not asked for"),
            }
        }
        assert!((1000..MANY).contains(&told), "{told} were told first");
        follow(&mut feed, named("x")).await;
        world.cycle("x").await;
        assert_eq!(heard(&mut feed).await, "x: x granted");
        // Nobody else is the worse for it.
        world.cycle("y").await;
        assert_eq!(heard(&mut quick).await, "y: y granted");
    }
}

/// Returns the connection that began to listen last.
fn newest_listener(server: &mut RedisServer) -> u64 {
    let clients: String = server.admin("CLIENT LIST TYPE pubsub");
    let ids = clients.lines().filter_map(|line| {
        let (id, _) = line.strip_prefix("id=")?.split_once(' ')?;
        id.parse().ok()
    });
    ids.max().unwrap_or(0)
}

#[tokio::test(flavor = "multi_thread")]
async fn its_connection_is_closed_with_it() {
    let mut world = World::on_redis().await;
    let mut listening = || {
        let server = world.server.as_mut().unwrap();
        let (_, number): (String, u64) = server.admin("PUBSUB NUMSUB lh:watching:0");
        let clients: String = server.admin("CLIENT LIST TYPE pubsub");
        (number, clients.lines().count())
    };
    // The one that waits for wake-ups may still be on its way.
    let begun = Instant::now();
    while listening() != (0, 1) {
        assert!(begun.elapsed() < PATIENCE, "nobody waits for wake-ups");
        tokio::task::yield_now().await;
    }
    let mut feed = world.store.feed();
    assert_eq!(next(&mut feed).await, FeedItem::Started);
    assert_eq!(listening(), (1, 2));
    drop(feed);
    let begun = Instant::now();
    while listening() != (0, 1) {
        assert!(begun.elapsed() < PATIENCE, "it is still there");
        tokio::task::yield_now().await;
    }
}

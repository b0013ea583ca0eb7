//! Feed that may have missed something, and begins anew.

use std::time::Duration;

use leasehold_core::mode::Mode;
use leasehold_store::{FeedItem, Options, Subject};
use leasehold_tests::{FaultProxy, wait};

use super::world::{World, acquire, begin, begins, command, follow, heard, named, next};
use crate::{
    common::{PATIENCE, connect, options, release},
    store::server::Server,
};

/// Number of changes that exceeds what a feed keeps for a slow reader.
const MANY: usize = 20_000;

#[tokio::test(flavor = "multi_thread")]
async fn it_begins_anew_when_its_connection_is_killed() {
    let mut world = World::on_redis().await;
    let mut feed = world.follow(named("x")).await;
    for _ in 0..3 {
        let killed: i64 = world.server().admin("CLIENT KILL TYPE pubsub");
        assert!(killed >= 1, "{killed} connections were killed");
        begins(&mut feed).await;
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
    let mut world = World::on_redis().await;
    let proxy = FaultProxy::start(world.server().address()).await;
    let (store, _wake_ups) = connect(Options {
        timeout: Duration::from_secs(1),
        ..options(&world.server().url_through(proxy.address()))
    })
    .await;
    let mut feed = begin(&store).await;
    follow(&mut feed, Subject::Everything).await;
    proxy.black_hole_present();
    world.cycle("x").await;
    begins(&mut feed).await;
    follow(&mut feed, Subject::Everything).await;
    world.cycle("y").await;
    assert_eq!(heard(&mut feed).await, "*: y granted");
}

#[tokio::test(flavor = "multi_thread")]
async fn it_begins_anew_when_the_server_comes_back() {
    let mut world = World::on_redis().await;
    let mut feed = world.follow(Subject::Everything).await;
    world.server().kill();
    world.server().restart();
    begins(&mut feed).await;
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
        wait::until_blocking("another connection", PATIENCE, || {
            let newest = world.server.as_mut().map(newest_listener);
            let is_new = before.is_none() || newest != before;
            is_new.then_some(()).ok_or(newest)
        });
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
fn newest_listener(server: &mut Server) -> u64 {
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
    // The one that waits for wake-ups may still be on its way.
    listens(&mut world, (0, 1));
    let feed = world.feed().await;
    listens(&mut world, (1, 2));
    drop(feed);
    listens(&mut world, (0, 1));
}

/// Waits until so many subscribe to changes, and have subscribed to anything.
fn listens(world: &mut World, expected: (u64, usize)) {
    let server = world.server();
    wait::until_blocking("the subscriptions", PATIENCE, || {
        let (_, number): (String, u64) = server.admin("PUBSUB NUMSUB lh:watching:0");
        let clients: String = server.admin("CLIENT LIST TYPE pubsub");
        let found = (number, clients.lines().count());
        (found == expected).then_some(()).ok_or(found)
    });
}

//! Order and recipients of a feed's events.

use std::time::Duration;

use leasehold_core::{
    command::{Acquire, Op, Reply},
    id::FeedId,
    mode::Mode,
};
use leasehold_store::{FeedItem, Subject};
use tokio::time::{sleep, timeout};

use super::world::{World, acquire, begin, connect, follow, heard, look, named, next, told};
use crate::common::{PATIENCE, acquiring, release, renew};

/// Time between looks.
const AGAIN: Duration = Duration::from_millis(10);

#[tokio::test(flavor = "multi_thread")]
async fn changes_of_a_followed_name_are_reported_from_its_confirmation_on() {
    for world in World::each().await {
        let mut feed = world.feed().await;
        world.cycle("a").await;
        follow(&mut feed, named("a")).await;
        world.cycle("a").await;
        feed.follow(Subject::Everything);
        assert_eq!(heard(&mut feed).await, "a: a granted");
        assert_eq!(heard(&mut feed).await, "a: a released");
        assert_eq!(
            next(&mut feed).await,
            FeedItem::Followed(Subject::Everything)
        );

        // Each tells it.
        world.run("a", acquire(1, Mode::Exclusive)).await;
        let mut both = [heard(&mut feed).await, heard(&mut feed).await];
        both.sort_unstable();
        assert_eq!(both, ["*: a granted", "a: a granted"]);

        // Requests are confirmed in order, several at once too.
        feed.unfollow(named("a"));
        feed.follow(named("b"));
        feed.follow(named("c"));
        feed.unfollow(Subject::Everything);
        for confirmed in [
            FeedItem::Unfollowed(named("a")),
            FeedItem::Followed(named("b")),
            FeedItem::Followed(named("c")),
            FeedItem::Unfollowed(Subject::Everything),
        ] {
            assert_eq!(next(&mut feed).await, confirmed);
        }
        world.run("a", release(1)).await;
        world.cycle("c").await;
        assert_eq!(heard(&mut feed).await, "c: c granted");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn of_two_names_only_the_followed_one_is_told() {
    for world in World::each().await {
        let mut feed = world.follow(named("one")).await;
        for _ in 0..3 {
            world.cycle("one and more").await;
            world.cycle("one").await;
            world.cycle("on").await;
            assert_eq!(heard(&mut feed).await, "one: one granted");
            assert_eq!(heard(&mut feed).await, "one: one released");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn changes_are_told_as_they_were_made() {
    for world in World::each().await {
        let mut feed = world.follow(Subject::Everything).await;
        world.run("x", acquire(1, Mode::Exclusive)).await;
        world.run("x", acquire(2, Mode::Shared)).await;
        world.run("x", acquire(3, Mode::Shared)).await;
        world.run("x", acquire(4, Mode::Exclusive)).await;
        world.run("x", release(1)).await;
        world.run("x", release(4)).await;
        world.run("x", Op::ForceRelease).await;
        world.run("x", renew(2, Duration::from_secs(1))).await;
        for expected in [
            "*: x granted",
            "*: x queued, 1 waiting",
            "*: x queued, 2 waiting",
            "*: x queued, 3 waiting",
            "*: x released+granted+granted, 1 waiting",
            "*: x withdrawn",
            "*: x forced+forced",
            "*: x lost",
        ] {
            assert_eq!(heard(&mut feed).await, expected);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_look_has_its_place_among_what_is_told() {
    for world in World::each().await {
        let mut feed = world.follow(named("x")).await;
        let mut other = world.follow(Subject::Everything).await;
        let id = feed.id();
        for _ in 0..3 {
            assert_eq!(world.run("x", look(id)).await.reply, Reply::Looked);
            world.run("x", acquire(1, Mode::Exclusive)).await;
            let looked = world.run("x", look(id)).await;
            world.run("x", release(1)).await;

            assert_eq!(heard(&mut feed).await, "looked: x held by 0");
            assert_eq!(heard(&mut feed).await, "x: x granted");
            let answer = told(&mut feed).await;
            assert_eq!((answer.subject, answer.at), (None, looked.at));
            assert_eq!(answer.telling.waiter_count, Some(0));
            assert_eq!(heard(&mut feed).await, "x: x released");
        }
        // Nobody else is told of a look, nor is anybody of one for a feed that is gone.
        world.run("x", look(FeedId::new(0))).await;
        world.cycle("y").await;
        for _ in 0..3 {
            assert_eq!(heard(&mut other).await, "*: x granted");
            assert_eq!(heard(&mut other).await, "*: x released");
        }
        assert_eq!(heard(&mut other).await, "*: y granted");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_expiry_that_a_look_finds_is_reported_to_all() {
    for world in World::each().await {
        let brief = Acquire {
            ttl: Duration::from_secs(1),
            ..acquiring(1, Mode::Shared)
        };
        world.run("x", Op::Acquire(brief)).await;
        world.run("x", acquire(2, Mode::Shared)).await;
        let mut feed = world.follow(named("x")).await;
        let mut other = world.follow(Subject::Everything).await;
        let id = feed.id();
        let found = timeout(PATIENCE, async {
            loop {
                world.run("x", look(id)).await;
                match heard(&mut feed).await {
                    held if held == "looked: x held by 2" => sleep(AGAIN).await,
                    found => return found,
                }
            }
        });
        assert_eq!(found.await.unwrap(), "x: x expired");
        assert_eq!(heard(&mut feed).await, "looked: x held by 1");
        assert_eq!(heard(&mut other).await, "*: x expired");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn databases_do_not_hear_one_another() {
    let mut world = World::on_redis().await;
    let url = world.server().url();
    let other = World {
        store: connect(&format!("{url}/1")).await,
        server: None,
    };
    let mut feeds = [
        world.follow(Subject::Everything).await,
        other.follow(Subject::Everything).await,
    ];
    world.cycle("in 0").await;
    other.cycle("in 1").await;
    world.cycle("in 0 again").await;
    assert_eq!(heard(&mut feeds[1]).await, "*: in 1 granted");
    assert_eq!(heard(&mut feeds[1]).await, "*: in 1 released");
    assert_eq!(heard(&mut feeds[0]).await, "*: in 0 granted");
    assert_eq!(heard(&mut feeds[0]).await, "*: in 0 released");
    assert_eq!(heard(&mut feeds[0]).await, "*: in 0 again granted");
    other.cycle("in 1 again").await;
    assert_eq!(heard(&mut feeds[1]).await, "*: in 1 again granted");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_feed_ends_with_its_store() {
    for World { store, server } in World::each().await {
        let mut feed = begin(&store).await;
        drop(store);
        let end = timeout(PATIENCE, feed.next()).await;
        assert_eq!(end.expect("it should end"), None);
        drop(server);
    }
}

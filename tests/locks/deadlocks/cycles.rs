//! Deadlocks of every shape: the victim, its error, and the progress of the others.

use futures_util::future::{BoxFuture, FutureExt, join_all};
use leasehold_tests::{Site, report};
use rand::{SeedableRng, rngs::StdRng, seq::SliceRandom};

use crate::deadlocks::{
    client::{exclusive, permits, several, shared},
    scene::Scene,
};

/// Actors that each wait for what the next one holds; who waits last is the victim.
async fn ring(site: &Site, actors: usize, clients: usize) {
    let name = |number: usize| format!("ring/{actors}/{clients}/{}", number % actors);
    let who = |number: usize| (number % clients, 1 + (number % actors) as u64);
    let mut scene = Scene::set(site, clients).await;
    for number in 0..actors {
        let (client, actor) = who(number);
        scene.holds(client, exclusive(actor, &name(number))).await;
    }
    let mut order: Vec<usize> = (0..actors).collect();
    order.shuffle(&mut StdRng::seed_from_u64(actors as u64));
    for number in &order {
        let (client, actor) = who(*number);
        scene
            .waits(client, exclusive(actor, &name(number + 1)))
            .await;
    }
    let last = order[actors - 1];
    let circle: Vec<_> = (last..last + actors).map(who).collect();
    let names: Vec<_> = (0..actors).map(name).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    scene.ends(who(last), &circle, &names).await;
    scene.goes_on(who(last)).await;
}

/// Makes a writer wait for readers, with a reader behind it that would fit with them.
async fn queued_behind_a_writer(site: &Site) {
    let mut scene = Scene::set(site, 2).await;
    let (reader, writer, behind) = ((0, 1), (1, 1), (0, 2));
    scene.holds(0, shared(1, "behind/s")).await;
    scene.holds(1, exclusive(1, "behind/own")).await;
    scene.holds(0, exclusive(2, "behind/x")).await;
    scene.waits(1, exclusive(1, "behind/s")).await;
    scene.waits(0, shared(2, "behind/s")).await;
    scene.waits(0, exclusive(1, "behind/x")).await;
    let circle = [reader, behind, writer];
    let message = scene.ends(reader, &circle, &["behind/s", "behind/x"]).await;
    assert!(message.contains("\"behind/s\", queued behind"), "{message}");
    scene.goes_on(reader).await;
}

/// Does the same with a writer that holds nothing: it blocks like any other, and is never the victim.
async fn queued_behind_a_writer_that_holds_nothing(site: &Site) {
    let mut scene = Scene::set(site, 3).await;
    let (reader, behind) = ((0, 1), (1, 1));
    scene.holds(0, shared(1, "idle/s")).await;
    scene.holds(1, exclusive(1, "idle/x")).await;
    scene.waits(0, exclusive(1, "idle/x")).await;
    scene.waits(2, exclusive(1, "idle/s")).await;
    scene.waits(1, shared(1, "idle/s")).await;
    let message = scene
        .ends(behind, &[behind, reader], &["idle/s", "idle/x"])
        .await;
    assert!(message.contains("queued behind a waiter of"), "{message}");
    scene.goes_on(behind).await;
}

/// Readers that hold what writers wait for.
async fn readers_that_become_writers_elsewhere(site: &Site) {
    let mut scene = Scene::set(site, 2).await;
    let (one, other) = ((0, 1), (1, 1));
    scene.holds(0, shared(1, "elsewhere/x")).await;
    scene.holds(1, shared(1, "elsewhere/y")).await;
    scene.waits(0, exclusive(1, "elsewhere/y")).await;
    scene.waits(1, exclusive(1, "elsewhere/x")).await;
    let names = ["elsewhere/x", "elsewhere/y"];
    scene.ends(other, &[other, one], &names).await;
    scene.goes_on(other).await;
}

/// Makes the holders of both permits wait for the actor that waits for a permit.
async fn a_semaphore_whose_holders_all_wait(site: &Site) {
    let mut scene = Scene::set(site, 2).await;
    let (other, third) = ((1, 1), (0, 2));
    scene.holds(0, permits(1, "both/s", 1, 2)).await;
    scene.holds(1, permits(1, "both/s", 1, 2)).await;
    scene.holds(0, exclusive(2, "both/x")).await;
    // More of the same semaphore would wait for oneself.
    for client in [0, 1] {
        let more = permits(1, "both/s", 1, 2);
        scene.is_refused(client, more, "SELF_DEADLOCK").await;
    }
    scene.waits(0, permits(2, "both/s", 1, 2)).await;
    scene.waits(0, exclusive(1, "both/x")).await;
    assert!(scene.all_wait().await, "the other permit may come free");
    scene.waits(1, exclusive(1, "both/x")).await;
    // A shortest circle does not need all three.
    let names = ["both/s", "both/x"];
    scene.ends(other, &[other, third], &names).await;
    scene.goes_on(other).await;
}

/// Makes each actor hold one of two permits, and ask for both of the other's semaphore.
async fn semaphores_asked_for_as_a_whole(site: &Site) {
    let mut scene = Scene::set(site, 3).await;
    let (one, other) = ((0, 1), (1, 1));
    scene.holds(0, permits(1, "whole/s", 1, 2)).await;
    scene.holds(1, permits(1, "whole/t", 1, 2)).await;
    // That one of them is held by somebody who is free to release makes no difference.
    scene.holds(2, permits(1, "whole/s", 1, 2)).await;
    scene.waits(0, permits(1, "whole/t", 2, 2)).await;
    scene.waits(1, permits(1, "whole/s", 2, 2)).await;
    let names = ["whole/s", "whole/t"];
    scene.ends(other, &[other, one], &names).await;
    scene.lets_go((2, 1)).await;
    scene.goes_on(other).await;
}

/// Makes an acquire of several names hold those before the one that it waits for; another actor takes them singly.
async fn several_names_against_single_ones(site: &Site) {
    let mut scene = Scene::set(site, 2).await;
    let (of_several, of_single) = ((0, 1), (1, 1));
    scene.holds(1, exclusive(1, "against/b")).await;
    scene.waits(0, several(1, ["against/b", "against/a"])).await;
    scene.waits(1, exclusive(1, "against/a")).await;
    let names = ["against/a", "against/b"];
    scene
        .ends(of_single, &[of_single, of_several], &names)
        .await;
    assert!(scene.all_wait().await, "what the other waits for is held");
    scene.goes_on(of_single).await;
}

/// Does the same, but the acquire of several names comes last: it gives back by itself what it held meanwhile.
async fn several_names_that_come_last(site: &Site) {
    let mut scene = Scene::set(site, 3).await;
    let (of_several, of_single, third) = ((0, 1), (1, 1), (2, 1));
    scene.holds(1, exclusive(1, "last/c")).await;
    scene.holds(2, exclusive(1, "last/b")).await;
    // Holds a, and waits for b, then for c.
    scene
        .waits(0, several(1, ["last/c", "last/a", "last/b"]))
        .await;
    scene.waits(1, exclusive(1, "last/a")).await;
    assert!(scene.all_wait().await, "b may come free");
    scene.lets_go(third).await;
    scene
        .ends(of_several, &[of_several, of_single], &["last/a", "last/c"])
        .await;
    // The other is granted without anybody's doing.
    scene.goes_on(of_several).await;
}

/// Checks that a hold that is held twice blocks others until it was released twice.
async fn reentrant_holds(site: &Site) {
    let mut scene = Scene::set(site, 2).await;
    let (twice, once) = ((0, 1), (1, 1));
    let mut again = exclusive(1, "twice/x");
    again.reentrant = true;
    scene.holds(0, again.clone()).await;
    scene.holds(0, again).await;
    scene.holds(1, exclusive(1, "twice/y")).await;
    scene.waits(1, exclusive(1, "twice/x")).await;
    scene.waits(0, exclusive(1, "twice/y")).await;
    let names = ["twice/x", "twice/y"];
    scene.ends(twice, &[twice, once], &names).await;
    scene.lets_go_of(twice, "twice/x").await;
    assert!(scene.all_wait().await, "it is held once more");
    scene.goes_on(twice).await;
}

/// Checks that an actor that only waits for a deadlock of others is no victim, though it came last and holds a lock.
async fn onlookers(site: &Site) {
    let mut scene = Scene::set(site, 3).await;
    let (one, other) = ((0, 1), (1, 1));
    scene.holds(0, exclusive(1, "looked-at/x")).await;
    scene.holds(1, exclusive(1, "looked-at/y")).await;
    scene.holds(2, exclusive(1, "looked-at/own")).await;
    scene.waits(0, exclusive(1, "looked-at/y")).await;
    scene.waits(1, exclusive(1, "looked-at/x")).await;
    scene.waits(2, exclusive(1, "looked-at/x")).await;
    let names = ["looked-at/x", "looked-at/y"];
    scene.ends(other, &[other, one], &names).await;
    scene.goes_on(other).await;
}

/// Returns all scenes, to run side by side.
fn scenes(site: &Site) -> Vec<BoxFuture<'_, ()>> {
    vec![
        ring(site, 2, 2).boxed(),
        ring(site, 3, 3).boxed(),
        ring(site, 5, 5).boxed(),
        // More actors than sessions, and actors of one session.
        ring(site, 2, 1).boxed(),
        ring(site, 5, 1).boxed(),
        ring(site, 6, 2).boxed(),
        queued_behind_a_writer(site).boxed(),
        queued_behind_a_writer_that_holds_nothing(site).boxed(),
        readers_that_become_writers_elsewhere(site).boxed(),
        a_semaphore_whose_holders_all_wait(site).boxed(),
        semaphores_asked_for_as_a_whole(site).boxed(),
        several_names_against_single_ones(site).boxed(),
        several_names_that_come_last(site).boxed(),
        reentrant_holds(site).boxed(),
        onlookers(site).boxed(),
    ]
}

async fn all_end(what: &str, site: Site) {
    let scenes = scenes(&site);
    let count = scenes.len() as f64;
    join_all(scenes).await;
    // One wait of each, and no other.
    assert_eq!(site.sum("leasehold_deadlocks_total").await, count);
    site.nothing_is_left().await;
    report(format!("{count} shapes of deadlocks ended, {what}"));
}

#[tokio::test]
async fn deadlocks_of_every_shape_end_with_their_youngest_wait() {
    let (two, one, memory) = tokio::join!(Site::redis(2), Site::redis(1), Site::memory());
    tokio::join!(
        all_end("over two coordinators", two),
        all_end("at one coordinator", one),
        all_end("in memory", memory),
    );
}

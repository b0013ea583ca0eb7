//! Two actors that take two locks in opposite orders, many times over, side by side: the time until that ends.

use std::time::Duration;

use leasehold_tests::{
    Latencies, Site, alone::alone, audit::TtlAudit, raw::PROMPT, stalls::Stalls, wait,
};
use rand::{Rng, SeedableRng, rngs::StdRng};

use crate::deadlocks::{
    client::exclusive,
    scene::{Scene, ended_within},
};

/// At each site.
const DEADLOCKS: u32 = 60;
/// They begin, and close, at all phases of the coordinators' looks.
const SPREAD: u64 = 1_200;
/// Time for which the coordinators remember one another's publications, in milliseconds.
const KEPT_FOR: i64 = 10_000;
/// After the last deadlock has ended.
const FORGOTTEN: Duration = Duration::from_secs(2);

/// Makes one deadlock, and returns its duration.
async fn opposite_orders(site: &Site, number: u32) -> Duration {
    let mut random = StdRng::seed_from_u64(number.into());
    let mut pause = async || {
        let pause = Duration::from_millis(random.random_range(0..SPREAD));
        tokio::time::sleep(pause).await;
    };
    let mut scene = Scene::set(site, 2).await;
    let names = ["x", "y"].map(|name| format!("opposite/{number}/{name}"));
    let actors = [7, 1_000_000_007 + u64::from(number)];
    for (client, actor) in actors.into_iter().enumerate() {
        scene.holds(client, exclusive(actor, &names[client])).await;
    }
    pause().await;
    // Each is the victim half of the time, whatever its place.
    let second = usize::from(number.is_multiple_of(2));
    let first = 1 - second;
    scene
        .waits(first, exclusive(actors[first], &names[second]))
        .await;
    pause().await;
    scene
        .waits(second, exclusive(actors[second], &names[first]))
        .await;
    let victim = (second, actors[second]);
    let circle = [victim, (first, actors[first])];
    let ended = scene.ends(victim, &circle, &[&names[0], &names[1]]).await;
    // The victim has let go of nothing yet.
    assert!(scene.all_wait().await, "the other waits on");
    scene.goes_on(victim).await;
    ended.after
}

/// Makes all of them on one site. The coordinators publish waits only while deadlocks last.
async fn many(what: &str, site: Site) -> Latencies {
    let deadlocks = (0..DEADLOCKS).map(|number| opposite_orders(&site, number));
    let all = futures_util::future::join_all(deadlocks);
    let told = async {
        if !site.is_on_redis() {
            return;
        }
        let told = wait::until(
            "the coordinators to tell who is blocked",
            PROMPT,
            || async {
                let told = site.keys("lh:blocked-waits:").await;
                if told.is_empty() { Err(told) } else { Ok(told) }
            },
        );
        for (key, life) in told.await {
            assert!(0 < life && life <= KEPT_FOR, "{key} lives for {life} ms");
        }
    };
    let (times, ()) = tokio::join!(all, told);
    if site.is_on_redis() {
        wait::until("nobody to be told of", FORGOTTEN, || async {
            let told = site.keys("lh:blocked-waits:").await;
            if told.is_empty() { Ok(()) } else { Err(told) }
        })
        .await;
    }
    assert_eq!(
        site.sum("leasehold_deadlocks_total").await,
        f64::from(DEADLOCKS)
    );
    site.nothing_is_left().await;
    let mut latencies = Latencies::new(format!("deadlocks ended, {what}"));
    for time in times {
        latencies.record(time);
    }
    latencies
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn locks_taken_in_opposite_orders_end_within_two_seconds_and_say_why() {
    let _alone = alone().await;
    let (two, one, memory) = tokio::join!(Site::redis(2), Site::redis(1), Site::memory());
    let looking = TtlAudit::start(two.server(), Duration::from_millis(20)).await;
    let stalls = Stalls::watch();
    let (over_two, at_one, in_memory) = tokio::join!(
        many("over two coordinators", two),
        many("at one coordinator", one),
        many("in memory", memory),
    );
    let limit = ended_within(&stalls);
    for latencies in [over_two, at_one, in_memory] {
        latencies.print();
        assert!(latencies.max() < limit, "the limit is {limit:?}");
    }
    let audited = looking.finish().await;
    assert!(audited.keys > 1_000, "{audited:?}");
}

//! Holds that last, and holds that are lost on time.

use std::time::Duration;

use anyhow::ensure;
use leasehold_client::LockView;
use leasehold_tests::FaultProxy;
use serde_json::json;
use tokio::time::sleep;

use crate::{
    driver::{PROMPT, State, nanos, now, number, state},
    mutant::{Lines, Way, to_driver, to_runner},
    scenarios::scripts::real,
    site::Site,
    world::World,
};

/// A hold is renewed for as long as its session lives.
pub(super) async fn renews(world: World) -> anyhow::Result<()> {
    let (site, driver) = real(&world, 1, json!({ "ttl_ms": 4000 })).await?;
    let token = driver.hold("h1", "c1", "a").await?;

    let limit = Duration::from_millis(12_500);
    let (last, _) = driver.watch("h1", limit, |state| !state.is_held()).await?;
    ensure!(last.is_held(), "not held throughout: {last:?}");
    let view = site.lock(0, "a").await?;
    ensure!(
        holds(&view, token),
        "the coordinator has another hold: {view:?}"
    );
    ensure!(
        driver.events("h1").is_empty(),
        "events of a hold that lasts: {:?}",
        driver.events("h1")
    );
    driver.run("release", json!({ "h": "h1" })).await?;
    site.until(0, "a", "not free", |view| view.holders.is_empty())
        .await?;
    Ok(())
}

/// Says that a hold is lost as soon as its first TTL is over.
pub(super) fn forgets_to_renew() -> Lines {
    let mut acquired = None;
    to_runner("state", move |line| {
        let acquired = *acquired.get_or_insert(now());
        if now() > acquired + 4_000_000_000 {
            line["ok"]["state"] = json!("lost");
        }
    })
}

/// A coordinator that hangs grants nothing and renews nothing: the client notices by its own clock, before the next client has the lock.
pub(super) async fn coordinator_stops(world: World) -> anyhow::Result<()> {
    let site = Site::start(2).await;
    let driver = world.driver().await?;
    driver
        .connect("c1", &[site.endpoint(0)], json!({ "ttl_ms": 2000 }))
        .await?;
    driver.hold("h1", "c1", "a").await?;
    let mut rival = site.rival(1, Duration::from_secs(10)).await;
    let asked = rival.ask("a", None).await;

    site.coordinators[0].stop();
    let watching = driver.watch("h1", PROMPT, |state| state.is_lost());
    let granted = async {
        rival.granted(asked, PROMPT).await;
        now()
    };
    let (watched, granted) = tokio::join!(watching, granted);
    let (last, held) = watched?;
    ensure!(
        held <= granted,
        "held after somebody else had it: {} ms",
        (held - granted) / 1_000_000
    );
    ensure!(last.is_lost(), "not lost: {last:?}");
    ensure!(
        last.reason == "expired",
        "lost for another reason: {last:?}"
    );
    let event = driver.event("h1", "state", "lost", PROMPT).await?;
    let told = number::<u64>(&event["boot_ns"]).unwrap_or_default();
    ensure!(
        told <= granted + nanos(Duration::from_secs(3)),
        "told of the loss too late: {event}"
    );
    Ok(())
}

/// A session lives as long as its TTL says: a network that is silent for half of it takes nothing, and hands nothing on. The silence is
/// longer than probes of connections take anywhere.
pub(super) async fn is_silent(world: World) -> anyhow::Result<()> {
    let site = Site::start(1).await;
    let proxy = FaultProxy::before(&site.endpoint(0)).await;
    let driver = world.driver().await?;
    let settings = json!({ "ttl_ms": 45_000 });
    driver.connect("c1", &[proxy.endpoint()], settings).await?;
    let token = driver.hold("h1", "c1", "a").await?;
    let mut rival = site.rival(0, Duration::from_secs(10)).await;
    rival.ask("a", None).await;

    proxy.black_hole();
    let silence = Duration::from_secs(25);
    let (last, _) = driver
        .watch("h1", silence, |state| !state.is_held())
        .await?;
    ensure!(last.is_held(), "not held in the silence: {last:?}");
    proxy.forward();
    // What was held back arrives now, and the session may be about to move.
    let (last, _) = driver
        .watch("h1", silence / 4, |state| !state.is_held())
        .await?;
    ensure!(last.is_held(), "not held after the silence: {last:?}");
    let view = site.lock(0, "a").await?;
    ensure!(
        holds(&view, token) && view.waiters.len() == 1,
        "the coordinator has another hold: {view:?}"
    );
    Ok(())
}

/// Asks for no longer TTL than the default.
pub(super) fn shortens_its_ttl() -> Lines {
    to_driver("connect", |line| line["ttl_ms"] = json!(10_000))
}

/// While the store hangs nothing is renewed: the client notices by its own clock, and its coordinator counts the loss.
pub(super) async fn store_stops(world: World) -> anyhow::Result<()> {
    let (site, driver) = real(&world, 1, json!({ "ttl_ms": 2000 })).await?;
    driver.hold("h1", "c1", "a").await?;
    site.redis.stop();
    let stopped = now();
    let (last, held) = driver.watch("h1", PROMPT, State::is_lost).await?;
    site.redis.cont();
    ensure!(last.is_lost(), "not lost: {last:?}");
    let end = stopped + nanos(Duration::from_secs(2));
    ensure!(
        held <= end,
        "held {} ms after its deadline",
        held.saturating_sub(end) / 1_000_000
    );
    let end = now() + nanos(PROMPT);
    loop {
        let metrics = site.coordinators[0].metrics().await;
        let lost = metrics.sum("leasehold_lost_total");
        if lost == 1.0 {
            return Ok(());
        }
        ensure!(lost < 1.0 && now() < end, "counted {lost} times");
        sleep(Duration::from_millis(50)).await;
    }
}

/// Says held for a second after the loss.
pub(super) fn tells_late() -> Lines {
    let mut lost = None;
    to_runner("state", move |line| {
        if line["ok"]["state"] == "lost" && now() < *lost.get_or_insert(now()) + 1_000_000_000 {
            line["ok"]["state"] = json!("held");
        }
    })
}

/// A coordinator that dies takes the holds of a session without a grace with it. With a grace, they are suspended, and resumed elsewhere.
pub(super) async fn coordinator_dies(world: World) -> anyhow::Result<()> {
    let mut site = Site::start(2).await;
    let driver = world.driver().await?;
    // Until it is to be reached, so that sessions begin at the first one.
    let proxy = FaultProxy::before(&site.endpoint(1)).await;
    proxy.set_refuse(true).await;
    let endpoints = [site.endpoint(0), proxy.endpoint()];
    driver
        .connect("c1", &endpoints, json!({ "ttl_ms": 20_000 }))
        .await?;
    let settings = json!({ "ttl_ms": 20_000, "grace_ms": 20_000 });
    driver.connect("c2", &endpoints, settings).await?;
    driver.hold("h1", "c1", "a").await?;
    let token = driver.hold("h2", "c2", "b").await?;

    site.coordinators[0].kill();
    let killed = now();
    let (last, _) = driver.watch("h1", PROMPT, State::is_lost).await?;
    ensure!(last.is_lost(), "not lost without a grace: {last:?}");
    ensure!(
        last.reason == "session_ended",
        "lost for another reason: {last:?}"
    );
    ensure!(
        // Renewed every third of its TTL, it would be valid for two thirds of it, 13 s, at least.
        last.at < killed + nanos(Duration::from_secs(10)),
        "lost only at its deadline: {last:?}"
    );
    // The clients have a connection each, and may notice one after the other.
    driver.event("h2", "state", "suspended", PROMPT).await?;
    let state = driver.state("h2").await?;
    ensure!(
        state.state == "suspended",
        "not suspended with a grace: {state:?}"
    );

    proxy.set_refuse(false).await;
    driver.event("h2", "state", "held", PROMPT).await?;
    driver.held("h2", "not held after the resume").await?;
    let view = site.lock(1, "b").await?;
    ensure!(
        holds(&view, token),
        "the coordinator has another hold: {view:?}"
    );
    Ok(())
}

/// Says held while a hold is suspended.
pub(super) fn acts_while_suspended() -> Lines {
    to_runner("state", |line| {
        if line["ok"]["state"] == "suspended" {
            line["ok"]["state"] = json!("held");
        }
    })
}

/// A process that was stopped for longer than its TTL says so before anything else.
pub(super) async fn driver_stops(world: World) -> anyhow::Result<()> {
    let (site, driver) = real(&world, 1, json!({ "ttl_ms": 2000 })).await?;
    driver.hold("h1", "c1", "a").await?;
    let mut rival = site.rival(0, Duration::from_secs(10)).await;
    let asked = rival.ask("a", None).await;

    driver.stop();
    rival.granted(asked, PROMPT).await;
    let question = driver.ask("state", json!({ "h": "h1" }));
    driver.process().cont();
    let first = state(&driver.served(question, PROMPT).await?)?;
    ensure!(!first.is_held(), "held after it was stopped: {first:?}");
    driver.event("h1", "state", "lost", PROMPT).await?;
    ensure!(
        driver.events("h1").len() == 1,
        "more than a loss: {:?}",
        driver.events("h1")
    );
    Ok(())
}

/// Says held at first, as a flag does that a timer sets.
pub(super) fn reads_a_flag() -> Lines {
    let mut was_asked = false;
    to_runner("state", move |line| {
        if line.get("ok").is_some() && !std::mem::replace(&mut was_asked, true) {
            line["ok"]["state"] = json!("held");
        }
    })
}

/// A loop or runtime that is blocked past the deadline has late timers; the check is right nevertheless.
pub(super) async fn loop_is_blocked(world: World) -> anyhow::Result<()> {
    let (_site, driver) = real(&world, 1, json!({ "ttl_ms": 2000 })).await?;
    driver.hold("h1", "c1", "a").await?;
    let question = driver.ask("block_ms", json!({ "h": "h1", "ms": 3000 }));
    let first = state(&driver.served(question, PROMPT).await?)?;
    ensure!(!first.is_held(), "held after a block: {first:?}");
    Ok(())
}

/// Says held after a block.
pub(super) fn checks_by_timer() -> Lines {
    to_runner("block_ms", |line| line["ok"]["state"] = json!("held"))
}

/// A force release is told once, with its reason, and a release after it says that the lock was lost.
pub(super) async fn force_release(world: World) -> anyhow::Result<()> {
    let (site, driver) = real(&world, 1, json!({ "ttl_ms": 2000 })).await?;
    driver.hold("h1", "c1", "a").await?;

    site.admin(0).force_release("a").await?;
    driver.event("h1", "state", "lost", PROMPT).await?;
    // Past the deadline, at which a second word might come.
    let end = now() + 2_500_000_000;
    while now() < end {
        let state = driver.state("h1").await?;
        ensure!(
            state.is_lost() && state.reason == "forced",
            "not lost by force: {state:?}"
        );
        sleep(Duration::from_millis(100)).await;
    }
    let events = driver.events("h1");
    ensure!(events.len() == 1, "told {} times: {events:?}", events.len());
    ensure!(
        events[0]["reason"] == "forced",
        "told another reason: {events:?}"
    );
    let release = driver.ask("release", json!({ "h": "h1" }));
    let refused = driver.failed(release, "lost", PROMPT).await?;
    ensure!(
        refused["reason"] == "forced",
        "the release has another reason: {refused}"
    );
    Ok(())
}

/// Tells of each loss twice.
pub(super) fn tells_twice() -> Lines {
    Box::new(|way, kind, line| {
        let twice = way == Way::ToRunner && kind == "state" && line["state"] == "lost";
        let mut lines = vec![(way, line)];
        if twice {
            lines.push(lines[0].clone());
        }
        lines
    })
}

fn holds(view: &LockView, token: i64) -> bool {
    let mut holders = view.holders.iter();
    holders.any(|holder| holder.fencing_token.is_some_and(|has| has.get() == token))
}

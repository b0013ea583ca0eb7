//! Acquires that wait, are given up, or are refused.

use std::time::Duration;

use anyhow::ensure;
use serde_json::json;
use tokio::time::sleep;

use crate::{
    driver::{Driver, PROMPT, nanos, now, token},
    mutant::{Lines, Way, to_driver},
    scenarios::scripts::real,
    site::Site,
    world::World,
};

/// A cancelled acquire leaves its queue.
pub(super) async fn cancelled(world: World) -> anyhow::Result<()> {
    let (site, driver) = real(&world, 1, json!({})).await?;
    let mut rival = site.rival(0, Duration::from_secs(10)).await;
    let held = rival.acquire("a").await;
    let waiting = driver.ask("acquire", json!({ "as": "h1", "on": "c1", "names": ["a"] }));
    site.until(0, "a", "nobody waits", |view| view.waiter_count == 1)
        .await?;

    driver.run("cancel", json!({ "of": waiting })).await?;
    driver.failed(waiting, "cancelled", PROMPT).await?;
    site.until(0, "a", "the cancelled acquire waits on", |view| {
        view.waiter_count == 0
    })
    .await?;
    rival.release(&held.lock).await;
    let again = rival.acquire("a").await;
    ensure!(again.lock.fencing_token > held.lock.fencing_token);
    Ok(())
}

/// Forgets the acquire without telling the coordinator.
pub(super) fn cancels_nothing() -> Lines {
    Box::new(|way, kind, line| {
        if way == Way::ToDriver && kind == "cancel" {
            let cancelled = json!({ "id": line["of"], "err": { "kind": "cancelled" } });
            let answer = json!({ "id": line["id"], "ok": {} });
            return vec![(Way::ToRunner, answer), (Way::ToRunner, cancelled)];
        }
        vec![(way, line)]
    })
}

/// Of two actors that wait for each other, one fails; the other goes on. An actor may hold a lock twice.
pub(super) async fn deadlock(world: World) -> anyhow::Result<()> {
    let (site, driver) = real(&world, 1, json!({})).await?;
    let ask = |handle: &str, name: &str, actor: &str| json!({ "as": handle, "on": "c1", "names": [name], "actor": actor });
    driver.run("acquire", ask("h1", "a", "a1")).await?;
    driver.run("acquire", ask("h2", "b", "a2")).await?;
    let older = driver.ask("acquire", ask("h3", "b", "a1"));
    site.until(0, "b", "nobody waits", |view| view.waiter_count == 1)
        .await?;
    let younger = driver.ask("acquire", ask("h4", "a", "a2"));
    driver.failed(younger, "deadlock", PROMPT).await?;
    driver.run("release", json!({ "h": "h2" })).await?;
    driver.served(older, PROMPT).await?;
    reenter(&driver, &site).await
}

async fn reenter(driver: &Driver, site: &Site) -> anyhow::Result<()> {
    let ask = |handle: &str, reentrant: bool| json!({ "as": handle, "on": "c1", "names": ["r"], "actor": "a3", "reentrant": reentrant });
    let outer = driver.run("acquire", ask("h5", false)).await?;
    let again = driver.ask("acquire", ask("h6", false));
    driver.failed(again, "self_deadlock", PROMPT).await?;
    let inner = driver.run("acquire", ask("h7", true)).await?;
    ensure!(
        token(&inner)? == token(&outer)?,
        "the same hold has two tokens: {outer} {inner}"
    );
    ensure!(
        inner["holds"][0]["count"] == 2,
        "held once more is not twice: {inner}"
    );
    driver.run("release", json!({ "h": "h7" })).await?;
    driver
        .held("h5", "one release of two ended the hold")
        .await?;
    let view = site.lock(0, "r").await?;
    ensure!(
        view.holders.len() == 1,
        "one release of two freed the lock: {view:?}"
    );
    driver.run("release", json!({ "h": "h5" })).await?;
    site.until(0, "r", "not free", |view| view.holders.is_empty())
        .await?;
    Ok(())
}

/// Asks for no actor.
pub(super) fn forgets_actors() -> Lines {
    to_driver("acquire", |line| line["actor"] = json!(null))
}

/// A limit that others don't agree with is refused by the coordinator; none, and no permits, by the library.
pub(super) async fn limits(world: World) -> anyhow::Result<()> {
    let (_site, driver) = real(&world, 1, json!({})).await?;
    let ask = |handle: &str, permits: u32, limit: u32| {
        json!({
            "as": handle, "on": "c1", "names": ["s"], "permits": permits, "limit": limit, "wait_ms": 0,
        })
    };
    driver.run("acquire", ask("h1", 2, 3)).await?;
    let other = driver.ask("acquire", ask("h2", 1, 5));
    let refused = driver.failed(other, "limit_mismatch", PROMPT).await?;
    ensure!(refused["limit"] == 3, "not the limit in force: {refused}");
    let full = driver.ask("acquire", ask("h3", 2, 3));
    driver.failed(full, "busy", PROMPT).await?;
    // The coordinator would take 0 for 1.
    for (handle, permits, limit) in [("h4", 0, 3), ("h5", 1, 0)] {
        let none = driver.ask("acquire", ask(handle, permits, limit));
        driver.failed(none, "invalid", PROMPT).await?;
    }
    driver.run("acquire", ask("h6", 1, 3)).await?;
    Ok(())
}

/// Asks for one permit instead of none.
pub(super) fn takes_zero_for_one() -> Lines {
    to_driver("acquire", |line| {
        if line["permits"] == 0 {
            line["permits"] = json!(1);
        }
    })
}

/// A coordinator that drains hands its sessions to another one; where there is none, they wait for it to come back. Their holds are held
/// throughout.
pub(super) async fn drain(world: World) -> anyhow::Result<()> {
    let mut site = Site::start_with(2, &["--drain-timeout", "2s"]).await;
    let driver = world.driver().await?;
    let settings = json!({ "ttl_ms": 40_000, "client_name": "moves" });
    driver.connect("c1", &site.endpoints(), settings).await?;
    let held = driver.hold("h1", "c1", "a").await?;
    let first = site.place_of("moves").await?;
    let settings = json!({ "ttl_ms": 40_000, "client_name": "stays" });
    driver
        .connect("c2", &[site.endpoint(first)], settings)
        .await?;
    driver.hold("h2", "c2", "b").await?;

    site.coordinators[first].terminate();
    let second = 1 - first;
    let view = until_moved(&driver, &site, second, "moves").await?;
    ensure!(
        view == Some(held),
        "the hold that moved has another token: {view:?}"
    );
    let end = now() + nanos(PROMPT);
    while site.coordinators[first].child().try_wait().is_none() {
        held_both(&driver).await?;
        ensure!(now() < end, "the coordinator does not end");
    }
    site.restart(first).await;
    until_moved(&driver, &site, first, "stays").await?;
    for handle in ["h1", "h2"] {
        let events = driver.events(handle);
        ensure!(events.is_empty(), "not held throughout: {events:?}");
        driver.run("release", json!({ "h": handle })).await?;
    }
    Ok(())
}

/// Waits until a coordinator has the session of this client name, and returns the token of the lock that the session holds.
async fn until_moved(
    driver: &Driver,
    site: &Site,
    place: usize,
    client_name: &str,
) -> anyhow::Result<Option<i64>> {
    let end = now() + nanos(PROMPT);
    let lock = if client_name == "moves" { "a" } else { "b" };
    loop {
        held_both(driver).await?;
        let sessions = site.admin(place).list_sessions().await?;
        let mut sessions = sessions
            .iter()
            .filter(|session| session.client_name == client_name);
        if let Some(session) = sessions.find(|session| session.hold_count == 1) {
            let view = site.lock(place, lock).await?;
            let mut holders = view.holders.iter();
            let holder = holders.find(|holder| holder.session_id == session.session_id);
            if let Some(holder) = holder {
                return Ok(holder.fencing_token.map(|token| token.get()));
            }
        }
        ensure!(now() < end, "the session of {client_name:?} did not move");
    }
}

async fn held_both(driver: &Driver) -> anyhow::Result<()> {
    for handle in ["h1", "h2"] {
        let state = driver.state(handle).await?;
        ensure!(
            state.is_held(),
            "not held throughout: {handle} is {state:?}"
        );
    }
    sleep(Duration::from_millis(20)).await;
    Ok(())
}

/// Knows one endpoint only.
pub(super) fn knows_one_endpoint() -> Lines {
    to_driver("connect", |line| {
        line["endpoints"] = json!([line["endpoints"][0]]);
    })
}

//! Sessions as operators see them: the coordinators that they are spread over, and their names.

use std::rc::Rc;

use anyhow::ensure;
use serde_json::{Value, json};
use tokio::time::{Duration, sleep};

use crate::{
    driver::{Driver, PROMPT, nanos, now},
    mutant::{Lines, to_driver},
    scenarios::scripts::real,
    site::Site,
    world::World,
};

/// Number of sessions: by chance, less than one run in a million leaves a coordinator without one of them.
const SESSIONS: usize = 100;

/// Makes clients, which know all coordinators, all at once.
async fn connect(driver: &Driver, site: &Site, first: usize, count: usize) -> anyhow::Result<()> {
    let ask = |number: usize| {
        let ask =
            json!({ "as": format!("c{number}"), "endpoints": site.endpoints(), "ttl_ms": 40_000 });
        driver.ask("connect", ask)
    };
    let asked: Vec<_> = (first..first + count).map(ask).collect();
    for asked in asked {
        driver.served(asked, PROMPT).await?;
    }
    Ok(())
}

/// Returns how many sessions each coordinator has; those that don't answer have none.
async fn counts(site: &Site) -> Vec<usize> {
    let mut counts = Vec::new();
    for place in 0..site.coordinators.len() {
        let sessions = site.admin(place).list_sessions().await;
        counts.push(sessions.map_or(0, |sessions| sessions.len()));
    }
    counts
}

/// Drains a coordinator until all sessions are at others, and returns how many each has.
async fn drained(site: &mut Site, place: usize) -> anyhow::Result<Vec<usize>> {
    site.coordinators[place].terminate();
    let end = now() + nanos(PROMPT);
    while site.coordinators[place].child().try_wait().is_none() {
        ensure!(now() < end, "the coordinator does not end");
        sleep(Duration::from_millis(20)).await;
    }
    loop {
        let counts = counts(site).await;
        if counts.iter().sum::<usize>() == SESSIONS {
            return Ok(counts);
        }
        ensure!(now() < end, "not all sessions moved: {counts:?}");
    }
}

/// Starts three coordinators, and opens all sessions there, each with a lock.
async fn with_sessions(world: &World, arguments: &[&str]) -> anyhow::Result<(Site, Rc<Driver>)> {
    let site = Site::start_with(3, arguments).await;
    let driver = world.driver().await?;
    connect(&driver, &site, 0, SESSIONS).await?;
    for number in 0..SESSIONS {
        let (handle, client) = (format!("h{number}"), format!("c{number}"));
        driver.hold(&handle, &client, &handle).await?;
    }
    Ok((site, driver))
}

/// Fails unless each session still has its lock.
async fn all_held(driver: &Driver) -> anyhow::Result<()> {
    for number in 0..SESSIONS {
        let handle = format!("h{number}");
        driver.held(&handle, "lost on the way").await?;
    }
    Ok(())
}

/// In a rolling restart, the sessions of each coordinator go to all others, not to one.
pub(super) async fn spread(world: World) -> anyhow::Result<()> {
    let (mut site, driver) = with_sessions(&world, &["--drain-timeout=15s"]).await?;
    for place in 0..3 {
        let before = counts(&site).await;
        let after = drained(&mut site, place).await?;
        site.restart(place).await;
        for other in (0..3).filter(|other| *other != place) {
            ensure!(
                after[other] > before[other],
                "coordinator {other} got no session of {place}: {before:?} became {after:?}"
            );
        }
    }
    all_held(&driver).await
}

/// Coordinators that ask sessions of some age to move have about as many again after a rolling restart, the last one too, and no lock is
/// lost on the way.
pub(super) async fn grows_old(world: World) -> anyhow::Result<()> {
    let arguments = ["--drain-timeout=15s", "--max-session-age=4s"];
    let (mut site, driver) = with_sessions(&world, &arguments).await?;
    for place in 0..3 {
        drained(&mut site, place).await?;
        site.restart(place).await;
    }
    // A busy machine moves a hundred sessions slowly, and chance has to spread them.
    let end = now() + nanos(PROMPT * 5);
    loop {
        let counts = counts(&site).await;
        let (least, most) = (counts.iter().min(), counts.iter().max());
        let is_spread = least
            .zip(most)
            .is_some_and(|(least, most)| *most <= least * 2);
        if is_spread && counts.iter().sum::<usize>() == SESSIONS {
            break;
        }
        ensure!(now() < end, "not spread: {counts:?}");
        sleep(Duration::from_millis(50)).await;
    }
    all_held(&driver).await
}

/// Sends so much on a session with one lock that it is asked to move twice, and fails if a request waits for that.
async fn is_asked_to_move(driver: &Driver, client: &str, held: &str) -> anyhow::Result<()> {
    for number in 0..40 {
        let value = json!({ "h": held, "value": "v".repeat(4_000) });
        driver.run("set_value", value).await?;
        let other = format!("{held}/{number}");
        driver.hold(&other, client, &other).await?;
        driver.run("release", json!({ "h": other })).await?;
    }
    driver.held(held, "lost on the way").await
}

/// A session that is asked to move goes on where it is as long as it can't, and moves even if it is the only one that may be.
pub(super) async fn asked_to_move(world: World) -> anyhow::Result<()> {
    let driver = world.driver().await?;
    let size = "--max-stream-size=65536";
    let closed = Site::start_with(1, &[size, "--max-connections=1"]).await;
    connect(&driver, &closed, 1, 1).await?;
    driver.hold("h1", "c1", "h1").await?;
    is_asked_to_move(&driver, "c1", "h1").await?;

    let narrow = Site::start_with(1, &[size, "--max-sessions=1"]).await;
    connect(&driver, &narrow, 2, 1).await?;
    driver.hold("h2", "c2", "h2").await?;
    let first = narrow.admin(0).list_sessions().await?;
    is_asked_to_move(&driver, "c2", "h2").await?;
    let end = now() + nanos(PROMPT);
    loop {
        let sessions = narrow.admin(0).list_sessions().await?;
        if sessions.len() == 1 && sessions[0].session_id != first[0].session_id {
            return driver.held("h2", "lost on the way").await;
        }
        ensure!(now() < end, "it did not move: {sessions:?}");
        sleep(Duration::from_millis(20)).await;
    }
}

/// Has no values.
pub(super) fn values_are_empty() -> Lines {
    to_driver("set_value", |line| line["value"] = json!(""))
}

/// Knows two of the three.
pub(super) fn knows_two_endpoints() -> Lines {
    to_driver("connect", |line| {
        line["endpoints"] = json!([line["endpoints"][0], line["endpoints"][1]]);
    })
}

/// A client that a full coordinator refuses, or does not let in, goes to the next one.
pub(super) async fn full(world: World) -> anyhow::Result<()> {
    const EACH: usize = 5;
    let driver = world.driver().await?;
    for (round, limit) in ["--max-sessions", "--max-connections"]
        .into_iter()
        .enumerate()
    {
        let site = Site::start_with(2, &[limit, &EACH.to_string()]).await;
        connect(&driver, &site, 2 * EACH * round, 2 * EACH).await?;
    }
    Ok(())
}

/// A client that sets no name has that of its program, host and process; one that sets an empty name has none.
pub(super) async fn named(world: World) -> anyhow::Result<()> {
    let (site, driver) = real(&world, 1, json!({})).await?;
    let empty = json!({ "client_name": "" });
    driver.connect("c2", &site.endpoints(), empty).await?;
    driver.hold("h1", "c1", "a").await?;
    driver.hold("h2", "c2", "b").await?;
    let name = &site.lock(0, "a").await?.holders[0].client_name;
    let system = rustix::system::uname();
    let host = system.nodename().to_string_lossy();
    let process = driver.process().id();
    let program = name.strip_suffix(&format!("@{host}/{process}"));
    ensure!(
        program.is_some_and(|program| !program.is_empty()),
        "its name is {name:?}, on {host} as process {process}"
    );
    let name = &site.lock(0, "b").await?.holders[0].client_name;
    ensure!(name.is_empty(), "the empty name became {name:?}");
    Ok(())
}

/// Has no name of its own.
pub(super) fn is_nobody() -> Lines {
    to_driver("connect", |line| {
        if line["client_name"] == Value::Null {
            line["client_name"] = json!("");
        }
    })
}

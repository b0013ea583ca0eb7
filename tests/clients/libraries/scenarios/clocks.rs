//! Clocks: which one a library reads, and what a jump of it means.

use std::{
    process::{Command, Stdio},
    time::Duration,
};

use anyhow::{Context, ensure};
use leasehold_tests::RawSession;
use serde_json::json;

use crate::{
    driver::{PROMPT, nanos, now, number},
    mutant::{Lines, Way, to_runner},
    scenarios::scripts::real,
    site::Site,
    world::World,
};

/// Time by which the clock of a namespace is ahead.
const AHEAD: Duration = Duration::from_secs(100_000);

/// The time for which the machine was suspended counts: a hold whose deadline passed meanwhile is lost at once, and others last.
pub(super) async fn jumps(world: World) -> anyhow::Result<()> {
    let (_site, driver) = real(&world, 1, json!({ "ttl_ms": 8000 })).await?;
    driver.hold("h1", "c1", "a").await?;
    driver.run("skew_clock", json!({ "ms": 1000 })).await?;
    driver
        .held("h1", "lost by a jump within its validity")
        .await?;
    driver.run("skew_clock", json!({ "ms": 8000 })).await?;
    let state = driver.state("h1").await?;
    ensure!(
        !state.is_held(),
        "held after a jump past its deadline: {state:?}"
    );
    driver.event("h1", "state", "lost", PROMPT).await?;
    // The session goes on, or another one does.
    driver.hold("h2", "c1", "b").await?;
    driver.held("h2", "not held after the jump").await?;
    Ok(())
}

/// Counts no suspended time.
pub(super) fn stands_still() -> Lines {
    Box::new(
        |way, kind, line| match way == Way::ToDriver && kind == "skew_clock" {
            true => vec![(Way::ToRunner, json!({ "id": line["id"], "ok": {} }))],
            false => vec![(way, line)],
        },
    )
}

/// Returns whether this machine can start a driver in a time namespace.
pub(crate) fn can_make_namespace() -> bool {
    let mut unshare = Command::new("unshare");
    let unshare = unshare.args(["-rT", "--boottime", "1", "true"]);
    let made = unshare.stdout(Stdio::null()).stderr(Stdio::null()).status();
    made.is_ok_and(|status| status.success())
}

/// Deadlines are counted on the system's clock that counts suspended time: in a namespace where it is ahead, the library's is too.
pub(super) async fn source(world: World) -> anyhow::Result<()> {
    let site = Site::start(1).await;
    let ahead = AHEAD.as_secs().to_string();
    let driver = world
        .driver_by(&["unshare", "-rT", "--boottime", &ahead])
        .await?;
    driver.connect("c1", &site.endpoints(), json!({})).await?;
    let before = now();
    let reply = driver.run("clock", json!({ "on": "c1" })).await?;
    let after = now();
    let clock: u64 = number(&reply["clock_ns"]).context("there is no `clock_ns`")?;
    // A clock of hundredths of a second is good enough.
    let step = 10_000_000;
    let expected = before + nanos(AHEAD) - step..=after + nanos(AHEAD);
    ensure!(
        expected.contains(&clock),
        "another clock: it reads {clock}, expected {expected:?}"
    );
    Ok(())
}

/// Reads the clock that does not count suspended time.
pub(super) fn reads_another_clock() -> Lines {
    to_runner("clock", |line| {
        line["ok"]["clock_ns"] = json!(now().to_string());
    })
}

/// The child of a fork holds nothing, and the parent goes on as before.
pub(super) async fn fork(world: World) -> anyhow::Result<()> {
    let (site, driver) = real(&world, 1, json!({ "ttl_ms": 4000 })).await?;
    driver.hold("h1", "c1", "a").await?;
    let child = driver.run("fork", json!({ "h": "h1" })).await?;
    ensure!(
        child["state"] != "held",
        "the child of a fork holds the lock: {child}"
    );
    let limit = Duration::from_millis(4500);
    let (last, _) = driver.watch("h1", limit, |state| !state.is_held()).await?;
    ensure!(last.is_held(), "a fork ended the parent's hold: {last:?}");
    let mut rival = RawSession::open(&site.endpoint(0), Duration::from_secs(10)).await;
    let asked = rival.ask("a", None).await;
    driver.run("release", json!({ "h": "h1" })).await?;
    rival.granted(asked, PROMPT).await;
    Ok(())
}

/// Holds the lock twice after a fork.
pub(super) fn holds_twice() -> Lines {
    to_runner("fork", |line| line["ok"]["state"] = json!("held"))
}

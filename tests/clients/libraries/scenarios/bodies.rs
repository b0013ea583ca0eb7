//! Work that runs under locks and in terms, and what ends it.

use std::time::Duration;

use anyhow::ensure;
use leasehold_tests::RawCandidate;
use serde_json::{Value, json};

use crate::{
    driver::{PROMPT, now, number, stamp},
    mutant::{Lines, to_runner},
    scenarios::scripts::real,
    site::Site,
    world::World,
};

/// The loss of one of several locks stops the work under all of them.
pub(super) async fn one_of_several(world: World) -> anyhow::Result<()> {
    let (site, driver) = real(&world, 1, json!({})).await?;
    let ask = json!({ "as": "h1", "on": "c1", "names": ["a", "b", "c"] });
    let body = driver.ask("body", ask);
    driver.event("h1", "what", "started", PROMPT).await?;

    site.admin(0).force_release("b").await?;
    driver.event("h1", "what", "cancelled", PROMPT).await?;
    driver.event("h1", "what", "ended", PROMPT).await?;
    let lost = driver.failed(body, "lost", PROMPT).await?;
    ensure!(
        lost["name"] == "b" && lost["reason"] == "forced",
        "not the loss of b: {lost}"
    );
    for name in ["a", "c"] {
        site.until(0, name, "not free", |view| view.holders.is_empty())
            .await?;
    }
    Ok(())
}

/// Does not stop the work.
pub(super) fn works_on() -> Lines {
    Box::new(|way, _, line| match line["what"] == "cancelled" {
        true => Vec::new(),
        false => vec![(way, line)],
    })
}

/// Work that fails under a lock that is lost: the program sees both.
pub(super) async fn body_fails(world: World) -> anyhow::Result<()> {
    let mut site = Site::start(1).await;
    let driver = world.driver().await?;
    let settings = json!({ "ttl_ms": 3000, "grace_ms": 3000 });
    driver.connect("c1", &site.endpoints(), settings).await?;
    let ask = json!({ "as": "h1", "on": "c1", "names": ["a"], "fail_with": "sold out" });
    let body = driver.ask("body", ask);
    driver.event("h1", "what", "started", PROMPT).await?;

    site.coordinators[0].kill();
    driver.watch("h1", PROMPT, |state| !state.is_held()).await?;
    // If the library has stopped the body already, it ends with the same words.
    driver.ask("fail", json!({ "h": "h1", "message": "sold out" }));
    let Err(failed) = driver.reply(body, PROMPT).await? else {
        anyhow::bail!("the work under a lost lock succeeded");
    };
    ensure!(
        failed["body"] == "sold out",
        "the loss hides the work's own error: {failed}"
    );
    let (last, _) = driver
        .watch("h1", PROMPT, |state| state.state != "suspended")
        .await?;
    let is_lost = failed["kind"] == "lost" || last.is_lost() || last.state == "released";
    ensure!(
        is_lost,
        "the work's own error hides the loss: {failed}, {last:?}"
    );
    Ok(())
}

/// Reports the loss alone.
pub(super) fn hides_own_errors() -> Lines {
    to_runner("body", |line| {
        if line.get("err").is_some() {
            line["err"] = json!({ "kind": "lost", "reason": "expired", "name": "a" });
        }
    })
}

/// A leader's work has ended before the next candidate is elected, whether it is cancelled or lost. After a loss it campaigns again.
pub(super) async fn handed_over(world: World) -> anyhow::Result<()> {
    let site = Site::start(2).await;
    let driver = world.driver().await?;
    driver.connect("c1", &[site.endpoint(0)], json!({})).await?;
    let lead = |handle: &str| json!({ "as": handle, "on": "c1", "election": "e", "value": "one", "cleanup_ms": 300 });
    let first = driver.ask("lead", lead("h1"));
    let started = driver.event("h1", "what", "started", PROMPT).await?;
    let token = number::<i64>(&started["token"]).unwrap_or_default();
    let ttl = Duration::from_secs(10);
    let mut rival =
        RawCandidate::campaign(site.coordinators[1].channel().await, "e", b"two", ttl).await;
    site.until(0, "e", "nobody waits", |view| view.waiter_count == 1)
        .await?;

    driver.run("cancel", json!({ "of": first })).await?;
    let term = rival.elected(PROMPT).await;
    let elected = now();
    driver.failed(first, "cancelled", PROMPT).await?;
    driver.event("h1", "what", "cancelled", PROMPT).await?;
    let ended = stamp(&driver.event("h1", "what", "ended", PROMPT).await?)?;
    ensure!(
        ended <= elected,
        "the next one leads before the body had ended"
    );
    ensure!(
        term.token > token,
        "the token did not rise: {token}, {}",
        term.token
    );

    let second = driver.ask("lead", lead("h2"));
    rival.resign().await;
    let started = driver.event("h2", "what", "started", PROMPT).await?;
    site.admin(0).force_release("e").await?;
    let is_next = |line: &Value| {
        line["h"] == "h2" && line["what"] == "started" && line["token"] != started["token"]
    };
    let again = driver.find("a second term", PROMPT, is_next).await?;
    let ended = stamp(&driver.event("h2", "what", "ended", PROMPT).await?)?;
    ensure!(
        ended <= stamp(&again)?,
        "it leads again before the body had ended"
    );
    driver.run("finish", json!({ "h": "h2" })).await?;
    driver.served(second, PROMPT).await?;
    site.until(0, "e", "not free", |view| view.holders.is_empty())
        .await?;
    Ok(())
}

/// Releases before the body has ended.
pub(super) fn resigns_early() -> Lines {
    Box::new(|way, _, mut line| {
        if line["what"] == "ended" {
            let late = number::<u64>(&line["boot_ns"]).unwrap_or_default() + 1_000_000_000;
            line["boot_ns"] = json!(late.to_string());
        }
        vec![(way, line)]
    })
}

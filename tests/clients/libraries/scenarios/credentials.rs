//! Credentials that are replaced, and that expire.

use std::{fs, time::Duration};

use anyhow::{Context, ensure};
use leasehold_client::{Admin, Client};
use leasehold_server::access::tokens::new_token;
use leasehold_tests::{
    Authority, Coordinator,
    certificates::{Issued, replace},
};
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::{
    driver::{Driver, PROMPT, State, nanos, now},
    mutant::Lines,
    site::blocking,
    world::World,
};

/// Permissions of callers with tokens.
const EVERYTHING: &str = r#"
[[permission]]
identities = ["token:*"]
allow = ["acquire", "inspect", "administer"]
locks = [""]
elections = [""]
"#;

/// A session shows newer credentials on a new stream before the old ones end, and holds on throughout. If they end first, holds are
/// suspended until there are newer ones.
pub(super) async fn replaced(world: World) -> anyhow::Result<()> {
    tokio::try_join!(token(&world), certificate(&world))?;
    Ok(())
}

/// A new token takes the place of one that is then removed.
async fn token(world: &World) -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    let file = |name: &str| folder.path().join(name);
    let fresh = || {
        let made = new_token("client").expect("a token can be made");
        let (token, line) = made.trim().split_once('\n').expect("two lines");
        (token.to_owned(), format!("{line}\n"))
    };
    let ((old, old_line), (new, new_line)) = (fresh(), fresh());
    fs::write(file("tokens"), format!("{old_line}{new_line}"))?;
    fs::write(file("config.toml"), EVERYTHING)?;
    fs::write(file("token"), &old)?;
    let options = Coordinator::process()
        .arguments([format!("--token-file={}", file("tokens").display())])
        .arguments([format!("--config={}", file("config.toml").display())]);
    let coordinator = blocking(move || options.start()).await;
    let admin = Client::builder()
        .bearer_token(new.clone())
        .admin(coordinator.endpoint())?;

    let driver = world.driver().await?;
    let settings = json!({ "ttl_ms": 20_000, "token_file": file("token") });
    driver
        .connect("c1", &[coordinator.endpoint()], settings)
        .await?;
    driver.hold("h1", "c1", "a").await?;
    let first = holder(&admin).await?;
    replace(&file("token"), &new);
    moved(&driver, &admin, &first).await?;
    replace(&file("tokens"), &new_line);
    // The coordinator refuses the old token from when it has read the file.
    let refused = Client::builder()
        .bearer_token(old)
        .admin(coordinator.endpoint())?;
    let end = now() + nanos(PROMPT);
    while refused.get_lock("a").await.is_ok() {
        ensure!(now() < end, "the old token counts on");
        sleep(Duration::from_millis(50)).await;
    }
    still_held(&driver, Duration::from_secs(1)).await
}

/// A new certificate, one that expires, and a new authority of the servers.
async fn certificate(world: &World) -> anyhow::Result<()> {
    let (servers, others) = (Authority::new("servers"), Authority::new("others"));
    let clients = Authority::new("clients");
    let folder = tempfile::tempdir()?;
    let (ca, served) = (folder.path().join("ca.pem"), servers.server().issue());
    fs::copy(servers.ca(), &ca)?;
    let flags = [served.flags(), clients.of_clients()].concat();
    let options = Coordinator::process().arguments(flags);
    let coordinator = blocking(move || options.start()).await;
    let shown = clients.client("client").issue();
    let tls = json!({ "ca": ca, "cert": shown.cert, "key": shown.key });

    let driver = world.driver().await?;
    let settings = json!({ "ttl_ms": 20_000, "tls": tls });
    driver
        .connect("c1", &[coordinator.endpoint()], settings)
        .await?;
    driver.hold("h1", "c1", "a").await?;
    let operator = clients.client("operator").issue();
    let admin = admin(&coordinator.endpoint(), &servers, &operator)?;
    let first = holder(&admin).await?;
    shown.replace_with(
        &clients
            .client("client")
            .expires_in(Duration::from_secs(12))
            .issue(),
    );
    moved(&driver, &admin, &first).await?;

    // Nothing newer comes in time, and the servers get certificates of another authority.
    served.replace_with(&others.server().issue());
    replace(&ca, &fs::read_to_string(others.ca())?);
    let (last, _) = driver
        .watch("h1", Duration::from_secs(30), |state| !state.is_held())
        .await?;
    ensure!(
        last.state == "suspended",
        "not suspended by an expired identity: {last:?}"
    );
    shown.replace_with(&clients.client("client").issue());
    let (last, _) = driver.watch("h1", PROMPT, State::is_held).await?;
    ensure!(last.is_held(), "not held with a new certificate: {last:?}");
    Ok(())
}

fn admin(endpoint: &str, servers: &Authority, operator: &Issued) -> anyhow::Result<Admin> {
    let builder = Client::builder()
        .tls_ca(servers.ca())
        .tls_identity(&operator.cert, &operator.key);
    Ok(builder.admin(endpoint)?)
}

/// Returns the session that holds the lock.
async fn holder(admin: &Admin) -> anyhow::Result<String> {
    let view = admin.get_lock("a").await?;
    let holder = view.holders.first().context("nobody holds the lock")?;
    Ok(holder.session_id.clone())
}

/// Waits until another session than the first one has the hold, which is held throughout.
async fn moved(driver: &Driver, admin: &Admin, first: &str) -> anyhow::Result<()> {
    let end = now() + nanos(PROMPT);
    loop {
        still_held(driver, Duration::ZERO).await?;
        if holder(admin).await? != first {
            return Ok(());
        }
        ensure!(
            now() < end,
            "the session does not move to show newer credentials"
        );
        sleep(Duration::from_millis(20)).await;
    }
}

async fn still_held(driver: &Driver, limit: Duration) -> anyhow::Result<()> {
    let (state, _) = driver.watch("h1", limit, |state| !state.is_held()).await?;
    let events = driver.events("h1");
    ensure!(
        state.is_held() && events.is_empty(),
        "not held throughout: {state:?}, {events:?}"
    );
    Ok(())
}

/// Reads its credentials once: it is given copies, which are never replaced.
pub(super) fn reads_once() -> Lines {
    let copies = tempfile::tempdir().expect("a folder can be made");
    let copy = move |value: &mut Value| {
        let Some(path) = value.as_str() else { return };
        let name = path.replace('/', "_");
        let to = copies.path().join(name);
        fs::copy(path, &to).expect("the file can be copied");
        *value = json!(to);
    };
    Box::new(move |way, kind, mut line| {
        if kind == "connect" && line.get("op").is_some() {
            copy(&mut line["token_file"]);
            if line.get("tls").is_some() {
                for file in ["ca", "cert", "key"] {
                    copy(&mut line["tls"][file]);
                }
            }
        }
        vec![(way, line)]
    })
}

//! Beginnings that scenarios share.

use std::{rc::Rc, time::Duration};

use leasehold_proto::v1::GrantedLock;
use serde_json::{Value, json};

use crate::{
    driver::{Driver, PROMPT},
    scripted::{Scripted, Stream, locks, opened},
    site::Site,
    world::World,
};

/// Starts a Redis server with so many coordinators, and a driver whose client `c1` knows all of them.
pub(super) async fn real(
    world: &World,
    coordinators: usize,
    settings: Value,
) -> anyhow::Result<(Site, Rc<Driver>)> {
    let site = Site::start(coordinators).await;
    let driver = world.driver().await?;
    driver.connect("c1", &site.endpoints(), settings).await?;
    Ok((site, driver))
}

/// Starts a scripted coordinator and a driver, whose client `c1` has its session there.
pub(super) async fn begin(
    world: &World,
    ttl: Duration,
    settings: Value,
) -> anyhow::Result<(Rc<Driver>, Scripted, Stream)> {
    let driver = world.driver().await?;
    let mut scripted = world.scripted().await;
    let stream = connect(&driver, &mut scripted, "c1", ttl, settings).await?;
    Ok((driver, scripted, stream))
}

/// Makes a client, and opens its session.
pub(super) async fn connect(
    driver: &Driver,
    scripted: &mut Scripted,
    name: &str,
    ttl: Duration,
    mut settings: Value,
) -> anyhow::Result<Stream> {
    settings["as"] = name.into();
    settings["endpoints"] = vec![scripted.endpoint()].into();
    let connecting = driver.ask("connect", settings);
    let mut stream = scripted.session(PROMPT).await?;
    stream.opens(opened(ttl)).await?;
    driver.served(connecting, PROMPT).await?;
    Ok(stream)
}

/// Acquires one lock, and returns it as it was granted.
pub(super) async fn hold(
    driver: &Driver,
    stream: &mut Stream,
    handle: &str,
    on: &str,
    name: &str,
    token: i64,
) -> anyhow::Result<GrantedLock> {
    let ask = json!({ "as": handle, "on": on, "names": [name] });
    hold_for(driver, stream, ask, token, LONG).await
}

/// Acquires one lock that is valid for so long.
pub(super) async fn hold_for(
    driver: &Driver,
    stream: &mut Stream,
    ask: Value,
    token: i64,
    valid_for: Duration,
) -> anyhow::Result<GrantedLock> {
    let asked = driver.ask("acquire", ask);
    let (id, acquire) = stream.acquire().await?;
    let lock = locks(&[acquire.name], token).remove(0);
    let newest = stream.heartbeat().0;
    stream.grant(id, vec![lock.clone()], valid_for, newest);
    driver.served(asked, PROMPT).await?;
    Ok(lock)
}

/// A validity that does not end while a scenario runs.
pub(super) const LONG: Duration = Duration::from_secs(20);

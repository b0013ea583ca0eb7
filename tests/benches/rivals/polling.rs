//! Contended clients that poll Redis, on a connection each.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::ensure;
use leasehold_tests::load::Course;
use redis::aio::MultiplexedConnection;
use tokio::task::JoinSet;

use crate::{
    pipeline::RELEASE,
    shared::{handoff::HandOffs, stage::Stage},
};

/// Time that a client sleeps before it asks again.
pub(crate) const EVERY: Duration = Duration::from_millis(50);
const NAME: &str = "polled";

/// Runs `pollers` of them on the Redis server of `stage`.
pub(crate) async fn run(
    stage: &mut Stage,
    pollers: usize,
    hold: Duration,
    measured: Duration,
) -> anyhow::Result<HandOffs> {
    let mut connections = Vec::new();
    for _ in 0..pollers {
        connections.push(stage.redis().async_connection().await);
    }
    let course = Course::new(hold)?;
    let before = stage.read().await?;
    let until = course.begin(measured);
    let mut running = JoinSet::new();
    for (client, connection) in connections.into_iter().enumerate() {
        running.spawn(poll(connection, client, Arc::clone(&course)));
    }
    tokio::time::sleep_until(until.into()).await;
    let spent = stage.read().await?.since(&before);
    while let Some(waiter) = running.join_next().await {
        waiter??;
    }
    HandOffs::new(pollers, &course, spent, None)
}

async fn poll(
    mut connection: MultiplexedConnection,
    client: usize,
    course: Arc<Course>,
) -> anyhow::Result<()> {
    let release = redis::Script::new(RELEASE);
    let mut began = Instant::now();
    while !course.is_over() {
        let set: Option<String> = redis::cmd("SET")
            .arg(NAME)
            .arg(client)
            .arg("NX")
            .arg("PX")
            .arg(30_000)
            .query_async(&mut connection)
            .await?;
        if set.is_none() {
            tokio::time::sleep(EVERY).await;
            continue;
        }
        course.granted(None)?;
        course.hold(began, 0).await;
        let released: i64 = release
            .key(NAME)
            .arg(client)
            .invoke_async(&mut connection)
            .await?;
        ensure!(released == 1, "a polled lock was lost");
        began = Instant::now();
    }
    course.waited(began);
    Ok(())
}

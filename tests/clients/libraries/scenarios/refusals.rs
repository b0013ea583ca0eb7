//! Coordinators that refuse sessions: the pauses between attempts.

use std::time::Duration;

use anyhow::ensure;
use serde_json::json;
use tonic::{Code, Status};
use tonic_types::{ErrorDetails, StatusExt};

use super::scripts::{LONG, connect};
use crate::{
    driver::{Driver, PROMPT, nanos, now},
    mutant::{Lines, to_driver},
    scripted::{Scripted, opened},
    world::World,
};

const HINT: Duration = Duration::from_millis(1500);

/// A refused client tries again no sooner than it was asked to; without a hint, its pauses grow, and those of two clients differ.
pub(super) async fn pauses(world: World) -> anyhow::Result<()> {
    let driver = world.driver().await?;
    let settings = json!({ "backoff_min_ms": 50, "backoff_max_ms": MAX });
    let (mut one, mut other) = (world.scripted().await, world.scripted().await);
    for (name, scripted) in [("c1", &mut one), ("c2", &mut other)] {
        let stream = connect(&driver, scripted, name, LONG, settings.clone()).await?;
        stream.end(Ok(()));
    }
    let (times, others) = tokio::join!(refused(&mut one), refused(&mut other));
    let (times, others) = (times?, others?);
    for times in [&times, &others] {
        let first = Duration::from_nanos(times[2] - times[0]);
        let last = Duration::from_nanos(times[ATTEMPTS - 1] - times[ATTEMPTS - 3]);
        let grows = last > first && last > Duration::from_millis(200);
        ensure!(grows, "its pauses do not grow: {first:?}, then {last:?}");
        let bound = 2 * Duration::from_millis(MAX);
        ensure!(
            last <= bound + Duration::from_secs(2),
            "its pauses have no bound: {last:?}"
        );
    }
    let pauses = |times: &[u64]| -> Vec<u64> {
        times
            .windows(2)
            .map(|pair| (pair[1] - pair[0]) / 2_000_000)
            .collect()
    };
    ensure!(
        pauses(&times) != pauses(&others),
        "its pauses have no random part: {:?}",
        pauses(&times)
    );
    hinted(&driver, &mut one).await
}

/// Attempts that are refused.
const ATTEMPTS: usize = 6;
/// Longest pause, in milliseconds.
const MAX: u64 = 3000;

/// Refuses so many attempts, and returns the times at which they came.
async fn refused(scripted: &mut Scripted) -> anyhow::Result<Vec<u64>> {
    let mut times = Vec::new();
    while times.len() < ATTEMPTS {
        let stream = scripted.session(PROMPT).await?;
        times.push(now());
        stream.end(Err(Status::unavailable("not now")));
    }
    Ok(times)
}

async fn hinted(driver: &Driver, scripted: &mut Scripted) -> anyhow::Result<()> {
    let stream = scripted.session(PROMPT).await?;
    let details = ErrorDetails::with_retry_info(Some(HINT));
    let status = Status::with_error_details(Code::ResourceExhausted, "too many", details);
    let refused = now();
    stream.end(Err(status));
    let mut stream = scripted.session(PROMPT).await?;
    let pause = Duration::from_nanos(now() - refused);
    ensure!(
        nanos(pause) >= nanos(HINT),
        "it tries again after {pause:?}, asked for {HINT:?}"
    );
    stream.opens(opened(LONG)).await?;
    stream.answer_heartbeats(Some(LONG));
    super::scripts::hold(driver, &mut stream, "h1", "c1", "a", 1).await?;
    Ok(())
}

/// Makes every client with the shortest pauses.
pub(super) fn hammers() -> Lines {
    to_driver("connect", |line| {
        line["backoff_min_ms"] = json!(1);
        line["backoff_max_ms"] = json!(1);
    })
}

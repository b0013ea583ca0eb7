//! Uncontended cycles: acquire and release, each client on names of its own.
//!
//! The same windows and the same accounting as in Leasehold's own rows, `tests/benches/shared/cycles.rs`.

use std::time::{Duration, Instant};

use futures_util::{StreamExt, stream::FuturesUnordered};
use leasehold_tests::load::{Distribution, Exclusion, Window};
use tokio::task::JoinSet;

use crate::rival::{Rival, Session};

const WARM_UP: Duration = Duration::from_millis(500);
const MEASURED: Duration = Duration::from_secs(3);

/// Figures of a run of cycles.
#[derive(Debug)]
pub struct Cycles {
    /// Cycles a second, over those that ended within the measured time.
    pub per_second: f64,
    /// The durations of the cycles.
    pub times: Distribution,
}

/// Runs `clients` sessions with `depth` cycles in flight on each: 0.5 s of warm-up, then 3 s that count.
///
/// # Errors
///
/// If the rival fails, or breaks what a lock promises.
pub async fn run<R: Rival>(rival: &R, clients: usize, depth: usize) -> anyhow::Result<Cycles> {
    let mut sessions = Vec::new();
    for _ in 0..clients {
        sessions.push(rival.session().await?);
    }
    let window = Window::after(WARM_UP, MEASURED);
    let mut running = JoinSet::new();
    for (client, session) in sessions.into_iter().enumerate() {
        running.spawn(client_cycles(session, client, depth, window));
    }
    let mut times = Distribution::new()?;
    while let Some(client) = running.join_next().await {
        for time in client?? {
            times.record(time);
        }
    }
    Ok(Cycles {
        per_second: window.rate(times.count()),
        times,
    })
}

/// Runs the cycles of a client in one task, whatever its depth, as one task reads a lease stream.
async fn client_cycles<S: Session>(
    session: S,
    client: usize,
    depth: usize,
    window: Window,
) -> anyhow::Result<Vec<Duration>> {
    let mut slots: FuturesUnordered<_> = (0..depth)
        .map(|slot| slot_cycles(session.clone(), format!("bench/{client}/{slot}"), window))
        .collect();
    let mut times = Vec::new();
    while let Some(slot) = slots.next().await {
        times.extend(slot?);
    }
    Ok(times)
}

async fn slot_cycles<S: Session>(
    mut session: S,
    name: String,
    window: Window,
) -> anyhow::Result<Vec<Duration>> {
    let exclusion = Exclusion::new(name);
    let mut times = Vec::new();
    let mut began = Instant::now();
    loop {
        let grant = session.acquire(exclusion.name()).await?;
        let now = Instant::now();
        exclusion.granted(grant.token, || true, now)?;
        exclusion.released(grant.token, now);
        session.release(grant.hold).await?;
        let now = Instant::now();
        if window.has(now) {
            times.push(now - began);
        }
        if now >= window.until {
            return Ok(times);
        }
        began = now;
    }
}

//! Uncontended cycles: acquire and release, each client on names of its own.

use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use leasehold_proto::v1::{SessionRelease, session_response::Response};
use leasehold_tests::Latencies;
use tokio::task::JoinSet;

use crate::{
    cost::{Cost, Meter},
    exclusion::Exclusion,
    stream::Stream,
};

const WARM_UP: Duration = Duration::from_millis(500);
const MEASURED: Duration = Duration::from_secs(3);

/// What a run of cycles came to.
pub(crate) struct Cycles {
    pub(crate) per_second: f64,
    pub(crate) p50: Duration,
    pub(crate) cost: Option<Cost>,
}

/// The time in which cycles count.
#[derive(Clone, Copy)]
pub(crate) struct Window {
    pub(crate) from: Instant,
    pub(crate) until: Instant,
}

impl Window {
    pub(crate) fn now() -> Self {
        let from = Instant::now() + WARM_UP;
        Self {
            from,
            until: from + MEASURED,
        }
    }

    pub(crate) fn rate(count: u64) -> f64 {
        count as f64 / MEASURED.as_secs_f64()
    }
}

/// Runs `clients` streams with `depth` cycles in flight on each.
pub(crate) async fn run(
    endpoint: &str,
    clients: usize,
    depth: usize,
    meter: Option<&Meter>,
) -> anyhow::Result<Cycles> {
    let mut streams = Vec::new();
    for _ in 0..clients {
        streams.push(Stream::open(endpoint).await?);
    }
    let window = Window::now();
    let mut running = JoinSet::new();
    for (client, stream) in streams.into_iter().enumerate() {
        running.spawn(client_cycles(stream, client, depth, window));
    }
    tokio::time::sleep_until(window.from.into()).await;
    let before = meter.map(Meter::read).transpose()?;
    tokio::time::sleep_until(window.until.into()).await;
    let after = meter.map(Meter::read).transpose()?;

    let mut times = Vec::new();
    while let Some(client) = running.join_next().await {
        times.extend(client??);
    }
    let mut latencies = Latencies::new("a cycle");
    for time in &times {
        latencies.record(*time);
    }
    Ok(Cycles {
        per_second: Window::rate(latencies.count()),
        p50: latencies.quantile(0.5),
        cost: before
            .zip(after)
            .map(|(before, after)| after.since(&before, latencies.count(), MEASURED)),
    })
}

struct Slot {
    name: String,
    exclusion: Exclusion,
    began: Instant,
}

async fn client_cycles(
    mut stream: Stream,
    client: usize,
    depth: usize,
    window: Window,
) -> anyhow::Result<Vec<Duration>> {
    let mut times = Vec::new();
    let mut slots = Vec::new();
    for slot in 0..depth {
        let name = format!("bench/{client}/{slot}");
        let began = Instant::now();
        stream.acquire(slot as u64 + 1, &name).await?;
        slots.push(Slot {
            name,
            exclusion: Exclusion::default(),
            began,
        });
    }
    let mut in_flight = depth;
    while in_flight > 0 {
        let (id, response) = stream.next().await?;
        let slot = usize::try_from(id)?.checked_sub(1);
        let slot = slot
            .and_then(|slot| slots.get_mut(slot))
            .context("unasked")?;
        match response {
            Response::Granted(granted) => {
                let lock = granted.locks.into_iter().next().context("no lock")?;
                ensure!(lock.name == slot.name, "{} was granted", lock.name);
                slot.exclusion.granted(lock.fencing_token)?;
                slot.exclusion.releasing();
                let (name, owner_id) = (lock.name, lock.owner_id);
                stream
                    .release(id, SessionRelease { name, owner_id })
                    .await?;
            }
            Response::Released(released) => {
                ensure!(released.released, "{} was lost", slot.name);
                let now = Instant::now();
                if now >= window.from && now < window.until {
                    times.push(now - slot.began);
                }
                if now < window.until {
                    slot.began = now;
                    stream.acquire(id, &slot.name).await?;
                } else {
                    in_flight -= 1;
                }
            }
            other => bail!("{}: {other:?}", slot.name),
        }
    }
    Ok(times)
}

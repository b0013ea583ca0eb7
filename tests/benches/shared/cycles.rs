//! Uncontended cycles: acquire and release, each client on names of its own.

use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use leasehold_proto::v1::{SessionRelease, session_response::Response};
use leasehold_tests::load::{Distribution, Exclusion, Window};
use tokio::task::JoinSet;

use super::{
    stage::{Spent, Stage},
    stream::Stream,
};
use crate::options::Sizes;

/// Figures of a run of cycles.
pub(crate) struct Cycles {
    pub(crate) per_second: f64,
    pub(crate) times: Distribution,
    pub(crate) spent: Option<Spent>,
}

/// Runs `clients` streams with `depth` cycles in flight on each, on the coordinators of `stage`.
pub(crate) async fn ours(
    stage: &mut Stage,
    clients: usize,
    depth: usize,
    sizes: &Sizes,
) -> anyhow::Result<Cycles> {
    run(&stage.endpoints(), clients, depth, sizes, Some(stage)).await
}

/// Does the same on the echo, which has no store.
pub(crate) async fn echo(
    endpoint: &str,
    clients: usize,
    depth: usize,
    sizes: &Sizes,
) -> anyhow::Result<Cycles> {
    run(&[endpoint.to_owned()], clients, depth, sizes, None).await
}

async fn run(
    endpoints: &[String],
    clients: usize,
    depth: usize,
    sizes: &Sizes,
    stage: Option<&mut Stage>,
) -> anyhow::Result<Cycles> {
    let streams = Stream::open_many(endpoints, clients, 1, None).await?;
    let window = Window::after(sizes.warm_up, sizes.cycles);
    let mut running = JoinSet::new();
    for (client, stream) in streams.into_iter().enumerate() {
        running.spawn(client_cycles(stream, client, depth, window));
    }
    let spent = match stage {
        Some(stage) => {
            tokio::time::sleep_until(window.from.into()).await;
            let before = stage.read().await?;
            tokio::time::sleep_until(window.until.into()).await;
            Some(stage.read().await?.since(&before))
        }
        None => None,
    };
    let mut times = Distribution::new()?;
    while let Some(client) = running.join_next().await {
        for time in client?? {
            times.record(time);
        }
    }
    Ok(Cycles {
        per_second: window.rate(times.count()),
        times,
        spent,
    })
}

struct Slot {
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
            exclusion: Exclusion::new(name),
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
                ensure!(
                    *lock.name == **slot.exclusion.name(),
                    "{} was granted",
                    lock.name
                );
                let (now, token) = (Instant::now(), Some(lock.fencing_token));
                slot.exclusion.granted(token, || true, now)?;
                slot.exclusion.released(token, now);
                let (name, owner_id) = (lock.name, lock.owner_id);
                stream
                    .release(
                        id,
                        SessionRelease {
                            name,
                            owner_id,
                            expired: false,
                        },
                    )
                    .await?;
            }
            Response::Released(released) => {
                ensure!(released.released, "{} was lost", slot.exclusion.name());
                let now = Instant::now();
                if window.has(now) {
                    times.push(now - slot.began);
                }
                if now < window.until {
                    slot.began = now;
                    stream.acquire(id, slot.exclusion.name()).await?;
                } else {
                    in_flight -= 1;
                }
            }
            other => bail!("{}: {other:?}", slot.exclusion.name()),
        }
    }
    Ok(times)
}

//! The Rust client's program: `LIBRARY WORK ENDPOINT CLIENTS SECONDS`, as those of other languages.
//!
//! With the work `cycles`, each client acquires and releases a lock of its own; with `handoff`, all want one. After half a second of
//! warm-up it counts for so many seconds, and prints one JSON value: the times of all cycles in microseconds, or
//! `[token, granted, releasing]` of each hold, in microseconds of the machine's monotonic clock.

use std::time::Duration;

use anyhow::{Context, bail};
use leasehold_client::{AcquireError, Client};
use rustix::time::{ClockId, clock_gettime};
use serde_json::json;
use tokio::task::JoinSet;

const WARM_UP: i64 = 500_000;
/// Longer than any run, so that no renewal is among what is measured.
const TTL: Duration = Duration::from_secs(300);

fn now() -> i64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec * 1_000_000 + now.tv_nsec / 1000
}

/// Measures, and prints the result.
pub(crate) async fn run(arguments: &[String]) -> anyhow::Result<()> {
    let [_, work, endpoint, clients, seconds] = arguments else {
        bail!("usage: LIBRARY WORK ENDPOINT CLIENTS SECONDS");
    };
    let clients: usize = clients.parse().context("CLIENTS is a number")?;
    let seconds: f64 = seconds.parse().context("SECONDS is a number")?;
    let client = Client::builder().ttl(TTL).connect(&**endpoint).await?;
    let from = now() + WARM_UP;
    let until = from + (seconds * 1e6) as i64;
    let (mut times, mut holds) = (Vec::new(), Vec::new());
    if work == "cycles" {
        let mut running = JoinSet::new();
        for number in 0..clients {
            running.spawn(cycles(client.clone(), number, from, until));
        }
        while let Some(ended) = running.join_next().await {
            times.extend(ended??);
        }
        print_json(&json!(times))
    } else {
        let mut running = JoinSet::new();
        for _ in 0..clients {
            running.spawn(hand_offs(client.clone(), from, until));
        }
        while let Some(ended) = running.join_next().await {
            holds.extend(ended??);
        }
        print_json(&json!(holds))
    }
}

fn print_json(value: &serde_json::Value) -> anyhow::Result<()> {
    Ok(serde_json::to_writer(std::io::stdout().lock(), value)?)
}

async fn cycles(client: Client, number: usize, from: i64, until: i64) -> anyhow::Result<Vec<i64>> {
    let name = format!("bench/{}/{number}", std::process::id());
    let mut times = Vec::new();
    loop {
        let began = now();
        client.lock(&*name).await?.release().await?;
        let ended = now();
        if ended >= until {
            return Ok(times);
        }
        if ended >= from {
            times.push(ended - began);
        }
    }
}

async fn hand_offs(client: Client, from: i64, until: i64) -> anyhow::Result<Vec<[i64; 3]>> {
    let mut holds = Vec::new();
    loop {
        let left = u64::try_from(until - now()).unwrap_or(0);
        let request = client.lock("bench/contended");
        let guard = match request.wait(Duration::from_micros(left)).await {
            Ok(guard) => guard,
            Err(AcquireError::TimedOut { .. } | AcquireError::Busy { .. }) => return Ok(holds),
            Err(error) => return Err(error.into()),
        };
        let (granted, token) = (now(), guard.fencing_token().get());
        guard.release().await?;
        if granted >= from {
            holds.push([token, granted, granted]);
        }
        if now() >= until {
            return Ok(holds);
        }
    }
}

//! Contended hand-offs: everybody wants one name, holds it for a while, and queues again.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use anyhow::{Context, bail, ensure};
use leasehold_proto::v1::{SessionRelease, session_response::Response};
use leasehold_tests::{Latencies, RedisServer};
use tokio::task::JoinSet;

use crate::{
    cost::{Cost, Meter},
    exclusion::Exclusion,
    pipeline::RELEASE,
    stream::Stream,
};

pub(crate) const WAITERS: usize = 100;
const HOLD: Duration = Duration::from_millis(5);
const MEASURED: Duration = Duration::from_secs(5);
const POLL: Duration = Duration::from_millis(50);
const NAME: &str = "bench/contended";

/// What a contended run came to.
pub(crate) struct HandOffs {
    pub(crate) gaps: Latencies,
    /// The longest wait, also of those who still waited at the end.
    pub(crate) worst_wait: Duration,
    /// How long a hold really was: timers are coarse.
    pub(crate) mean_hold: Duration,
    pub(crate) cost: Option<Cost>,
}

/// What the waiters share.
struct Course {
    exclusion: Exclusion,
    until: Instant,
    seen: Mutex<Seen>,
}

struct Seen {
    released: Option<Instant>,
    gaps: Latencies,
    worst_wait: Duration,
    held: Duration,
    holds: u32,
}

impl Course {
    fn begin() -> Arc<Self> {
        Arc::new(Self {
            exclusion: Exclusion::default(),
            until: Instant::now() + MEASURED,
            seen: Mutex::new(Seen {
                released: None,
                gaps: Latencies::new("release to next grant"),
                worst_wait: Duration::ZERO,
                held: Duration::ZERO,
                holds: 0,
            }),
        })
    }

    fn seen(&self) -> std::sync::MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn over(&self) -> bool {
        Instant::now() >= self.until
    }

    fn waited(&self, began: Instant) {
        let end = Instant::now().min(self.until);
        let mut seen = self.seen();
        seen.worst_wait = seen.worst_wait.max(end.saturating_duration_since(began));
    }

    /// Holds the name, unless the run is over, and notes that it is about to be released.
    async fn hold(&self, began: Instant) {
        let granted = Instant::now();
        self.waited(began);
        if !self.over() {
            {
                let mut seen = self.seen();
                if let Some(released) = seen.released {
                    seen.gaps
                        .record(granted.saturating_duration_since(released));
                }
            }
            tokio::time::sleep(HOLD).await;
            let mut seen = self.seen();
            seen.held += granted.elapsed();
            seen.holds += 1;
        }
        self.exclusion.releasing();
        self.seen().released = Some(Instant::now());
    }

    fn result(&self, cost: Option<(Cost, Cost)>) -> HandOffs {
        let mut seen = self.seen();
        let gaps = std::mem::replace(&mut seen.gaps, Latencies::new("none"));
        HandOffs {
            worst_wait: seen.worst_wait,
            mean_hold: seen.held / seen.holds.max(1),
            cost: cost.map(|(before, after)| after.since(&before, gaps.count(), MEASURED)),
            gaps,
        }
    }
}

/// Waiters with a lease stream each.
pub(crate) async fn streams(endpoint: &str, meter: &Meter) -> anyhow::Result<HandOffs> {
    let mut streams = Vec::new();
    for _ in 0..WAITERS {
        streams.push(Stream::open(endpoint).await?);
    }
    let course = Course::begin();
    let before = meter.read()?;
    let mut running = JoinSet::new();
    for stream in streams {
        running.spawn(wait_in_line(stream, Arc::clone(&course)));
    }
    tokio::time::sleep_until(course.until.into()).await;
    let after = meter.read()?;
    while let Some(waiter) = running.join_next().await {
        waiter??;
    }
    Ok(course.result(Some((before, after))))
}

async fn wait_in_line(mut stream: Stream, course: Arc<Course>) -> anyhow::Result<()> {
    while !course.over() {
        let began = Instant::now();
        stream.acquire(1, NAME).await?;
        let (_, Response::Granted(granted)) = stream.next().await? else {
            bail!("an acquire was not granted");
        };
        let lock = granted.locks.into_iter().next().context("no lock")?;
        course.exclusion.granted(lock.fencing_token)?;
        course.hold(began).await;
        let (name, owner_id) = (lock.name, lock.owner_id);
        stream.release(2, SessionRelease { name, owner_id }).await?;
        let (_, response) = stream.next().await?;
        ensure!(
            matches!(&response, Response::Released(released) if released.released),
            "{response:?}"
        );
    }
    Ok(())
}

/// Waiters that poll Redis, on a connection each.
pub(crate) async fn polling(redis: &RedisServer) -> anyhow::Result<HandOffs> {
    let mut connections = Vec::new();
    for _ in 0..WAITERS {
        connections.push(redis.async_connection().await);
    }
    let course = Course::begin();
    let mut running = JoinSet::new();
    for (client, connection) in connections.into_iter().enumerate() {
        running.spawn(poll(connection, client, Arc::clone(&course)));
    }
    while let Some(waiter) = running.join_next().await {
        waiter??;
    }
    Ok(course.result(None))
}

async fn poll(
    mut connection: redis::aio::MultiplexedConnection,
    client: usize,
    course: Arc<Course>,
) -> anyhow::Result<()> {
    let release = redis::Script::new(RELEASE);
    let mut began = Instant::now();
    while !course.over() {
        let set: Option<String> = redis::cmd("SET")
            .arg("polled")
            .arg(client)
            .arg("NX")
            .arg("PX")
            .arg(30_000)
            .query_async(&mut connection)
            .await?;
        if set.is_none() {
            tokio::time::sleep(POLL).await;
            continue;
        }
        course.exclusion.granted_without_token()?;
        course.hold(began).await;
        let released: i64 = release
            .key("polled")
            .arg(client)
            .invoke_async(&mut connection)
            .await?;
        ensure!(released == 1, "a polled lock was lost");
        began = Instant::now();
    }
    course.waited(began);
    Ok(())
}

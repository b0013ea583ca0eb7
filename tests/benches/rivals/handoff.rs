//! Contended hand-offs: everybody waits for one name, holds it for a while, and queues again.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::bail;
use leasehold_proto::v1::session_response::Response;
use tokio::task::JoinSet;

use crate::{
    course::{Course, HandOffs},
    stage::Stage,
    stream::Stream,
};

const NAME: &str = "bench/contended";
/// In which whatever the queueing set off comes to rest.
const SETTLE: Duration = Duration::from_millis(500);

pub(crate) struct Plan {
    pub(crate) waiters: usize,
    pub(crate) per_connection: usize,
    pub(crate) hold: Duration,
    pub(crate) measured: Duration,
    /// Also counts what waiting alone costs, for as long as this, before the first release.
    pub(crate) waiting: Option<Duration>,
}

/// Waiters with a lease stream each, one coordinator after the other, so that with several every hand-off crosses from one
/// to another. All queue behind one more client; the run begins when that one releases.
pub(crate) async fn run(stage: &mut Stage, plan: &Plan) -> anyhow::Result<HandOffs> {
    let endpoints = stage.endpoints();
    let places = endpoints.len();
    let course = Course::new(plan.hold)?;
    let mut gate = Stream::open(&endpoints[0]).await?;
    gate.acquire(1, NAME).await?;
    let first = gate.granted().await?;
    course.exclusion.granted(first.fencing_token)?;

    let mut streams =
        Stream::open_many(&endpoints, plan.waiters, plan.per_connection, None).await?;
    for stream in &mut streams {
        stream.acquire(1, NAME).await?;
        if places > 1 {
            queued(stream).await?;
        }
    }
    if places == 1 {
        for stream in &mut streams {
            queued(stream).await?;
        }
    }
    tokio::time::sleep(SETTLE).await;
    let waiting = match plan.waiting {
        Some(time) => {
            let before = stage.read().await?;
            tokio::time::sleep(time).await;
            Some(stage.read().await?.since(&before))
        }
        None => None,
    };

    let mut running = JoinSet::new();
    for (waiter, stream) in streams.into_iter().enumerate() {
        running.spawn(wait_in_line(stream, waiter % places, Arc::clone(&course)));
    }
    let before = stage.read().await?;
    let until = course.begin(plan.measured);
    course.releasing();
    gate.give_back(first).await?;
    tokio::time::sleep_until(until.into()).await;
    let spent = stage.read().await?.since(&before);
    while let Some(waiter) = running.join_next().await {
        waiter??;
    }
    course.result(plan.waiters, spent, waiting)
}

async fn queued(stream: &mut Stream) -> anyhow::Result<()> {
    match stream.next_of_all().await? {
        (_, Response::Queued(_)) => Ok(()),
        (_, other) => bail!("an acquire was not queued: {other:?}"),
    }
}

/// Goes on until the run is over; the first acquire is queued already. Whoever is granted after the end gives it to the
/// next at once.
async fn wait_in_line(mut stream: Stream, place: usize, course: Arc<Course>) -> anyhow::Result<()> {
    let mut began = Instant::now();
    loop {
        let lock = stream.granted().await?;
        course.exclusion.granted(lock.fencing_token)?;
        course.hold(began, place).await?;
        stream.give_back(lock).await?;
        if course.is_over() {
            return Ok(());
        }
        began = Instant::now();
        stream.acquire(1, NAME).await?;
    }
}

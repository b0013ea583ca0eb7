//! Contended hand-offs: all clients wait for one name, hold it for a while, and queue again.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::bail;
use leasehold_proto::v1::session_response::Response;
use leasehold_tests::load::{Course, Distribution, millis};
use tokio::task::JoinSet;

use super::{
    stage::{Spent, Stage},
    stream::Stream,
};

const NAME: &str = "bench/contended";
/// In which whatever the queueing set off comes to rest.
const SETTLE: Duration = Duration::from_millis(500);

/// Hand-offs of one run, with their costs.
pub(crate) struct HandOffs {
    pub(crate) waiters: usize,
    /// From when a release is about to be sent to when the next grant has been received.
    pub(crate) gaps: Distribution,
    /// The longest wait, including those that had not ended at the end.
    pub(crate) worst_wait: Duration,
    /// The mean of the actual holds: timers are coarse.
    pub(crate) mean_hold: Duration,
    /// Grants to a client of another coordinator than the one before.
    pub(crate) crossings: u64,
    pub(crate) spent: Spent,
    /// The resources spent while all clients waited and no lock was released.
    pub(crate) waiting: Option<Spent>,
}

impl HandOffs {
    pub(crate) fn new(
        waiters: usize,
        course: &Course,
        spent: Spent,
        waiting: Option<Spent>,
    ) -> anyhow::Result<Self> {
        let run = course.result()?;
        Ok(Self {
            waiters,
            gaps: run.gaps,
            worst_wait: run.worst_wait,
            mean_hold: run.mean_hold,
            crossings: run.crossings,
            spent,
            waiting,
        })
    }

    /// Returns the worst wait divided by the shortest time for a turn of every client.
    pub(crate) fn fairness(&self) -> f64 {
        self.worst_wait.as_secs_f64() / (self.waiters as f64 * self.mean_hold.as_secs_f64())
    }

    pub(crate) fn shown(&self) -> String {
        format!(
            "p50 {:.2} ms, p99 {:.2} ms, worst wait {:.0} ms = {:.2} × (waiters × mean hold of {:.2} ms), {} hand-offs",
            millis(self.gaps.quantile(0.5)),
            millis(self.gaps.quantile(0.99)),
            millis(self.worst_wait),
            self.fairness(),
            millis(self.mean_hold),
            self.gaps.count(),
        )
    }
}

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
    course.granted(Some(first.fencing_token))?;

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
    HandOffs::new(plan.waiters, &course, spent, waiting)
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
        course.granted(Some(lock.fencing_token))?;
        course.hold(began, place).await;
        stream.give_back(lock).await?;
        if course.is_over() {
            return Ok(());
        }
        began = Instant::now();
        stream.acquire(1, NAME).await?;
    }
}

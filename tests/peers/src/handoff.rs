//! Contended hand-offs: all clients want one name, hold it for a while, and ask again.
//!
//! The same times as in Leasehold's own row, `tests/benches/shared/handoff.rs`, and for rivals without a queue as in
//! `tests/benches/rivals/polling.rs`.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::ensure;
use leasehold_tests::load::Course;
use tokio::task::JoinSet;

use crate::rival::{Grant, Rival, Session};

pub use leasehold_tests::load::HandOffs;

const MEASURED: Duration = Duration::from_secs(5);
const NAME: &str = "bench/contended";
/// In which whatever the queueing set off comes to rest.
const SETTLE: Duration = Duration::from_millis(500);
/// Many times what queueing takes.
const QUEUED_WITHIN: Duration = Duration::from_secs(20);

/// Lets `waiters` sessions contend for one name for 5 s, holding it for `hold` each.
///
/// Where the rival has a queue, all queue behind one more client, and the run begins when that one releases.
///
/// # Errors
///
/// If the rival fails, or breaks what a lock promises.
pub async fn run<R: Rival>(rival: &R, waiters: usize, hold: Duration) -> anyhow::Result<HandOffs> {
    let course = Course::new(hold)?;
    let mut sessions = Vec::new();
    for _ in 0..waiters {
        sessions.push(rival.session().await?);
    }
    let gate = if R::QUEUES {
        Some(Gate::close(rival, &course).await?)
    } else {
        course.begin(MEASURED);
        None
    };
    let mut running = JoinSet::new();
    for session in sessions {
        running.spawn(wait_in_line(session, Arc::clone(&course)));
    }
    if let Some(gate) = gate {
        queued(rival, waiters).await?;
        tokio::time::sleep(SETTLE).await;
        course.begin(MEASURED);
        gate.open(&course).await?;
    }
    while let Some(waiter) = running.join_next().await {
        waiter??;
    }
    course.result()
}

/// The client behind which all others queue.
struct Gate<S: Session> {
    session: S,
    grant: Grant<S::Hold>,
}

impl<S: Session> Gate<S> {
    async fn close<R: Rival<Session = S>>(rival: &R, course: &Course) -> anyhow::Result<Self> {
        let mut session = rival.session().await?;
        let grant = session.acquire(NAME).await?;
        course.granted(grant.token)?;
        Ok(Self { session, grant })
    }

    async fn open(mut self, course: &Course) -> anyhow::Result<()> {
        course.releasing();
        self.session.release(self.grant.hold).await
    }
}

/// Waits until the rival knows of all waiters, besides the gate.
async fn queued<R: Rival>(rival: &R, waiters: usize) -> anyhow::Result<()> {
    let deadline = Instant::now() + QUEUED_WITHIN;
    loop {
        let known = rival.known().await?;
        if known > waiters as u64 {
            return Ok(());
        }
        ensure!(
            Instant::now() < deadline,
            "only {known} of {waiters} waiters and their gate queued within {QUEUED_WITHIN:?}"
        );
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Goes on until the run is over. Whoever is granted after the end gives it to the next at once, so that its wait counts
/// and ends.
async fn wait_in_line<S: Session>(mut session: S, course: Arc<Course>) -> anyhow::Result<()> {
    loop {
        let began = Instant::now();
        let grant = session.acquire(NAME).await?;
        course.granted(grant.token)?;
        course.hold(began, 0).await;
        session.release(grant.hold).await?;
        if course.is_over() {
            return Ok(());
        }
    }
}

//! Liveness of the coordinator: whether its critical tasks exist and are run, or a restart is needed.
//!
//! Each of them is asked once a second, by being woken, and has answered when it was run. What it waits for does not matter, so
//! that neither a store out of reach nor a coordinator that goes away is taken for a task that is stuck. What counts is how often
//! it was asked in vain, not for how long: after a pause of the process or its machine nobody has missed anything.

use std::{
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};

use futures_util::{Stream, task::AtomicWaker};
use parking_lot::Mutex;
use pin_project_lite::pin_project;
use tokio::time::{MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;

/// Interval at which tasks are asked.
const ASK_EVERY: Duration = Duration::from_secs(1);
/// Number of times that a task may be asked in vain. Nothing that it does takes nearly as long.
const PATIENCE: u32 = 30;

/// The tasks that the coordinator can't do without. Clones share them.
///
/// ```
/// use leasehold_server::Liveness;
/// use tokio_util::sync::CancellationToken;
///
/// # let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
/// # runtime.block_on(async {
/// let liveness = Liveness::default();
/// let stop = CancellationToken::new();
/// let waits = liveness.keep("waits", &stop, std::future::pending::<()>());
/// assert_eq!(liveness.check(), Ok(()));
/// drop(waits);
/// assert_eq!(liveness.check(), Err("waits has ended".to_owned()));
/// # });
/// ```
#[derive(Clone, Debug, Default)]
pub struct Liveness(Arc<Mutex<Vec<Arc<Part>>>>);

#[derive(Debug)]
struct Part {
    name: &'static str,
    /// Number of times that it was asked since it was run last.
    unanswered: AtomicU32,
    ended: AtomicBool,
    waker: AtomicWaker,
}

impl Part {
    fn answer(&self, cx: &Context<'_>) {
        self.waker.register(cx.waker());
        self.unanswered.store(0, Ordering::Relaxed);
    }

    fn ask(&self) {
        if self.unanswered.fetch_add(1, Ordering::Relaxed) == PATIENCE {
            tracing::error!(
                part = self.name,
                "a part of the coordinator that it can't do without has not moved for {PATIENCE} s"
            );
        }
        self.waker.wake();
    }

    fn complaint(&self) -> Option<String> {
        let name = self.name;
        let unanswered = self.unanswered.load(Ordering::Relaxed);
        if self.ended.load(Ordering::Relaxed) {
            Some(format!("{name} has ended"))
        } else if unanswered > PATIENCE {
            Some(format!("{name} has not moved for {unanswered} s"))
        } else {
            None
        }
    }
}

/// Notes the end of a task, however it comes: by itself, by a panic, with its runtime.
#[derive(Debug)]
struct End {
    part: Arc<Part>,
    stop: CancellationToken,
}

impl Drop for End {
    fn drop(&mut self) {
        // Told to end, it does what it should.
        if !self.stop.is_cancelled() {
            self.part.ended.store(true, Ordering::Relaxed);
            tracing::error!(
                part = self.part.name,
                "a part of the coordinator has ended that it can't do without: a restart mends that"
            );
        }
    }
}

pin_project! {
    /// A watched task or stream.
    #[derive(Debug)]
    pub struct Kept<T> {
        #[pin]
        inner: T,
        end: End,
    }
}

impl<F: Future> Future for Kept<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let this = self.project();
        this.end.part.answer(cx);
        this.inner.poll(cx)
    }
}

impl<S: Stream> Stream for Kept<S> {
    type Item = S::Item;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<S::Item>> {
        let this = self.project();
        this.end.part.answer(cx);
        this.inner.poll_next(cx)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.inner.size_hint()
    }
}

impl Liveness {
    /// Watches over a task, or a stream that one task reads, which the coordinator can't do without until `stop` is cancelled.
    /// Operators see `name`.
    #[must_use]
    pub fn keep<T>(&self, name: &'static str, stop: &CancellationToken, inner: T) -> Kept<T> {
        let part = Arc::new(Part {
            name,
            unanswered: AtomicU32::new(0),
            ended: AtomicBool::new(false),
            waker: AtomicWaker::new(),
        });
        let mut parts = self.0.lock();
        parts.push(Arc::clone(&part));
        let stop = stop.clone();
        Kept {
            inner,
            end: End { part, stop },
        }
    }

    /// Asks them all, again and again. Never ends.
    pub async fn ask(self) {
        let mut ticks = interval(ASK_EVERY);
        // Those that were missed in a pause were nobody's fault.
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            self.ask_once();
        }
    }

    fn ask_once(&self) {
        let parts = self.0.lock();
        for part in parts.iter() {
            part.ask();
        }
    }

    /// Returns whether all of them are there and move.
    ///
    /// # Errors
    ///
    /// What is wrong with those that are not, for an operator.
    pub fn check(&self) -> Result<(), String> {
        let parts = self.0.lock();
        let complaints: Vec<_> = parts.iter().filter_map(|part| part.complaint()).collect();
        if complaints.is_empty() {
            Ok(())
        } else {
            Err(complaints.join("; "))
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use futures_util::{StreamExt, stream};
    use tokio::time::{advance, sleep};

    use super::*;

    /// Lets that many seconds pass, one by one, as they do.
    async fn seconds(number: u32) {
        for _ in 0..number {
            sleep(ASK_EVERY).await;
        }
    }

    fn start() -> (Liveness, CancellationToken) {
        let liveness = Liveness::default();
        tokio::spawn(liveness.clone().ask());
        (liveness, CancellationToken::new())
    }

    #[tokio::test(start_paused = true)]
    async fn a_task_that_only_waits_is_alive() {
        let (liveness, stop) = start();
        tokio::spawn(liveness.keep("waits", &stop, pending::<()>()));
        let mut reads = liveness.keep("reads", &stop, stream::pending::<()>());
        tokio::spawn(async move { reads.next().await });
        seconds(PATIENCE * 10).await;
        assert_eq!(liveness.check(), Ok(()));
    }

    #[tokio::test(start_paused = true)]
    async fn a_task_that_has_ended_is_dead_unless_it_was_told_to_end() {
        let (liveness, stop) = start();
        let ends = tokio::spawn(liveness.keep("ends", &stop, async {}));
        ends.await.unwrap();
        assert_eq!(liveness.check(), Err("ends has ended".to_owned()));
        let panics = async { panic!("of this test") };
        let panics = tokio::spawn(liveness.keep("panics", &stop, panics));
        assert!(panics.await.is_err());
        let both = "ends has ended; panics has ended";
        assert_eq!(liveness.check(), Err(both.to_owned()));

        let (liveness, stop) = start();
        let kept = stop.clone().cancelled_owned();
        let kept = tokio::spawn(liveness.keep("obeys", &stop, kept));
        stop.cancel();
        kept.await.unwrap();
        assert_eq!(liveness.check(), Ok(()));
    }

    #[tokio::test(start_paused = true)]
    async fn a_task_that_is_not_run_for_long_is_stuck_until_it_is_run() {
        let (liveness, stop) = start();
        let mut stuck = Box::pin(liveness.keep("stuck", &stop, pending::<()>()));
        seconds(PATIENCE).await;
        assert_eq!(liveness.check(), Ok(()));
        seconds(2).await;
        let complaint = liveness.check().unwrap_err();
        assert!(
            complaint.starts_with("stuck has not moved for 3"),
            "{complaint}"
        );
        assert!(futures_util::poll!(&mut stuck).is_pending());
        assert_eq!(liveness.check(), Ok(()));
    }

    #[tokio::test(start_paused = true)]
    async fn a_pause_of_everything_is_nobodys_fault() {
        let (liveness, stop) = start();
        let _unheard = Box::pin(liveness.keep("unheard", &stop, pending::<()>()));
        seconds(PATIENCE - 5).await;
        // Nobody was asked meanwhile.
        advance(ASK_EVERY * PATIENCE * 100).await;
        seconds(2).await;
        assert_eq!(liveness.check(), Ok(()));
    }
}

//! Watch for suspensions of the machine.
//!
//! Deadlines are by a clock that counts suspended time ([`leasehold_store::clock`]), the runtime's timers by one that stands
//! still meanwhile. So that not every session has to look at the time each second, one task compares the two for all.

use std::time::Duration;

use leasehold_core::time::Moment;
use leasehold_store::clock;
use tokio::{
    sync::watch,
    time::{Instant, sleep},
};
use tokio_util::sync::CancellationToken;

use crate::Liveness;

/// Interval at which the clocks are compared: after a suspension, a deadline is noticed at most this much late.
const INTERVAL: Duration = Duration::from_secs(1);
/// Most that the clocks may drift apart between two comparisons without a suspension.
const TOLERANCE: Duration = Duration::from_millis(50);

/// Changes whenever the machine was suspended, until `stop`.
pub(crate) fn watch_for(liveness: &Liveness, stop: &CancellationToken) -> watch::Receiver<()> {
    let (suspended, receiver) = watch::channel(());
    let watching = compare(clock::now, suspended, stop.clone());
    tokio::spawn(liveness.keep("watch for suspensions", stop, watching));
    receiver
}

/// Compares the runtime's timers with `clock` regularly, until `stopped`.
async fn compare(
    clock: impl Fn() -> Moment,
    suspended: watch::Sender<()>,
    stopped: CancellationToken,
) {
    loop {
        let (timers, deadlines) = (Instant::now(), clock());
        tokio::select! {
            () = stopped.cancelled() => return,
            () = sleep(INTERVAL) => {}
        }
        let passed = deadlines.until(clock());
        if passed > timers.elapsed() + TOLERANCE {
            suspended.send_replace(());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    };

    use super::*;

    /// A machine whose clock goes on while it is suspended. Its timers are the test's, which stand still unless all wait.
    struct Machine {
        began: Instant,
        suspended_for: Arc<AtomicU64>,
        suspensions: watch::Receiver<()>,
        stop: CancellationToken,
    }

    impl Machine {
        fn start() -> (Self, tokio::task::JoinHandle<()>) {
            let (began, stop) = (Instant::now(), CancellationToken::new());
            let suspended_for = Arc::new(AtomicU64::new(0));
            let (suspended, suspensions) = watch::channel(());
            let asleep = Arc::clone(&suspended_for);
            let clock = move || {
                let awake = Moment::from_micros(1).after(began.elapsed());
                awake.after(Duration::from_millis(asleep.load(Ordering::Relaxed)))
            };
            let comparing = tokio::spawn(compare(clock, suspended, stop.clone()));
            let machine = Self {
                began,
                suspended_for,
                suspensions,
                stop,
            };
            (machine, comparing)
        }

        fn suspend(&self, millis: u64) {
            self.suspended_for.fetch_add(millis, Ordering::Relaxed);
        }

        /// Lets timers run for so many looks, and returns whether a suspension was noticed.
        async fn noticed(&mut self, looks: u32) -> bool {
            // Between two looks.
            let until = self.began.elapsed() + INTERVAL * looks;
            tokio::time::sleep_until(self.began + until).await;
            let noticed = self.suspensions.has_changed().unwrap();
            self.suspensions.mark_unchanged();
            noticed
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_suspension_is_noticed_at_the_next_look_and_once() {
        let (mut machine, comparing) = Machine::start();
        tokio::time::sleep(INTERVAL / 2).await;
        assert!(!machine.noticed(100).await, "nothing has happened");
        for _ in 0..2 {
            machine.suspend(5_000);
            assert!(machine.noticed(1).await);
            assert!(!machine.noticed(10).await, "it was one suspension");
        }
        machine.stop.cancel();
        comparing.await.unwrap();
        assert!(machine.suspensions.has_changed().is_err(), "it has ended");
    }

    #[tokio::test(start_paused = true)]
    async fn clocks_that_drift_a_little_are_no_suspension() {
        let (mut machine, _comparing) = Machine::start();
        tokio::time::sleep(INTERVAL / 2).await;
        for _ in 0..100 {
            machine.suspend(49);
            assert!(!machine.noticed(1).await);
        }
        machine.suspend(51);
        assert!(machine.noticed(1).await);
    }
}

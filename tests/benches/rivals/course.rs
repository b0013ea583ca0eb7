//! Shared state of the clients that contend for one name, whichever rival they use.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use crate::{
    distribution::{Distribution, millis},
    exclusion::Exclusion,
    stage::Spent,
};

/// What a contended run came to.
pub(crate) struct HandOffs {
    pub(crate) waiters: usize,
    /// From when a release is about to be sent to when the next grant has been received.
    pub(crate) gaps: Distribution,
    /// The longest wait, also of those who still waited at the end.
    pub(crate) worst_wait: Duration,
    /// How long a hold really was: timers are coarse.
    pub(crate) mean_hold: Duration,
    /// Grants to a client of another coordinator than the one before.
    pub(crate) crossings: u64,
    pub(crate) spent: Spent,
    /// What was spent while everybody waited and nothing was released.
    pub(crate) waiting: Option<Spent>,
}

impl HandOffs {
    /// The worst wait over how long a turn of everybody takes at least.
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

    pub(crate) fn json(&self) -> Value {
        json!({
            "waiters": self.waiters,
            "gaps": self.gaps.json(),
            "worst_wait_ms": millis(self.worst_wait),
            "mean_hold_ms": millis(self.mean_hold),
            "crossings": self.crossings,
            "spent": self.spent.json(),
            "waiting": self.waiting.as_ref().map(Spent::json),
        })
    }
}

pub(crate) struct Course {
    pub(crate) exclusion: Exclusion,
    hold: Duration,
    seen: Mutex<Seen>,
}

struct Seen {
    began: Instant,
    until: Instant,
    released: Option<Instant>,
    gaps: Distribution,
    worst_wait: Duration,
    held: Duration,
    holds: u32,
    last_place: usize,
    crossings: u64,
}

impl Course {
    /// Nothing counts before it is begun.
    pub(crate) fn new(hold: Duration) -> anyhow::Result<Arc<Self>> {
        let now = Instant::now();
        Ok(Arc::new(Self {
            exclusion: Exclusion::default(),
            hold,
            seen: Mutex::new(Seen {
                began: now,
                until: now,
                released: None,
                gaps: Distribution::new()?,
                worst_wait: Duration::ZERO,
                held: Duration::ZERO,
                holds: 0,
                last_place: 0,
                crossings: 0,
            }),
        }))
    }

    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts from now on, for as long as `measured`, until the moment that it returns. Waits that have begun already begin
    /// now.
    pub(crate) fn begin(&self, measured: Duration) -> Instant {
        let mut seen = self.seen();
        seen.began = Instant::now();
        seen.until = seen.began + measured;
        seen.until
    }

    pub(crate) fn is_over(&self) -> bool {
        Instant::now() >= self.seen().until
    }

    /// Notes a wait from `began`, which has ended or is cut off by the end.
    pub(crate) fn waited(&self, began: Instant) {
        let mut seen = self.seen();
        let end = Instant::now().min(seen.until);
        let wait = end.saturating_duration_since(began.max(seen.began));
        seen.worst_wait = seen.worst_wait.max(wait);
    }

    /// Holds the name, unless the run is over, and notes that it is about to be released. `place` is the coordinator that
    /// granted it.
    pub(crate) async fn hold(&self, began: Instant, place: usize) -> anyhow::Result<()> {
        let granted = Instant::now();
        self.waited(began);
        if !self.is_over() {
            {
                let mut seen = self.seen();
                if let Some(released) = seen.released {
                    let gap = granted.saturating_duration_since(released);
                    seen.gaps.record(gap)?;
                    seen.crossings += u64::from(seen.last_place != place);
                }
                seen.last_place = place;
            }
            if !self.hold.is_zero() {
                tokio::time::sleep(self.hold).await;
            }
            let mut seen = self.seen();
            seen.held += granted.elapsed();
            seen.holds += 1;
        }
        self.releasing();
        Ok(())
    }

    /// Notes that a release is about to be sent.
    pub(crate) fn releasing(&self) {
        self.exclusion.releasing();
        self.seen().released = Some(Instant::now());
    }

    pub(crate) fn result(
        &self,
        waiters: usize,
        spent: Spent,
        waiting: Option<Spent>,
    ) -> anyhow::Result<HandOffs> {
        let mut seen = self.seen();
        Ok(HandOffs {
            waiters,
            gaps: std::mem::replace(&mut seen.gaps, Distribution::new()?),
            worst_wait: seen.worst_wait,
            mean_hold: seen.held / seen.holds.max(1),
            crossings: seen.crossings,
            spent,
            waiting,
        })
    }
}

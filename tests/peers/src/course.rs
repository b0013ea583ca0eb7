//! Shared state of the clients that contend for one name. The accounting of Leasehold's own row,
//! `tests/benches/rivals/course.rs`.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use crate::{distribution::Distribution, exclusion::Exclusion};

/// What a contended run came to.
#[derive(Debug)]
pub struct HandOffs {
    /// From when a release is about to be sent to when the next grant has been received.
    pub gaps: Distribution,
    /// The longest wait, also of those who still waited at the end.
    pub worst_wait: Duration,
    /// How long a hold really was: timers are coarse.
    pub mean_hold: Duration,
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
            }),
        }))
    }

    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts from now on, for as long as `measured`. Waits that have begun already begin now.
    pub(crate) fn begin(&self, measured: Duration) {
        let mut seen = self.seen();
        seen.began = Instant::now();
        seen.until = seen.began + measured;
    }

    pub(crate) fn is_over(&self) -> bool {
        Instant::now() >= self.seen().until
    }

    /// Notes a wait from `began`, which has ended or is cut off by the end.
    fn waited(&self, began: Instant) {
        let mut seen = self.seen();
        let end = Instant::now().min(seen.until);
        let wait = end.saturating_duration_since(began.max(seen.began));
        seen.worst_wait = seen.worst_wait.max(wait);
    }

    /// Holds the name, unless the run is over, and notes that it is about to be released.
    pub(crate) async fn hold(&self, began: Instant) -> anyhow::Result<()> {
        let granted = Instant::now();
        self.waited(began);
        if !self.is_over() {
            {
                let mut seen = self.seen();
                if let Some(released) = seen.released {
                    let gap = granted.saturating_duration_since(released);
                    seen.gaps.record(gap)?;
                }
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

    pub(crate) fn result(&self) -> anyhow::Result<HandOffs> {
        let mut seen = self.seen();
        Ok(HandOffs {
            gaps: std::mem::replace(&mut seen.gaps, Distribution::new()?),
            worst_wait: seen.worst_wait,
            mean_hold: seen.held / seen.holds.max(1),
        })
    }
}

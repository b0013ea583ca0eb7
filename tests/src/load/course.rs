//! Shared state of the clients that contend for one name, whichever rival they use.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use leasehold_load::{Distribution, Exclusion, Grant, Violation};

/// Result of a contended run.
#[derive(Debug)]
pub struct HandOffs {
    /// Times from when a release is about to be sent to when the next grant has been received.
    pub gaps: Distribution,
    /// The longest wait, including those that had not ended at the end.
    pub worst_wait: Duration,
    /// The mean time of a hold, measured because timers are coarse.
    pub mean_hold: Duration,
    /// Grants at another place, such as a coordinator, than the one before.
    pub crossings: u64,
}

/// State that all clients of a contended run share.
pub struct Course {
    exclusion: Exclusion,
    hold: Duration,
    seen: Mutex<Seen>,
}

struct Seen {
    began: Instant,
    until: Instant,
    /// The token of the present hold, if the service has tokens.
    token: Option<i64>,
    /// The time from the release before the present hold to its grant.
    gap: Option<Duration>,
    gaps: Distribution,
    worst_wait: Duration,
    held: Duration,
    holds: u32,
    last_place: usize,
    crossings: u64,
}

impl Course {
    /// Makes the state. Nothing counts before [`Course::begin`].
    ///
    /// # Errors
    ///
    /// Never: see [`Distribution::new`].
    pub fn new(hold: Duration) -> anyhow::Result<Arc<Self>> {
        let now = Instant::now();
        let exclusion = Exclusion::new("the name that all want");
        // Somebody always waits, so that every release is handed on.
        exclusion.asked();
        Ok(Arc::new(Self {
            exclusion,
            hold,
            seen: Mutex::new(Seen {
                began: now,
                until: now,
                token: None,
                gap: None,
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

    /// Begins to count, for as long as `measured`, and returns the end. Waits that have begun already count from now on.
    pub fn begin(&self, measured: Duration) -> Instant {
        let mut seen = self.seen();
        seen.began = Instant::now();
        seen.until = seen.began + measured;
        seen.until
    }

    /// Returns whether the measured time is over.
    pub fn is_over(&self) -> bool {
        Instant::now() >= self.seen().until
    }

    /// Notes a wait from `began`, which has ended or is cut off by the end.
    pub fn waited(&self, began: Instant) {
        let mut seen = self.seen();
        let end = Instant::now().min(seen.until);
        let wait = end.saturating_duration_since(began.max(seen.began));
        seen.worst_wait = seen.worst_wait.max(wait);
    }

    /// Checks a grant, with its fencing token if the service has tokens.
    ///
    /// # Errors
    ///
    /// As [`Exclusion::granted`].
    pub fn granted(&self, token: Option<i64>) -> Result<(), Violation> {
        let grant = self.exclusion.granted(token, || true, Instant::now())?;
        let mut seen = self.seen();
        seen.token = token;
        seen.gap = match grant {
            Grant::Held { hand_off } => hand_off,
            Grant::LostAlready => None,
        };
        Ok(())
    }

    /// Holds the name, unless the run is over, and notes that it is about to be released. `place` is the coordinator that
    /// granted it; 0 if there is only one.
    pub async fn hold(&self, began: Instant, place: usize) {
        let granted = Instant::now();
        self.waited(began);
        if !self.is_over() {
            {
                let mut seen = self.seen();
                if let Some(gap) = seen.gap {
                    seen.gaps.record(gap);
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
    }

    /// Notes that a release is about to be sent.
    pub fn releasing(&self) {
        let token = self.seen().token;
        self.exclusion.released(token, Instant::now());
    }

    /// Returns the result so far, and begins anew.
    ///
    /// # Errors
    ///
    /// Never: see [`Distribution::new`].
    pub fn result(&self) -> anyhow::Result<HandOffs> {
        let mut seen = self.seen();
        Ok(HandOffs {
            gaps: std::mem::replace(&mut seen.gaps, Distribution::new()?),
            worst_wait: seen.worst_wait,
            mean_hold: seen.held / seen.holds.max(1),
            crossings: seen.crossings,
        })
    }
}

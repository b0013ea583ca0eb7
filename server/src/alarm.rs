//! A timer that is set anew only when it has to ring earlier than it will.

use std::{pin::Pin, time::Duration};

use leasehold_core::time::Moment;
use tokio::time::{Instant, Sleep, sleep};

/// Longest rest, for one whose deadlines are far away.
const LONGEST_REST: Duration = Duration::from_secs(60);

/// Rings at the latest when its owner has something to do, and perhaps before: deadlines mostly move away, and setting a
/// timer at every message costs more than a ring too many now and then.
pub(crate) struct Alarm {
    sleep: Pin<Box<Sleep>>,
    rings_at: Moment,
}

impl Alarm {
    pub(crate) fn new(now: Moment) -> Self {
        Self {
            sleep: Box::pin(sleep(LONGEST_REST)),
            rings_at: now.after(LONGEST_REST),
        }
    }

    /// Sees to it that it rings at `due` at the latest, or, without that, not before long. One that has rung rings on until this
    /// is called.
    pub(crate) fn set(&mut self, due: Option<Moment>, now: Moment) {
        let latest = now.after(LONGEST_REST);
        let due = due.map_or(latest, |due| due.min(latest));
        if due < self.rings_at || self.sleep.is_elapsed() {
            self.rings_at = due;
            self.sleep.as_mut().reset(Instant::now() + now.until(due));
        }
    }

    /// Rings at the next opportunity, at whatever time it was set: the clock has jumped.
    pub(crate) fn ring_soon(&mut self) {
        self.sleep.as_mut().reset(Instant::now());
    }

    /// Waits until it rings. May be dropped at any point.
    pub(crate) async fn rings(&mut self) {
        self.sleep.as_mut().await;
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn one_that_has_rung_is_silent_while_nothing_is_due() {
        let now = Moment::from_micros(0);
        let mut alarm = Alarm::new(now);
        let second = Duration::from_secs(1);
        alarm.set(Some(now.after(second)), now);
        alarm.rings().await;
        alarm.set(None, now.after(second));
        assert!(alarm.rings().now_or_never().is_none());
    }
}

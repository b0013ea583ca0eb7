//! Notices that the machine was suspended.
//!
//! Deadlines are by a clock that counts suspended time ([`leasehold_store::clock`]), the runtime's timers by one that stands
//! still meanwhile. So that not every session has to look at the time each second, one task compares the two for all.

use std::time::Duration;

use leasehold_store::clock;
use tokio::{
    sync::watch,
    time::{Instant, sleep},
};
use tokio_util::sync::CancellationToken;

use crate::Liveness;

/// How often the clocks are compared: whoever waits for a deadline is late by at most this much after a suspension.
const INTERVAL: Duration = Duration::from_secs(1);
/// What the clocks may drift apart between two looks without anything having happened.
const TOLERANCE: Duration = Duration::from_millis(50);

/// Changes whenever the machine was suspended, until `stop`.
pub(crate) fn watch_for(liveness: &Liveness, stop: &CancellationToken) -> watch::Receiver<()> {
    let (suspended, receiver) = watch::channel(());
    let stopped = stop.clone();
    let watching = async move {
        loop {
            let (timers, deadlines) = (Instant::now(), clock::now());
            tokio::select! {
                () = stopped.cancelled() => return,
                () = sleep(INTERVAL) => {}
            }
            let passed = deadlines.until(clock::now());
            if passed > timers.elapsed() + TOLERANCE {
                suspended.send_replace(());
            }
        }
    };
    tokio::spawn(liveness.keep("watch for suspensions", stop, watching));
    receiver
}

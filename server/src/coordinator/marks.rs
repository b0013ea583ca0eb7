//! Marks of the sessions that operators have ended ([ADR 22](../../../docs/adr/0022-an-end-is-a-mark.md)).
//!
//! The store keeps the marks. Every coordinator looks at them twice a second, and ends the session that it has of that id, and those
//! that have resumed something from it.

use std::time::Duration;

use leasehold_core::ended::EndChange;
use tokio::{
    select,
    time::{Instant, sleep, sleep_until},
};
use tokio_util::sync::CancellationToken;

use super::Coordinator;

/// Interval at which each coordinator looks at the marks.
pub const LOOK_INTERVAL: Duration = Duration::from_millis(500);

/// Looks at the marks until it is stopped.
pub(super) async fn run(coordinator: Coordinator, stop: CancellationToken) {
    let followed = Box::pin(coordinator.follow_marks());
    stop.run_until_cancelled(followed).await;
}

impl Coordinator {
    async fn follow_marks(&self) {
        let status = self.store().status();
        let mut next_look = Instant::now();
        loop {
            if !status.borrow().is_up() {
                sleep(LOOK_INTERVAL).await;
                continue;
            }
            // One call for each report: they are few.
            let report = self.ends().report();
            let change = report.map(|(mark, count)| EndChange::Count(mark, count));
            // If it fails, the next look finds the marks. A report is for people, and is not repeated, so that none counts twice.
            let marks = self.store().ended_sessions(change).await;
            // What may not be ended reports so at each look, which must not be the reason for another one.
            if next_look <= Instant::now() {
                next_look = Instant::now() + LOOK_INTERVAL;
                for (mark, _) in marks.ok().flatten().unwrap_or_default() {
                    let granted = self.granted_to(&mark.by);
                    self.ends().end(mark, &granted);
                }
            }
            select! {
                () = sleep_until(next_look) => {}
                () = self.ends().reported() => {}
            }
        }
    }
}

//! Marks of the sessions that operators have ended ([ADR 22](../../../docs/adr/0022-an-end-is-a-mark.md)).
//!
//! The store keeps the marks. Every coordinator looks at them twice a second, and ends the session that it has of that id, and those
//! that have resumed something from it.

use std::time::Duration;

use leasehold_core::ended::EndChange;
use tokio::{select, time::sleep};
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
        loop {
            if !status.borrow().is_up() {
                sleep(LOOK_INTERVAL).await;
                continue;
            }
            // One call for each report: they are few.
            let report = self.ends().report();
            let change = report.map(|(mark, count)| EndChange::Count(mark, count));
            // If it fails, the next look finds the marks. A report is for people, and is not repeated, so that none counts twice.
            if let Ok(Some(marks)) = self.store().ended_sessions(change).await {
                for (id, _) in marks {
                    self.ends().end(id);
                }
            }
            select! {
                () = sleep(LOOK_INTERVAL) => {}
                () = self.ends().reported() => {}
            }
        }
    }
}

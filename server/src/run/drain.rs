//! Drain: the coordinator stops without losing a client's lock.

use std::time::Duration;

use tokio_util::task::TaskTracker;

use crate::{coordinator::Coordinator, session::signals::Shutdown};

/// Time for releases in flight when everything else has ended, in addition to the store's time-out.
const LAST_RELEASES: Duration = Duration::from_millis(500);

/// Asks the sessions to finish, then ends them, and waits for the releases that follow.
pub(super) async fn drain(stages: &Shutdown, tasks: &TaskTracker, coordinator: &Coordinator) {
    let patience = coordinator.limits().config().drain_timeout;
    tracing::info!(?patience, "draining: asking sessions to finish");
    stages.draining.cancel();
    tasks.close();
    let finished = tokio::time::timeout(patience, tasks.wait()).await;
    if finished.is_err() {
        tracing::info!(
            sessions = tasks.len(),
            "ending the remaining sessions; their locks stay in the store until they expire"
        );
    }
    stages.stopping.cancel();
    // A closing session waits for the store at most twice.
    let patience = coordinator.store_timeout() * 2 + LAST_RELEASES;
    if tokio::time::timeout(patience, tasks.wait()).await.is_err() {
        tracing::warn!(
            sessions = tasks.len(),
            "stopping before all sessions have ended"
        );
    }
    let patience = coordinator.store_timeout() + LAST_RELEASES;
    let cleaned = async {
        while coordinator.metrics().inflight_cleanups.value() > 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    if tokio::time::timeout(patience, cleaned).await.is_err() {
        tracing::warn!(
            "stopping before the store has answered every release; unreleased locks will expire"
        );
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use tokio::time;

    use super::*;
    use crate::coordinator::tests::site::Site;

    #[tokio::test(start_paused = true)]
    async fn the_end_waits_for_releases_in_the_background() {
        let site = Site::start();
        let stages = Shutdown::idle();
        let release = site.coordinator.metrics().inflight_cleanups.track();
        let tasks = TaskTracker::new();
        let mut drained = pin!(drain(&stages, &tasks, &site.coordinator));
        let early = time::timeout(LAST_RELEASES, drained.as_mut()).await;
        assert!(early.is_err() && stages.stopping.is_cancelled());
        drop(release);
        time::timeout(LAST_RELEASES, drained).await.unwrap();
    }
}

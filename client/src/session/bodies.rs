//! Work that runs under a session's locks, which ends before the session is closed.

use std::time::Duration;

use tokio::{sync::watch, time::timeout};

/// The work under the locks of one session. Clones share it.
///
/// All who wait for a lock look at `is_closing`, so that the count, which changes with all work, is kept apart: only a close
/// looks at that.
#[derive(Clone, Debug, Default)]
pub(crate) struct Bodies {
    is_closing: watch::Sender<bool>,
    running: watch::Sender<usize>,
}

/// Work that runs, with its locks, until this is dropped.
#[derive(Debug)]
pub(crate) struct Body(Bodies);

impl Bodies {
    /// Counts work from here on.
    pub(crate) fn begin(&self) -> Body {
        self.running.send_modify(|running| *running += 1);
        Body(self.clone())
    }

    /// Completes when the session is about to be closed.
    pub(crate) async fn closing(&self) {
        let mut is_closing = self.is_closing.subscribe();
        // The sender is this value's own.
        let _ = is_closing.wait_for(|is_closing| *is_closing).await;
    }

    /// Has all work stop, and waits until it has, at most for a time. Returns how much of it still runs.
    pub(super) async fn close(&self, within: Duration) -> usize {
        self.is_closing.send_replace(true);
        let mut running = self.running.subscribe();
        let ended = running.wait_for(|running| *running == 0);
        match timeout(within, ended).await {
            Ok(_) => 0,
            Err(_) => *self.running.borrow(),
        }
    }
}

impl Body {
    /// Completes when the work is to stop, because the session is about to be closed.
    pub(crate) async fn closing(&self) {
        self.0.closing().await;
    }
}

impl Drop for Body {
    fn drop(&mut self) {
        self.0.running.send_modify(|running| *running -= 1);
    }
}

//! Work that runs under a session's locks, which ends before the session is closed.

use std::time::Duration;

use tokio::{sync::watch, time::timeout};

/// The work under the locks of one session. Clones share it.
#[derive(Clone, Debug)]
pub(crate) struct Bodies(watch::Sender<State>);

#[derive(Clone, Copy, Debug, Default)]
struct State {
    is_closing: bool,
    running: usize,
}

/// Work that runs, with its locks, until this is dropped.
#[derive(Debug)]
pub(crate) struct Body(Bodies);

impl Default for Bodies {
    fn default() -> Self {
        Self(watch::Sender::new(State::default()))
    }
}

impl Bodies {
    /// Counts work from here on.
    pub(crate) fn begin(&self) -> Body {
        self.0.send_modify(|state| state.running += 1);
        Body(self.clone())
    }

    /// Completes when the session is about to be closed.
    pub(crate) async fn closing(&self) {
        let mut state = self.0.subscribe();
        // The sender is this value's own.
        let _ = state.wait_for(|state| state.is_closing).await;
    }

    /// Has all work stop, and waits until it has, at most for a time. Returns how much of it still runs.
    pub(super) async fn close(&self, within: Duration) -> usize {
        self.0.send_modify(|state| state.is_closing = true);
        let mut state = self.0.subscribe();
        let ended = state.wait_for(|state| state.running == 0);
        match timeout(within, ended).await {
            Ok(_) => 0,
            Err(_) => self.0.borrow().running,
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
        self.0.0.send_modify(|state| state.running -= 1);
    }
}

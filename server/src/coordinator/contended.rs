//! Messages to the task that owns the contended names.

use std::time::Duration;

use leasehold_core::{contention::Input, name::LockName};
use tokio::sync::mpsc;

use crate::telemetry::{Level, Tracked};

/// Handle on the task.
#[derive(Clone, Debug)]
pub(super) struct Contention {
    messages: mpsc::UnboundedSender<(Input, Tracked)>,
    waiting: Level,
}

/// Inputs of the task, counted until it has handled them. Each waiter has at most two in the channel, so the number of waiters
/// bounds it.
pub(super) type Messages = mpsc::UnboundedReceiver<(Input, Tracked)>;

impl Contention {
    /// Returns the handle, and what the task is given. Messages that it has not seen to count as `waiting`.
    pub(super) fn new(waiting: Level) -> (Self, Messages) {
        let (messages, receiver) = mpsc::unbounded_channel();
        (Self { messages, waiting }, receiver)
    }

    pub(super) fn tell(&self, input: Input) {
        // The task outlives every session; when it is gone the process is ending.
        let _ = self.messages.send((input, self.waiting.track()));
    }

    /// Has a name refreshed when what is in its way will be gone, if anybody here waits for it.
    pub(super) fn recheck(&self, name: &LockName, after: Duration) {
        let name = name.clone();
        self.tell(Input::Recheck { name, after });
    }

    /// Has a name refreshed at once, whoever waits for it.
    pub(super) fn look(&self, name: &LockName) {
        self.tell(Input::Look { name: name.clone() });
    }
}

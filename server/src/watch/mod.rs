//! Watching: changes of locks, for the clients that follow them.
//!
//! - [`hub`]: follows the store's feed, and keeps a mirror of the watched locks. It costs nothing while there are no watchers.
//! - `driver`: the task that runs the hub over the store.
//! - `following`: the subjects that the feed follows.
//! - [`loading`]: the first look at the locks of a prefix or a name.
//! - [`output`]: what the hub wants of its driver.
//! - [`signal`]: signals of watchers and observers to the hub.
//! - [`watchers`]: the watchers, each of which receives every event, in bounded memory.
//! - [`elections`]: the observers of leaders.

pub mod elections;
pub mod hub;
pub mod loading;
pub mod output;
pub mod signal;
pub mod watchers;

mod driver;
mod following;

use leasehold_core::name::LockName;
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use self::{driver::Request, elections::Observer, watchers::Watcher};
use crate::{Liveness, coordinator::Coordinator};

/// Handle on the hub; cheap to clone.
#[derive(Clone, Debug)]
pub struct Watching {
    requests: mpsc::UnboundedSender<Request>,
}

impl Watching {
    /// Starts the hub, which runs until `stop`; `liveness` monitors it.
    pub fn start(coordinator: Coordinator, liveness: &Liveness, stop: &CancellationToken) -> Self {
        let (requests, incoming) = mpsc::unbounded_channel();
        let hub = driver::run(coordinator, incoming, stop.clone());
        tokio::spawn(liveness.keep("hub of watchers", stop, hub));
        Self { requests }
    }

    /// Watches all locks whose names begin with a prefix. `None` if the coordinator is stopping.
    pub async fn watch(&self, prefix: String) -> Option<Watcher> {
        let (reply, watcher) = oneshot::channel();
        self.requests.send(Request::Watch { prefix, reply }).ok()?;
        watcher.await.ok()
    }

    /// Observes an election. `None` if the coordinator is stopping.
    pub async fn observe(&self, name: LockName) -> Option<Observer> {
        let (reply, observer) = oneshot::channel();
        self.requests.send(Request::Observe { name, reply }).ok()?;
        observer.await.ok()
    }
}

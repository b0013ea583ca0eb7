//! Address that a link leads to: one server, or whichever server is the master now.

use std::{fmt, future, sync::Arc};

use tokio::sync::{Notify, watch};

use super::{status::Fault, url::RedisTarget};

/// Place that a link leads to, and that may move. Each connection has its own copy.
#[derive(Clone)]
pub(super) struct Place {
    /// Its name in messages.
    pub(super) label: Arc<str>,
    /// The database number that each connection selects, wherever it is.
    pub(super) database: u32,
    /// Where it is now, or why that is not known.
    pub(super) whereabouts: watch::Receiver<Whereabouts>,
    /// Wakes the task that determines this, when a connection gives reason to ask again.
    pub(super) doubt: Arc<Notify>,
}

/// Server of a place, or why it is not known.
pub(super) type Whereabouts = Result<RedisTarget, Fault>;

impl Place {
    /// Returns the place of a server, which never moves.
    pub(super) fn fixed(target: RedisTarget) -> Self {
        let (label, database) = (target.label().into(), target.database());
        Self {
            label,
            database,
            whereabouts: watch::channel(Ok(target)).1,
            doubt: Arc::default(),
        }
    }

    /// Returns the present server.
    pub(super) fn target(&mut self) -> Whereabouts {
        self.whereabouts.borrow_and_update().clone()
    }

    /// Completes when the server may differ from the last result of [`Place::target`].
    pub(super) async fn changed(&mut self) {
        if self.whereabouts.changed().await.is_err() {
            // It is fixed, or the task that knows of changes has ended.
            future::pending().await
        }
    }

    /// Completes when it is no longer at `target`.
    pub(super) async fn left(&mut self, target: &RedisTarget) {
        while self.target().is_ok_and(|now| now.is_same_server(target)) {
            self.changed().await;
        }
    }

    /// Reports trouble with its present server.
    pub(super) fn doubt(&self) {
        self.doubt.notify_waiters();
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.label)
    }
}

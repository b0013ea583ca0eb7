//! Address that a link leads to: one server, or whichever server is the master now.

use std::{fmt, future, sync::Arc};

use tokio::sync::{Notify, watch};

use super::{status::Fault, url::RedisTarget};

/// Place that a link leads to. Each connection has its own copy.
#[derive(Clone)]
pub(super) enum Place {
    /// Always to the same server.
    Fixed(RedisTarget),
    /// To the server that another task names.
    Moving(Moving),
}

/// Place that another task determines, and that may change.
#[derive(Clone)]
pub(super) struct Moving {
    /// Its name in messages.
    pub(super) label: Arc<str>,
    /// The database number, wherever it is.
    pub(super) database: u32,
    /// Its present address, or the reason for which that is not known.
    pub(super) whereabouts: watch::Receiver<Whereabouts>,
    /// Wakes that task, when a connection gives reason to ask again.
    pub(super) doubt: Arc<Notify>,
}

/// Server of a place, or why it is not known.
pub(super) type Whereabouts = Result<RedisTarget, Fault>;

impl Place {
    /// Returns the present server.
    pub(super) fn target(&mut self) -> Whereabouts {
        match self {
            Self::Fixed(target) => Ok(target.clone()),
            Self::Moving(moving) => moving.whereabouts.borrow_and_update().clone(),
        }
    }

    /// Completes when the server may differ from the last result of [`Place::target`].
    pub(super) async fn changed(&mut self) {
        if let Self::Moving(moving) = self
            && moving.whereabouts.changed().await.is_ok()
        {
            return;
        }
        // It is fixed, or the task that knows of changes has ended.
        future::pending().await
    }

    /// Completes when it is no longer at `target`.
    pub(super) async fn left(&mut self, target: &RedisTarget) {
        while self.target().is_ok_and(|now| now.is_same_server(target)) {
            self.changed().await;
        }
    }

    /// Reports trouble with its present server.
    pub(super) fn doubt(&self) {
        if let Self::Moving(moving) = self {
            moving.doubt.notify_waiters();
        }
    }

    /// Returns the database number that each connection selects.
    pub(super) fn database(&self) -> u32 {
        match self {
            Self::Fixed(target) => target.database(),
            Self::Moving(moving) => moving.database,
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fixed(target) => f.write_str(&target.label()),
            Self::Moving(moving) => f.write_str(&moving.label),
        }
    }
}

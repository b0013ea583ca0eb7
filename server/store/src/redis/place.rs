//! Address that a link leads to: one server, or whichever server is the master now.

use std::{fmt, future, sync::Arc};

use tokio::sync::{Notify, watch};

use super::{status::Fault, url::RedisTarget};

/// Where a link leads. Each connection has one of its own.
#[derive(Clone)]
pub(super) enum Place {
    /// Always to the same server.
    Fixed(RedisTarget),
    /// To where somebody else says.
    Moving(Moving),
}

/// A place that somebody else knows, and that may change.
#[derive(Clone)]
pub(super) struct Moving {
    /// What messages call it.
    pub(super) label: Arc<str>,
    /// The database number, wherever it is.
    pub(super) database: u32,
    /// Where it is now, or why that is not known.
    pub(super) whereabouts: watch::Receiver<Whereabouts>,
    /// Wakes whoever knows, when a connection gives reason to ask again.
    pub(super) doubt: Arc<Notify>,
}

/// Where a place is, or why that is not known.
pub(super) type Whereabouts = Result<RedisTarget, Fault>;

impl Place {
    /// Where it is now.
    pub(super) fn target(&mut self) -> Whereabouts {
        match self {
            Self::Fixed(target) => Ok(target.clone()),
            Self::Moving(moving) => moving.whereabouts.borrow_and_update().clone(),
        }
    }

    /// Completes when more is known than [`Place::target`] said last.
    pub(super) async fn changed(&mut self) {
        if let Self::Moving(moving) = self
            && moving.whereabouts.changed().await.is_ok()
        {
            return;
        }
        // It stays, or nobody is left who would know of a change.
        future::pending().await
    }

    /// Completes when it is no longer at `target`.
    pub(super) async fn left(&mut self, target: &RedisTarget) {
        while self.target().is_ok_and(|now| now.is_same_server(target)) {
            self.changed().await;
        }
    }

    /// Says that something is wrong with where it is.
    pub(super) fn doubt(&self) {
        if let Self::Moving(moving) = self {
            moving.doubt.notify_waiters();
        }
    }

    /// The database number that each connection selects.
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

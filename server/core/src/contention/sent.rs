//! Commands on their way to the store, and what each is for.

use std::sync::Arc;

use crate::{command::Acquire, id::FencingToken, name::LockName};

/// Token of a grant, and its number of permits if the acquire left that to the store.
pub(super) type Granted = (FencingToken, Option<u32>);

/// A command that was sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Sent {
    pub(super) name: LockName,
    /// The refresh that it is part of, unless that is over by now.
    pub(super) refresh: Option<u64>,
    pub(super) purpose: Purpose,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Purpose {
    /// Asks who holds the lock, and whether the oldest waiter is in the queue.
    Refresh,
    /// Makes a hand-off from elsewhere last for its TTL.
    Confirm(Arc<Acquire>, Granted),
    /// Has a waiter join the queue again.
    Join(Arc<Acquire>),
}

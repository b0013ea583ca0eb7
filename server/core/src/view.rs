//! What may be seen of a lock from outside. No owner ids.

use std::time::Duration;

use crate::{
    id::{CoordinatorId, FencingToken, SessionId},
    name::{ClientName, Value},
    time::StoreTime,
};

/// Who holds a lock.
#[derive(Clone, Debug, PartialEq)]
pub enum HolderView {
    /// A hold of ours.
    Ours(Box<HoldView>),
    /// Somebody who does not use Leasehold set the key.
    Foreign {
        /// Time until the key expires; `None` if it never does.
        expires_in: Option<Duration>,
    },
}

/// A hold of ours.
#[derive(Clone, Debug, PartialEq)]
pub struct HoldView {
    /// The session; `None` for the unary calls.
    pub session: Option<SessionId>,
    /// The client's name.
    pub client_name: ClientName,
    /// The coordinator through which it was granted or confirmed.
    pub coordinator: CoordinatorId,
    /// The grant's token.
    pub token: FencingToken,
    /// When it was granted.
    pub acquired_at: StoreTime,
    /// Time left unless renewed, without the lock-delay.
    pub expires_in: Duration,
    /// The lock-delay that it asked for.
    pub lock_delay: Duration,
    /// What is attached to it.
    pub value: Value,
}

/// Who waits for a lock.
#[derive(Clone, Debug, PartialEq)]
pub struct WaiterView {
    /// The session; `None` for a unary call.
    pub session: Option<SessionId>,
    /// The client's name.
    pub client_name: ClientName,
    /// The coordinator at which it waits.
    pub coordinator: CoordinatorId,
    /// When it joined the queue.
    pub since: StoreTime,
}

/// Everything that can be seen of one name.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NameView {
    /// Who holds it.
    pub holder: Option<HolderView>,
    /// For how long it stays closed after an unclean end.
    pub closed_for: Option<Duration>,
    /// The newest token on record.
    pub token: Option<FencingToken>,
    /// The first waiters, in order.
    pub waiters: Vec<WaiterView>,
    /// How many wait in all.
    pub waiter_count: u64,
}

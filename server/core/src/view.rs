//! Types for the view of a lock: from outside, without owner ids; and for the detector of deadlocks.

use std::time::Duration;

use crate::{
    id::{Actor, CoordinatorId, FencingToken, OwnerId, Predecessors, SessionId, WaiterNumber},
    mode::{Limit, Mode},
    name::{ClientName, Value},
    time::StoreTime,
};

/// Most holders that are shown of a name.
pub const HOLDERS_SHOWN: usize = 100;
/// Most holders, and most waiters, that the detector of deadlocks looks at.
pub const EDGES: usize = 512;

/// Holder of a lock.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum HolderView {
    /// A hold of Leasehold.
    Ours(Box<HoldView>),
    /// A key set by a program that does not use Leasehold.
    Foreign {
        /// Time until the key expires; `None` if it never does.
        expires_in: Option<Duration>,
    },
}

/// View of a hold of Leasehold.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct HoldView {
    /// The session; `None` for the unary calls.
    pub session: Option<SessionId>,
    /// The sessions that it was resumed from.
    pub predecessors: Predecessors,
    /// The client's flow that holds it.
    pub actor: Actor,
    /// The client's name.
    pub client_name: ClientName,
    /// Mode in which it is held.
    pub mode: Mode,
    /// Number of times that its holder holds it.
    pub count: u32,
    /// The coordinator through which it was granted or confirmed.
    pub coordinator: CoordinatorId,
    /// The grant's token.
    pub token: FencingToken,
    /// Time of the grant.
    pub acquired_at: StoreTime,
    /// Time left unless renewed, without the lock-delay.
    pub expires_in: Duration,
    /// The lock-delay that it asked for.
    pub lock_delay: Duration,
    /// Longest time from its grant for which it may be held, if there is a bound.
    pub max_hold: Option<Duration>,
    /// The value that is attached to it.
    pub value: Value,
}

impl HoldView {
    /// Returns whether it has expired, and only its lock-delay is left.
    pub fn is_over(&self) -> bool {
        self.expires_in.is_zero() && !self.lock_delay.is_zero()
    }
}

/// View of a waiter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WaiterView {
    /// The session; `None` for a unary call.
    pub session: Option<SessionId>,
    /// The sessions that it was resumed from.
    pub predecessors: Predecessors,
    /// The client's flow that waits.
    pub actor: Actor,
    /// The client's name.
    pub client_name: ClientName,
    /// Mode in which it wants to hold the lock.
    pub mode: Mode,
    /// The coordinator at which it waits.
    pub coordinator: CoordinatorId,
    /// Time at which it joined the queue.
    pub since: StoreTime,
    /// Its number among the waiters of the name.
    pub number: WaiterNumber,
}

/// Everything that can be seen of one name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NameView {
    /// The holders, those that expire first coming first: at most [`HOLDERS_SHOWN`].
    pub holders: Vec<HolderView>,
    /// Number of holders in all.
    pub holder_count: u64,
    /// Time for which it stays closed after an unclean end: after a shared hold to exclusive ones, after a semaphore's for the
    /// permits that were held.
    pub closed_for: Option<Duration>,
    /// The semaphore's limit, while it has holders or waiters.
    pub limit: Option<Limit>,
    /// Number of its permits that are taken, those that are closed included.
    pub permits_taken: u64,
    /// The newest token on record.
    pub token: Option<FencingToken>,
    /// The first waiters, in order.
    pub waiters: Vec<WaiterView>,
    /// Number of waiters in all.
    pub waiter_count: u64,
}

impl NameView {
    /// Leaves at most the first bytes of each value.
    #[must_use]
    pub fn with_values_of(mut self, most: usize) -> Self {
        for holder in &mut self.holders {
            if let HolderView::Ours(hold) = holder {
                hold.value.truncate(most);
            }
        }
        self
    }
}

/// Holders and waiters of one name, by owner id and ticket, for the detector of deadlocks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NameEdges {
    /// The holders. Empty where they are not [`complete`](Self::complete).
    pub holders: Vec<HoldEdge>,
    /// The first waiters whose coordinators live, in order: at most [`EDGES`].
    pub waiters: Vec<WaitEdge>,
    /// The semaphore's limit, while it has holders or waiters.
    pub limit: Option<Limit>,
    /// Whether these are all holders: not where there are more than [`EDGES`].
    pub complete: bool,
}

/// One that holds a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HoldEdge {
    /// Its owner id.
    pub owner: OwnerId,
    /// The session; `None` for the unary calls.
    pub session: Option<SessionId>,
    /// The client's flow that holds it.
    pub actor: Actor,
    /// The client's name.
    pub client_name: ClientName,
    /// Mode in which it is held.
    pub mode: Mode,
}

/// One that waits for a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WaitEdge {
    /// Its ticket.
    pub owner: OwnerId,
    /// The session; `None` for a unary call.
    pub session: Option<SessionId>,
    /// The client's flow that waits.
    pub actor: Actor,
    /// The client's name.
    pub client_name: ClientName,
    /// Mode in which it wants to hold the lock.
    pub mode: Mode,
    /// Time at which it joined the queue.
    pub since: StoreTime,
}

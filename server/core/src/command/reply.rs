//! Replies of the store: what a command found and did.

use std::{num::NonZeroU32, time::Duration};

use super::acquire::Acquire;
use crate::{
    id::{Actor, CoordinatorId, FencingToken, OwnerId, Predecessors},
    mode::{Limit, Mode},
    time::{Moment, StoreTime},
    view::{HolderView, NameEdges, NameView},
};

/// Result of a command, and the store's time of it.
#[derive(Clone, Debug)]
pub struct Executed {
    /// The answer.
    pub reply: Reply,
    /// The store's clock inside the operation.
    pub at: StoreTime,
    /// The grants that it made to waiters of all coordinators, in order.
    pub handed: Vec<Handed>,
    /// Whether more waiters fit than one command grants: the name must be refreshed at once.
    pub more: bool,
}

/// Command that was carried out, with the time of its sending.
#[derive(Clone, Debug)]
pub struct Stamped {
    /// Its effect.
    pub executed: Executed,
    /// Time of sending, by the coordinator's clock: every extended hold lasts at least from here.
    pub sent_at: Moment,
}

/// The answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// The lock is held by the owner id now.
    Granted {
        /// The grant's token.
        token: FencingToken,
        /// Number of permits granted, if the acquire left it to the store.
        permits: Option<u32>,
    },
    /// The acquire waits.
    Queued {
        /// Its place: 1 is next.
        position: u64,
        /// Time until the first hold or lock-delay that blocks it expires, if any does.
        expires_in: Option<Duration>,
    },
    /// The lock is not free, and the acquire did not want to wait.
    Busy {
        /// A holder, if there is one.
        holder: Option<HolderView>,
    },
    /// The semaphore has another limit of this revision, or fewer permits than requested; nothing was done.
    OtherLimit {
        /// The limit in force.
        limit: Limit,
    },
    /// A hold was resumed.
    Resumed {
        /// Its token, the same as before.
        token: FencingToken,
        /// Mode in which it is held.
        mode: Mode,
        /// The client's flow that holds it.
        actor: Actor,
        /// How long it may last.
        terms: Box<ResumedTerms>,
    },
    /// A place in the queue was resumed.
    ResumedWait {
        /// Its waiter.
        waiter: Box<ResumedWaiter>,
        /// Its place: 1 is next.
        position: u64,
        /// Time until the first hold or lock-delay that blocks it expires, if any does.
        expires_in: Option<Duration>,
    },
    /// The command arrived after its sender had given up; nothing was done.
    Late,
    /// The hold was extended.
    Renewed,
    /// The hold is gone.
    Lost(Loss),
    /// The release was carried out.
    Released {
        /// Whether the owner id held the lock.
        held: bool,
        /// Whether the owner id waited.
        waited: bool,
        /// Time for which the name is closed now, if it is.
        closed_for: Option<Duration>,
    },
    /// The refresh was carried out.
    Refreshed {
        /// The present hold, if the caller granted or confirmed it or must confirm it. Of shared holds and semaphores, those
        /// of the caller's waiters that were handed the lock and have not been renewed since, the oldest first.
        current: Vec<Current>,
        /// Time until the first hold or lock-delay that blocks it expires, if any does.
        expires_in: Option<Duration>,
        /// Whether the oldest waiter of the command is in the queue or holds the lock, and no waiter of the caller was removed
        /// by an operator, or because of a lowered limit, since its last refresh.
        attached: bool,
    },
    /// The force release was carried out.
    Forced {
        /// The former holders, except foreign ones; or the former waiter.
        former: Vec<OwnerAt>,
        /// Whether anything was released.
        released: bool,
        /// The name's token now.
        token: FencingToken,
    },
    /// The request to release was sent to these holders, of which the caller tells its own.
    Asked {
        /// The holders, all of them sessions.
        holders: Vec<HoldAt>,
    },
    /// The hold was changed; if false, it was lost before.
    Changed(bool),
    /// The view.
    Seen(Box<NameView>),
    /// The edges of the wait graph.
    Edges(Box<NameEdges>),
    /// The view was sent to the feed.
    Looked,
    /// The feed has no subscriber. The rules never answer this; a store may.
    Unheard,
}

/// A waiter whose place was resumed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResumedWaiter {
    /// Its acquire, under its new owner id.
    pub acquire: Acquire,
    /// The sessions that it was resumed from.
    pub predecessors: Predecessors,
}

/// Terms of a hold that was resumed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResumedTerms {
    /// The lock-delay that was asked for.
    pub lock_delay: Duration,
    /// Time left of its `max_hold`, counted from its grant; `None` if it has none.
    pub ends_in: Option<Duration>,
    /// The sessions that it was resumed from.
    pub predecessors: Predecessors,
}

/// Reason why a hold is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Loss {
    /// No more than its lock-delay was left.
    Expired,
    /// The key is missing.
    Deleted,
    /// The key has another owner id, or is closed.
    Taken,
    /// An operator took it, or removed the waiter.
    Forced,
    /// Another stream resumed it, and holds it under another owner id.
    Resumed,
}

/// Grant to a waiter, made by another client's operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Handed {
    /// The waiter.
    pub owner: OwnerId,
    /// Its token.
    pub token: FencingToken,
    /// Number of permits granted, if the acquire left it to the store. Not 0, so that it needs no more room than it has to.
    pub permits: Option<NonZeroU32>,
    /// The coordinator that it waits at.
    pub coordinator: CoordinatorId,
    /// Whether a session waits. Callers of the unary calls renew for themselves, so an unknown owner id of theirs may still
    /// be in use.
    pub of_session: bool,
}

/// Present hold of a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Current {
    /// Its owner id.
    pub owner: OwnerId,
    /// Its token.
    pub token: FencingToken,
    /// Number of its permits, if its acquire left it to the store.
    pub permits: Option<u32>,
    /// Whether a session holds it; only its caller renews a hold of the unary calls.
    pub of_session: bool,
}

/// Holder, its coordinator, and the token of the hold that is meant. The owner id may be granted a later hold before a message about
/// this one arrives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HoldAt {
    /// The holder.
    pub holder: OwnerAt,
    /// Its token.
    pub token: FencingToken,
}

/// Holder or waiter, and its coordinator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnerAt {
    /// Its owner id.
    pub owner: OwnerId,
    /// The coordinator through which it holds or waits.
    pub coordinator: CoordinatorId,
}

//! Commands that a coordinator sends about one lock, and the store's replies to them.

mod acquire;
mod reply;

use std::{sync::Arc, time::Duration};

use crate::{
    id::{CoordinatorId, FeedId, FencingToken, OwnerId, ReleaseRequestId, WaiterNumber},
    name::{LockName, MAX_VALUE, ReleaseReason, Value},
    time::StoreTime,
};

pub use self::{
    acquire::{Acquire, Resume},
    reply::{
        Current, Executed, Handed, HoldAt, Loss, OwnerAt, Reply, ResumedTerms, ResumedWaiter,
        Stamped,
    },
};

/// Time within which another coordinator must confirm a hand-off.
pub const CLAIM_TIME: Duration = Duration::from_secs(3);
/// Interval at which a coordinator refreshes each name that it has waiters on.
pub const REFRESH_INTERVAL: Duration = Duration::from_secs(1);
/// Time without a refresh of a name after which a coordinator counts as dead for it: its waiters are skipped.
pub const DEAD_AFTER: Duration = Duration::from_secs(2);
/// Time without a refresh of a name after which a coordinator's waiters lose their places.
pub const PLACES_KEPT: Duration = Duration::from_secs(10);

/// Most waiters that one command grants a lock to; the next refresh grants it to more that fit.
pub const GRANTS_AT_ONCE: usize = 100;
/// Most holds in the reply to a refresh.
pub const CURRENT_AT_ONCE: usize = 100;

/// One operation on one name. Every operation is idempotent for the same owner id, because a reply may be lost.
#[derive(Clone, Debug)]
pub struct Command {
    /// The name.
    pub name: LockName,
    /// The coordinator that sends it.
    pub caller: Caller,
    /// The operation.
    pub op: Op,
}

/// Coordinator that sends a command.
#[derive(Clone, Debug)]
pub struct Caller {
    /// Its id: the reply has the grants to its own waiters; other coordinators receive theirs by their wake-up channels.
    pub coordinator: CoordinatorId,
    /// One more than the largest token of any name that the store has reported to it. At most the store's time plus the
    /// memory counts: see [`Caller::floor_at`].
    pub floor: FencingToken,
    /// The time for which the store remembers the name's token, from the token's own time or from now, whichever is later. It
    /// remembers owner ids that a resume replaced for the same time, from now on.
    pub token_memory: Duration,
    /// The time, by the store's clock, at which the sender gives up: a command that arrives later does nothing, except a
    /// release or view, whose changes watchers are not told then ([`Change::Doubtful`](crate::watch::Change::Doubtful)).
    /// `None` lets the store decide.
    pub not_after: Option<StoreTime>,
}

impl Caller {
    /// Returns the caller's lower bound for the next token: its floor, or the furthest ahead of the store's time that a
    /// token may be, whichever is smaller. Without that bound one token of the far future would raise those of every name.
    pub fn floor_at(&self, now: StoreTime) -> FencingToken {
        let furthest = now.after(self.token_memory);
        self.floor.min(FencingToken::new(furthest.as_micros()))
    }

    /// Returns until when a token is remembered: for the memory after the token's own time, or after now if that is later.
    /// By then the store's time has passed the token, and so has every token that is minted without a record of it.
    pub fn remembers_until(&self, token: FencingToken, now: StoreTime) -> StoreTime {
        now.max(StoreTime::from_micros(token.get()))
            .after(self.token_memory)
    }
}

/// The operations.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Op {
    /// Takes the lock, or joins its queue. Answered by [`Reply::Granted`], [`Reply::Queued`], [`Reply::Busy`] or
    /// [`Reply::OtherLimit`]; if it is sent again, perhaps by [`Reply::Lost`].
    Acquire(Acquire),
    /// Extends a hold, or confirms a hand-off. Answered by [`Reply::Renewed`] or [`Reply::Lost`].
    Renew {
        /// The hold.
        owner: OwnerId,
        /// The token of its grant, if the sender knows it. A hold of the same owner id with another token is another grant,
        /// which its waiter got after a fail-over of Redis had lost this one: it is not extended, and this one is
        /// [`Loss::Taken`]. Others may have held the lock in between.
        token: Option<FencingToken>,
        /// The new TTL from now on; the hold's lock-delay is added.
        ttl: Duration,
    },
    /// Ends the hold or the place in the queue that has this owner id, and hands the lock on. Answered by [`Reply::Released`].
    Release {
        /// The hold or waiter.
        owner: OwnerId,
        /// Whether its client released it, or was lost: then the lock-delay applies.
        end: End,
    },
    /// Shows that the caller's waiters of this name live, hands a free lock on, and finds grants that the caller may have
    /// missed. Answered by [`Reply::Refreshed`].
    Refresh {
        /// The caller's oldest waiter, to see whether the store still knows it.
        oldest: Option<OwnerId>,
    },
    /// Takes the lock from all its holders, raises the token, and hands the lock on. Answered by [`Reply::Forced`].
    ForceRelease,
    /// Takes the lock from one of its holders, and raises the token above that one's, or removes one waiter from the queue; then
    /// hands the lock on. Answered by [`Reply::Forced`].
    ForceReleaseOne(One),
    /// Asks the sessions that hold the name to release it; changes nothing. Answered by [`Reply::Asked`].
    RequestRelease {
        /// The token of the one hold that is meant; `None` means every hold.
        only: Option<FencingToken>,
        /// The request.
        request: Arc<ReleaseRequest>,
    },
    /// Changes the value of a hold. Answered by [`Reply::Changed`].
    SetValue {
        /// The hold.
        owner: OwnerId,
        /// The new value.
        value: Value,
    },
    /// Notes how many times its holder holds a hold, for others to see. Answered by [`Reply::Changed`].
    SetCount {
        /// The hold.
        owner: OwnerId,
        /// Number of times that its actor holds it.
        count: u32,
    },
    /// Makes an exclusive hold a shared one, and grants shared waiters. Answered by [`Reply::Changed`], which is true if the
    /// hold was shared already.
    Downgrade {
        /// The hold.
        owner: OwnerId,
    },
    /// Gives permits of a hold back except this many, and hands them on. Answered by [`Reply::Changed`], which is true if the
    /// hold had no more than that already.
    Reduce {
        /// The hold.
        owner: OwnerId,
        /// Number of permits that it keeps: at least 1.
        permits: u32,
    },
    /// Moves a hold, or a place in the queue, to another stream, and changes its owner id. Answered by
    /// [`Reply::Resumed`], [`Reply::ResumedWait`] or [`Reply::Lost`].
    Resume(Resume),
    /// Shows the name. Answered by [`Reply::Seen`].
    View {
        /// Most waiters to show.
        waiters: usize,
        /// Most bytes of each value to show.
        value_bytes: usize,
    },
    /// Shows which actors wait for which. Answered by [`Reply::Edges`].
    Edges,
    /// Sends a view of the name to a feed, in order with its other items. Answered by [`Reply::Looked`] or
    /// [`Reply::Unheard`].
    Look {
        /// The feed.
        feed: FeedId,
    },
}

impl Op {
    /// Returns the operation that shows a name with at most this many waiters, and values as they are.
    #[must_use]
    pub const fn view(waiters: usize) -> Self {
        let value_bytes = MAX_VALUE;
        Self::View {
            waiters,
            value_bytes,
        }
    }
}

/// One holder or waiter of a name, as an operator sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum One {
    /// The hold with this token.
    Holder(FencingToken),
    /// The waiter with this number.
    Waiter(WaiterNumber),
}

/// Request of an operator to release a lock. Its holder decides what becomes of it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ReleaseRequest {
    /// Its id.
    pub id: ReleaseRequestId,
    /// Why, for the holder.
    pub reason: ReleaseReason,
    /// Time to release the lock, if the operator named one: whole milliseconds, at least one.
    pub within: Option<Duration>,
}

/// Kind of end of a hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum End {
    /// Its client released it, or never learnt of it.
    Clean,
    /// The same, of a hold that is known to have no value and no client name of more than [`KEPT_CLIENT_NAME`](crate::name::KEPT_CLIENT_NAME) bytes: the store has
    /// nothing to remove but the hold.
    Plain,
    /// Its client died or fell silent: the name stays closed for the hold's lock-delay.
    Unclean,
}

/// Effect of another coordinator's operation on an owner id of this one. A hint: it may be lost, and a refresh or renewal
/// then finds the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WakeUp {
    /// A waiter was granted, for the claim time: confirm it.
    Granted {
        /// The lock.
        name: LockName,
        /// The waiter.
        owner: OwnerId,
        /// Its token.
        token: FencingToken,
        /// Number of permits granted, if the acquire left it to the store.
        permits: Option<u32>,
        /// Whether a session waits.
        of_session: bool,
    },
    /// A hold was force-released.
    Forced {
        /// The lock.
        name: LockName,
        /// The former holder.
        owner: OwnerId,
    },
    /// Wake-ups may have been missed before the subscription began: refresh the name.
    Missed {
        /// The lock.
        name: LockName,
    },
    /// An operator removed a waiter from the queue.
    ForcedWaiter {
        /// The lock.
        name: LockName,
        /// The former waiter.
        owner: OwnerId,
    },
    /// Another coordinator resumed a hold or a place in the queue, under another owner id.
    Resumed {
        /// The lock.
        name: LockName,
        /// Its former owner id.
        owner: OwnerId,
    },
    /// An operator asks a holder to release the lock.
    ReleaseRequested {
        /// The lock.
        name: LockName,
        /// The holder.
        owner: OwnerId,
        /// The token of its hold.
        token: FencingToken,
        /// The request.
        request: Arc<ReleaseRequest>,
    },
}

//! Commands that a coordinator sends about one lock, and the store's replies to them.

use std::{num::NonZeroU32, sync::Arc, time::Duration};

use crate::{
    id::{
        Actor, CoordinatorId, FeedId, FencingToken, OwnerId, Predecessors, ReleaseRequestId,
        SessionId, WaiterNumber,
    },
    mode::{Limit, Mode},
    name::{ClientName, LockName, ReleaseReason, Value},
    time::{Moment, StoreTime},
    view::{HolderView, NameEdges, NameView},
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
    /// Shows the name, with at most this many waiters. Answered by [`Reply::Seen`].
    View {
        /// Most waiters to show.
        waiters: usize,
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

/// An acquire.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Acquire {
    /// The owner id of the grant to be, and the ticket until then.
    pub owner: OwnerId,
    /// The session that asks; `None` for the unary calls.
    pub session: Option<SessionId>,
    /// The client's flow that asks.
    pub actor: Actor,
    /// Its client's name.
    pub client_name: ClientName,
    /// Mode in which to hold the lock.
    pub mode: Mode,
    /// Attached to the hold.
    pub value: Value,
    /// Time for which the grant lasts unless renewed.
    pub ttl: Duration,
    /// Time for which the name stays closed after an unclean end.
    pub lock_delay: Duration,
    /// Longest time from the grant for which it may be held. The store keeps it with the hold; coordinators enforce it.
    pub max_hold: Option<Duration>,
    /// Whether to join the queue if the lock is not granted at once.
    pub wait: bool,
    /// Whether it was sent before. Another stream may then have resumed it meanwhile: in that case it is not carried out,
    /// and answered by [`Reply::Lost`].
    pub again: bool,
}

/// Change of owner, so that nothing that still uses the old stream can affect the hold.
///
/// If the old owner id still holds the lock, no other was granted in between: that is why a resume is safe.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Resume {
    /// The owner ids that the hold or place may have: the last confirmed one, then those of unanswered attempts to resume
    /// it.
    pub from: Vec<OwnerId>,
    /// Its new owner id, made for this stream. If a hold or place has it already, this stream resumed it and the answer was
    /// lost.
    pub next: OwnerId,
    /// The session of this stream; `None` for a unary call that is repeated.
    pub session: Option<SessionId>,
    /// Its client's name.
    pub client_name: ClientName,
    /// Time for which a hold lasts from now on unless renewed; its lock-delay is added.
    pub ttl: Duration,
    /// Number of times that a hold is held.
    pub count: u32,
}

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
        /// The request.
        request: Arc<ReleaseRequest>,
    },
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
        holders: Vec<OwnerAt>,
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

/// Holder or waiter, and its coordinator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnerAt {
    /// Its owner id.
    pub owner: OwnerId,
    /// The coordinator through which it holds or waits.
    pub coordinator: CoordinatorId,
}

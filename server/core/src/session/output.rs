//! Outputs of a session, which its driver carries out in their order.

use std::{sync::Arc, time::Duration};

use super::{CommandId, Draining, Names, OneOrMore, RequestId};
use crate::{
    command::{Acquire, CLAIM_TIME, End, Loss, Op, PLACES_KEPT},
    deadlock::Deadlock,
    failure::StoreError,
    id::{Actor, FencingToken, OwnerId, Predecessors},
    mode::Limit,
    name::{LockName, ReleaseReason},
    time::Moment,
    view::HolderView,
};

/// Something that a driver does for a session.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Output {
    /// Registers what an owner id stands for from now on.
    Register(OwnerId, Interest),
    /// Sends a command to the store. Commands to the same lock arrive there in this order.
    Store {
        /// Identifies the command's reply.
        id: CommandId,
        /// The request for which it is sent, if there is one.
        request: Option<RequestId>,
        /// The lock.
        name: LockName,
        /// The operation.
        op: Op,
    },
    /// Announces a waiter: its name is contended.
    TrackWait(TrackedWait),
    /// Tells the detector of deadlocks of a waiter that was announced: its actor holds something while it waits.
    WatchDeadlock(OwnerId),
    /// Withdraws a waiter that was announced.
    UntrackWait(OwnerId, WaitEnd),
    /// Releases something in the background, and keeps its owner id registered until that is done.
    Cleanup(PendingCleanup),
    /// Tells whoever has this owner id at this coordinator that another stream resumed it.
    TellMoved(OwnerId),
    /// It has resumed something from these sessions: who ends one of them ends it too.
    Succeeds(Predecessors),
    /// Sends an answer; those under request id 0 were not asked for.
    Send(RequestId, Response),
    /// Ends the stream after what was sent.
    EndStream(Option<Refused>),
    /// The session goes on without a stream.
    Detached,
    /// The session never opened, and counts as none; what it may have taken over is left for a while.
    NotOpened,
    /// For metrics and traces.
    Note(Note),
    /// The session is over. Nothing follows.
    Ended,
}

/// Meaning of an owner id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Interest {
    /// An acquire that is in flight or waits: a grant to it is the session's.
    Waits,
    /// A hold of the session, which hears if it is taken.
    Held,
    /// Something on its way out: a grant to it is nobody's, and is not given to anybody else.
    Settling,
    /// Nothing any more.
    Forgotten,
}

/// A waiter that is announced.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TrackedWait {
    /// The lock.
    pub name: LockName,
    /// The acquire.
    pub acquire: Arc<Acquire>,
    /// Time until what blocks it expires, if that is known.
    pub expires_in: Option<Duration>,
}

/// End of a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WaitEnd {
    /// With the lock.
    Granted,
    /// It lasted as long as it was to.
    TimedOut,
    /// The client cancelled it, or went away.
    Cancelled,
    /// Another stream resumed it, and goes on.
    Moved,
    /// It was part of a deadlock.
    Deadlocked,
    /// An operator removed it.
    Forced,
    /// It was granted, and the grant does not count.
    Failed,
}

/// A release that nobody waits for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PendingCleanup {
    /// The lock.
    pub name: LockName,
    /// The hold or waiter.
    pub owner: OwnerId,
    /// Whether its client is known to have given it up.
    pub end: End,
    /// Until when an acquire of this owner id may still reach the store: a release before that may come too early.
    pub may_arrive_until: Option<Moment>,
    /// Time at which the store has surely let it expire.
    pub gone_at: Moment,
    /// Whether it is a hold that was not renewed in time. Its client may have resumed it elsewhere meanwhile, for example while
    /// this process stood still: that is asked first.
    pub asks: bool,
}

impl PendingCleanup {
    /// Returns for how long the store may keep what an acquire has come to, if nobody renews or refreshes it. A place in the
    /// queue may come to a grant as long as it is kept, and a grant lasts for its TTL, or for the time to confirm it.
    pub fn lasts(ttl: Duration, lock_delay: Duration, store_timeout: Duration) -> Duration {
        PLACES_KEPT + ttl.max(CLAIM_TIME) + lock_delay + store_timeout * 3
    }
}

/// An answer to the client.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Response {
    /// The session is open.
    Opened(Box<Opened>),
    /// The acquire waits.
    Queued {
        /// Its ticket.
        ticket: OwnerId,
        /// Its place: 1 is next.
        position: u64,
    },
    /// The locks are held.
    Granted {
        /// The locks, in the order in which the client listed them.
        locks: OneOrMore<GrantedLock>,
        /// For how long after sending the acknowledged heartbeat the client may believe in them.
        valid_for: Duration,
        /// The newest heartbeat that was received.
        acked_heartbeat: u64,
    },
    /// The acquire ended without its locks.
    NotGranted {
        /// The reason.
        why: NotGranted,
        /// A holder, if one is known. Subject to permission.
        holder: Option<HolderView>,
        /// The names that were asked for.
        names: Names,
    },
    /// The release was carried out.
    Released {
        /// Whether there was something to release.
        released: bool,
        /// Number of times that the hold is still held.
        hold_count: u32,
    },
    /// The value was changed, or, if false, the hold was lost before.
    ValueSet(bool),
    /// The hold was downgraded, or, if false, it was lost before.
    Downgraded(bool),
    /// The hold was reduced, or, if false, it was lost before.
    Reduced(bool),
    /// Answers a heartbeat.
    Heartbeat {
        /// The heartbeat.
        acked_heartbeat: u64,
        /// For how long after sending it the client may believe in its locks.
        valid_for: Duration,
        /// If the client has nothing and waits for nothing: the time after sending it at which to send the next one.
        rest: Option<Duration>,
    },
    /// Holds are gone.
    Lost(Vec<LostLock>),
    /// An operator asks the client to release a hold.
    ReleaseRequested {
        /// The lock.
        name: LockName,
        /// The hold.
        owner: OwnerId,
        /// Why.
        reason: ReleaseReason,
        /// Time left for it, if the operator named one.
        within: Option<Duration>,
    },
    /// The client is to move to another stream.
    Draining(Draining),
    /// The session is closed.
    Closed,
    /// The request was refused.
    Refused(Refused),
}

/// Contents of a session that has just opened.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Opened {
    /// The locks and places that were taken over.
    pub resumed: Vec<ResumedLock>,
    /// The locks and places that could not be taken over.
    pub refused: Vec<LostLock>,
    /// For how long after sending `open` the client may believe in what was taken over.
    pub valid_for: Option<Duration>,
}

/// Something that was taken over.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ResumedLock {
    /// The lock.
    pub name: LockName,
    /// Its new owner id.
    pub owner: OwnerId,
    /// Its kind.
    pub what: ResumedWhat,
}

/// Kind of a lock that was taken over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ResumedWhat {
    /// A hold.
    Hold {
        /// Its token.
        token: FencingToken,
        /// Number of times that it is held.
        count: u32,
        /// Number of permits that are held of a semaphore; 0 in other modes.
        permits: u32,
        /// If it has a bound: the time after sending `open` at which it ends, however healthy the client.
        ends_in: Option<Duration>,
    },
    /// A place in the queue: 1 is next.
    Wait {
        /// The place.
        position: u64,
    },
}

/// A lock that was granted.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct GrantedLock {
    /// The lock.
    pub name: LockName,
    /// The hold.
    pub owner: OwnerId,
    /// Its token.
    pub token: FencingToken,
    /// Number of times that it is held.
    pub count: u32,
    /// Number of permits that are held of a semaphore; 0 in other modes.
    pub permits: u32,
    /// If it has a bound: the time after sending the acknowledged heartbeat at which it ends, however healthy the client.
    pub ends_in: Option<Duration>,
}

/// A lock that is gone.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct LostLock {
    /// The lock.
    pub name: LockName,
    /// The hold.
    pub owner: OwnerId,
    /// The reason.
    pub why: LostWhy,
}

/// Reason for which a lock is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LostWhy {
    /// The store says so.
    Store(Loss),
    /// The client lost the permission for it.
    Revoked,
    /// It was held for as long as it may be.
    MaxHold,
}

/// Reason for which an acquire ended without its locks, although nothing failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NotGranted {
    /// The lock was not free, and the acquire did not want to wait.
    Busy,
    /// The lock did not come free in time.
    TimedOut,
    /// The client cancelled it.
    Cancelled,
}

/// Reason for which a request, or the session, was refused.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Refused {
    /// The request id belongs to an acquire that is still in flight.
    RequestIdInUse(RequestId),
    /// The actor holds or waits for the lock, and would wait for itself.
    SelfDeadlock {
        /// The actor.
        actor: Actor,
        /// The lock.
        name: LockName,
        /// Whether the actor holds the lock; it waits for it otherwise.
        holds: bool,
    },
    /// The actor holds the lock in a weaker mode than it asks for.
    Upgrade {
        /// The actor.
        actor: Actor,
        /// The lock.
        name: LockName,
    },
    /// The session has as many locks and waiting acquires as it may.
    TooManyLocks {
        /// Number that it has.
        has: usize,
        /// Number that it asks for on top.
        more: usize,
        /// Number that it may have.
        limit: usize,
    },
    /// The session has as many changes of holds in flight as it may.
    TooManyRequests(Effect),
    /// As many acquires as may wait for the name.
    TooManyWaiters(LockName),
    /// The heartbeat does not follow the one before.
    HeartbeatOutOfOrder {
        /// The one before.
        last: u64,
    },
    /// The name is not that of the hold with this owner id.
    NotItsName,
    /// The client has no permission for the lock.
    PermissionDenied(LockName),
    /// The hold is of a semaphore and can't be made a shared one.
    NotExclusive(LockName),
    /// The hold is not one of a semaphore and has no permits to give back.
    NotASemaphore(LockName),
    /// A lock that the actor was to hold once more was lost meanwhile.
    LockLost,
    /// The grant came so late that its time was over.
    TooLate,
    /// The semaphore has another limit of this revision, or fewer permits than requested.
    OtherLimit {
        /// The lock.
        name: LockName,
        /// The limit in force.
        limit: Limit,
    },
    /// An operator removed the wait from the queue of this lock.
    ForcedOut(LockName),
    /// The caller has repeated the unary call, and a later attempt has its place.
    Repeated,
    /// The wait was part of a deadlock.
    Deadlock(Box<Deadlock>),
    /// The store failed.
    Store(StoreError),
    /// The owner id of a resumption was not answered for: what it came to is not known.
    ResumeUnanswered(StoreError),
    /// The coordinator stopped while the session was being resumed.
    StoppedWhileResuming,
    /// No heartbeat came for the session's TTL.
    Silent {
        /// The TTL.
        ttl: Duration,
    },
    /// The coordinator stopped.
    Stopped,
    /// An operator has ended the session.
    EndedByOperator,
}

/// Effect of a request that was refused for want of room.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Effect {
    /// The hold is being released in the background.
    ReleasedInBackground,
    /// Nothing was released.
    NotReleased,
    /// The value was not changed.
    ValueNotChanged,
    /// The hold was not downgraded.
    NotDowngraded,
    /// No permits were given back.
    NotReduced,
}

/// Something that metrics and traces count.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Note {
    /// A lock was granted.
    Granted,
    /// The grant of a request was handed off by a command that was sent at this moment.
    HandedOff(RequestId, Moment),
    /// A request goes on on the stream that resumed it.
    Moved(RequestId),
    /// A hold was lost.
    Lost(LockName, OwnerId, LostWhy),
    /// The client has lost a hold: its own deadline passed before it heard from the coordinator.
    Expired(LockName, OwnerId),
    /// Something was taken over from another stream.
    Resumed,
    /// A renewal of so many holds was sent.
    RenewalSent(usize),
    /// A renewal ended.
    RenewalEnded {
        /// Number of holds that were renewed.
        renewed: usize,
        /// Number of holds that were lost.
        lost: usize,
        /// Number of holds for which the store did not answer.
        failed: usize,
        /// Whether some of those are still due, through no fault of their keys.
        is_late: bool,
    },
    /// Nothing is to be renewed any more.
    NothingToRenew,
    /// So many holds could not be set to expire with the session's grace.
    NotShortened(usize),
}

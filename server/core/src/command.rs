//! Commands that a coordinator sends about one lock, and the store's replies to them.

use std::time::Duration;

use crate::{
    id::{Actor, CoordinatorId, FeedId, FencingToken, OwnerId, SessionId},
    mode::Mode,
    name::{ClientName, LockName, Value},
    time::StoreTime,
    view::{HolderView, NameEdges, NameView},
};

/// How long a hand-off to another coordinator stands until that coordinator confirms it.
pub const CLAIM_TIME: Duration = Duration::from_secs(3);
/// How often a coordinator refreshes each name that it has waiters on.
pub const REFRESH_INTERVAL: Duration = Duration::from_secs(1);
/// A coordinator that has not refreshed a name for this long is dead for it: its waiters are skipped.
pub const DEAD_AFTER: Duration = Duration::from_secs(2);
/// A coordinator that has not refreshed a name for this long loses its waiters' places.
pub const PLACES_KEPT: Duration = Duration::from_secs(10);

/// Most waiters that one command grants a lock to; of more that fit, the next refresh sees to.
pub const GRANTS_AT_ONCE: usize = 100;
/// Most holds that a refresh tells of.
pub const CURRENT_AT_ONCE: usize = 100;

/// One operation on one name. Every one is idempotent for the same owner id, because a reply may be lost.
#[derive(Clone, Debug)]
pub struct Command {
    /// The name.
    pub name: LockName,
    /// Who sends it.
    pub caller: Caller,
    /// What is asked.
    pub op: Op,
}

/// The coordinator that sends a command.
#[derive(Clone, Debug)]
pub struct Caller {
    /// Its id: grants to its own waiters are told in the reply, those to others through their wake-up channel.
    pub coordinator: CoordinatorId,
    /// One more than the largest token that the store has told it of any name. It counts for no more than the store's time
    /// and the memory together: see [`Caller::floor_at`].
    pub floor: FencingToken,
    /// How long the name's token is to be remembered from its own time on, or from now if that is later; and owner ids that
    /// a resume replaced, from now on.
    pub token_memory: Duration,
    /// By the store's clock, when the sender will have given up: a command that arrives later does nothing, except a
    /// release, which may always come late, and a view or look. `None` lets the store say.
    pub not_after: Option<StoreTime>,
}

impl Caller {
    /// Returns what the next token must not be below on the caller's account: its floor, or the furthest ahead of the
    /// store's time that a token may be, whichever is smaller. Without that bound one token of the far future would raise
    /// those of every name.
    pub fn floor_at(&self, now: StoreTime) -> FencingToken {
        let furthest = now.after(self.token_memory);
        self.floor.min(FencingToken::new(furthest.as_micros()))
    }

    /// Returns until when a token is remembered: for the memory after the token's own time, or after now if that is later.
    /// Then the store's time has passed the token, and with it whatever is minted without a record of it.
    pub fn remembers_until(&self, token: FencingToken, now: StoreTime) -> StoreTime {
        now.max(StoreTime::from_micros(token.get()))
            .after(self.token_memory)
    }
}

/// The operations.
#[derive(Clone, Debug)]
pub enum Op {
    /// Takes the lock, or joins its queue. Answered by [`Reply::Granted`], [`Reply::Queued`], [`Reply::Busy`] or
    /// [`Reply::OtherLimit`]; where it was asked before, perhaps by [`Reply::Lost`].
    Acquire(Acquire),
    /// Extends a hold, or confirms a hand-off. Answered by [`Reply::Renewed`] or [`Reply::Lost`].
    Renew {
        /// The hold.
        owner: OwnerId,
        /// How long from now; the hold's lock-delay comes on top.
        ttl: Duration,
    },
    /// Ends whatever the owner id stands for, a hold or a place in the queue, and hands the lock on. Answered by
    /// [`Reply::Released`].
    Release {
        /// The hold or waiter.
        owner: OwnerId,
        /// Whether its client gave it back, or was lost: then the lock-delay applies.
        end: End,
    },
    /// Tells that the caller's waiters of this name live, hands on what is free, and looks for grants that the caller may
    /// have missed. Answered by [`Reply::Refreshed`].
    Refresh {
        /// The caller's oldest waiter, to see whether the store still knows it.
        oldest: Option<OwnerId>,
    },
    /// Takes the lock from all that hold it, raises the token, and hands the lock on. Answered by [`Reply::Forced`].
    ForceRelease,
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
        /// How many times.
        count: u32,
    },
    /// Makes an exclusive hold a shared one, and lets shared waiters in. Answered by [`Reply::Changed`], which is true for
    /// one that is shared already.
    Downgrade {
        /// The hold.
        owner: OwnerId,
    },
    /// Takes a hold, or a place in the queue, over for another stream, and changes its owner id. Answered by
    /// [`Reply::Resumed`], [`Reply::ResumedWait`] or [`Reply::Lost`].
    Resume(Resume),
    /// Shows the name, with at most this many waiters. Answered by [`Reply::Seen`].
    View {
        /// Most waiters to show.
        waiters: usize,
    },
    /// Shows who waits for whom. Answered by [`Reply::Edges`].
    Edges,
    /// Shows the name to a feed, among what is told to it. Answered by [`Reply::Looked`] or [`Reply::Unheard`].
    Look {
        /// The feed.
        feed: FeedId,
    },
}

/// How a hold ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// Its client released it, or never learnt of it.
    Clean,
    /// Its client died or fell silent: the name stays closed for the hold's lock-delay.
    Unclean,
}

/// An acquire.
#[derive(Clone, Debug, PartialEq)]
pub struct Acquire {
    /// The owner id of the grant to be, and the ticket until then.
    pub owner: OwnerId,
    /// The session that asks; `None` for the unary calls.
    pub session: Option<SessionId>,
    /// The client's flow that asks.
    pub actor: Actor,
    /// Its client's name.
    pub client_name: ClientName,
    /// How to hold the lock.
    pub mode: Mode,
    /// Attached to the hold.
    pub value: Value,
    /// How long the grant lasts unless renewed.
    pub ttl: Duration,
    /// How long the name stays closed after an unclean end.
    pub lock_delay: Duration,
    /// Whether to join the queue if the lock can't be had at once.
    pub wait: bool,
    /// Whether it was asked before, so that another stream may have resumed it meanwhile: then it is not carried out, and
    /// answered by [`Reply::Lost`].
    pub again: bool,
}

/// A change of owner, so that whoever still believes in the old stream can do nothing to it any more.
///
/// Where the old owner id still holds the lock, nobody was granted in between: that is why a resume is safe.
#[derive(Clone, Debug)]
pub struct Resume {
    /// What the hold or place may be under: the owner id that was last confirmed, then those of attempts to resume it that
    /// were not answered.
    pub from: Vec<OwnerId>,
    /// Its owner id from now on, made for this stream. What is under it already was resumed by this very stream, whose
    /// answer was lost.
    pub next: OwnerId,
    /// The session of this stream.
    pub session: SessionId,
    /// Its client's name.
    pub client_name: ClientName,
    /// How long a hold lasts from now on unless renewed; its lock-delay comes on top.
    pub ttl: Duration,
    /// How many times a hold is held.
    pub count: u32,
}

/// What a command did, and the store's time when it did.
#[derive(Clone, Debug)]
pub struct Executed {
    /// The answer.
    pub reply: Reply,
    /// The store's clock inside the operation.
    pub at: StoreTime,
    /// The grants to waiters that came with it, whoever's waiters those are, in order.
    pub handed: Vec<Handed>,
    /// Whether more waiters could be granted the lock now than one command does: the name is to be refreshed at once.
    pub more: bool,
}

/// The answers.
#[derive(Clone, Debug, PartialEq)]
pub enum Reply {
    /// The lock is held by the owner id now.
    Granted {
        /// The grant's token.
        token: FencingToken,
    },
    /// The acquire waits.
    Queued {
        /// Its place: 1 is next.
        position: u64,
        /// When something that is in the way runs out, if it has an expiry.
        expires_in: Option<Duration>,
    },
    /// The lock is not free, and the acquire did not want to wait.
    Busy {
        /// Who holds it, if anybody does.
        holder: Option<HolderView>,
    },
    /// Those who hold or wait for the semaphore agree on another limit; nothing was done.
    OtherLimit {
        /// The limit in force.
        limit: u32,
    },
    /// A hold was taken over.
    Resumed {
        /// Its token, the same as before.
        token: FencingToken,
        /// How it is held.
        mode: Mode,
        /// The client's flow that holds it.
        actor: Actor,
        /// The lock-delay that was asked for.
        lock_delay: Duration,
    },
    /// A place in the queue was taken over.
    ResumedWait {
        /// What its waiter asks for, under its new owner id.
        acquire: Box<Acquire>,
        /// Its place: 1 is next.
        position: u64,
        /// When something that is in the way runs out, if it has an expiry.
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
        /// For how long the name is closed now, if it is.
        closed_for: Option<Duration>,
    },
    /// The refresh was carried out.
    Refreshed {
        /// The hold that stands, if the caller granted or confirmed it or has to confirm it. Of shared holds and semaphores,
        /// those of the caller's waiters that were handed the lock and have not been renewed since, the oldest first.
        current: Vec<Current>,
        /// When something that is in the way runs out, if it has an expiry.
        expires_in: Option<Duration>,
        /// Whether the oldest waiter that was named is in the queue or holds the lock.
        attached: bool,
    },
    /// The force release was carried out.
    Forced {
        /// Who held it, as far as they were holds of ours.
        former: Vec<Former>,
        /// Whether anything was released.
        released: bool,
        /// The name's token now.
        token: FencingToken,
    },
    /// The hold was changed, or, if false, it was lost before.
    Changed(bool),
    /// What can be seen.
    Seen(Box<NameView>),
    /// Who waits for whom.
    Edges(Box<NameEdges>),
    /// The feed is told.
    Looked,
    /// Nobody hears what would be told to the feed. The rules never say so; a store may.
    Unheard,
}

/// Why a hold is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Loss {
    /// No more than its lock-delay was left.
    Expired,
    /// The key is missing.
    Deleted,
    /// The key holds somebody else's owner id, or is closed.
    Taken,
    /// An operator took it.
    Forced,
    /// Another stream resumed it: it lives on under another owner id.
    Resumed,
}

/// A grant to a waiter, made by somebody else's operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Handed {
    /// The waiter.
    pub owner: OwnerId,
    /// Its token.
    pub token: FencingToken,
    /// The coordinator that it waits at.
    pub coordinator: CoordinatorId,
    /// Whether a session waits; the unary calls renew for themselves, so an owner id of theirs that is not known here may
    /// well be somebody's.
    pub of_session: bool,
}

/// The hold that stands on a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Current {
    /// Its owner id.
    pub owner: OwnerId,
    /// Its token.
    pub token: FencingToken,
    /// Whether a session holds it; a hold of the unary calls is renewed by its caller alone.
    pub of_session: bool,
}

/// Who held a lock that was force-released.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Former {
    /// Its owner id.
    pub owner: OwnerId,
    /// The coordinator through which it held.
    pub coordinator: CoordinatorId,
}

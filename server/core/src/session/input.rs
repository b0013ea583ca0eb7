//! Inputs of a session: what its client asks, what the store answers, and what others do to its locks.

use std::{sync::Arc, time::Duration};

use crate::{
    command::{Loss, ReleaseRequest, Stamped},
    deadlock::Deadlock,
    failure::StoreError,
    id::{Actor, FencingToken, OwnerId},
    mode::{Limit, Mode},
    name::{LockName, Value},
    time::Moment,
};

/// Identifies a request of the client, by the number that the client chose. 0 marks what the session sends of itself.
pub type RequestId = u64;

/// Identifies a command that the session has sent to the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CommandId(pub(super) u64);

impl CommandId {
    /// Returns the number that identifies the command among those of its session.
    pub const fn get(self) -> u64 {
        self.0
    }

    /// Returns the id with this number.
    pub const fn new(number: u64) -> Self {
        Self(number)
    }
}

/// Notice to a client that it is to move to another stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Draining {
    /// Time left for it.
    pub deadline: Duration,
    /// The coordinator goes on serving: only this session is to move, if it can.
    pub keeps_serving: bool,
}

/// Something that happens to a session.
#[derive(Clone, Debug)]
pub enum Input {
    /// The client asks for something. The fields were validated before.
    Request(RequestId, Request),
    /// The store answered a command.
    StoreReply(CommandId, Result<Stamped, CommandFailure>),
    /// Something happened to an owner id that the session had registered.
    Registry(OwnerId, RegistryEvent),
    /// An operator asks the client to release the hold that has this token.
    ReleaseRequested(OwnerId, FencingToken, Arc<ReleaseRequest>),
    /// The client's stream ended.
    StreamEnded(StreamEnd),
    /// The store can be reached from now on, or can't. It may have been away between two `true`.
    StoreUp(bool),
    /// The stream has room for more answers, or has none.
    Writable(bool),
    /// The client is to move: the coordinator goes away, or asks this session alone.
    Draining(Draining),
    /// The coordinator stops: the session ends now and leaves its locks to expire.
    Stopping,
    /// An operator has ended the session, or one from which it has resumed something.
    EndedByOperator,
}

/// Reason why a command has no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CommandFailure {
    /// The store failed.
    Store(StoreError),
    /// The command was not sent: as many acquires as may wait for the name already.
    TooManyWaiters,
}

/// News about an owner id.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum RegistryEvent {
    /// The waiter was granted its lock.
    Granted {
        /// The grant's token.
        token: FencingToken,
        /// Number of permits granted, if the acquire left it to the store.
        permits: Option<u32>,
        /// Time of sending of the command that granted or confirmed it: it stands for its TTL at least from here.
        sent_at: Moment,
    },
    /// The waiter was granted its lock, but the grant does not count and has to be given back.
    GrantFailed(StoreError),
    /// The waiter left the queue because it wants more permits than the limit in force.
    OtherLimit(Limit),
    /// Another stream resumed the waiter's place.
    Moved,
    /// The hold was taken from the session.
    Lost(Loss),
    /// An operator removed the waiter: it has to give up.
    ForcedOut,
    /// The waiter is part of a deadlock and has to give up.
    Deadlocked(Box<Deadlock>),
}

/// End of the client's stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum StreamEnd {
    /// The peer ended its stream or connection: the client believes in none of its locks any more.
    ByPeer,
    /// The stream broke, or the client was disconnected: the client may still believe in its locks.
    Cut,
}

/// Something that a client asks of its session.
#[derive(Clone, Debug)]
pub enum Request {
    /// Takes one lock, or several together.
    Acquire(AcquireRequest),
    /// Cancels an acquire that was not granted yet.
    Cancel(RequestId),
    /// Gives a hold back.
    Release {
        /// The lock.
        name: LockName,
        /// The hold.
        owner: OwnerId,
        /// Whether the client has lost it: its own deadline has passed.
        expired: bool,
    },
    /// Changes the value of a hold.
    SetValue {
        /// The lock.
        name: LockName,
        /// The hold.
        owner: OwnerId,
        /// The new value.
        value: Value,
    },
    /// Makes an exclusive hold a shared one.
    Downgrade {
        /// The lock.
        name: LockName,
        /// The hold.
        owner: OwnerId,
    },
    /// Gives some of a hold's permits back.
    Reduce {
        /// The lock.
        name: LockName,
        /// The hold.
        owner: OwnerId,
        /// Number of permits to keep: at least 1.
        permits: u32,
    },
    /// Shows that the client lives.
    Heartbeat {
        /// Number of the heartbeat, greater than those before.
        sequence: u64,
    },
    /// Ends the session in order.
    Close(Closer),
}

/// Closer of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Closer {
    /// The client: it believes in none of its locks any more.
    Client,
    /// An adapter on the client's behalf: the client may still believe in holds that were revoked.
    Adapter,
}

/// Fields of an acquire.
#[derive(Clone, Debug)]
pub struct AcquireRequest {
    /// The locks, all of different names.
    pub locks: LockSpecs,
    /// Time to wait for all of them together.
    pub wait: Wait,
    /// Attached to each hold.
    pub value: Value,
    /// Time for which each name stays closed after an unclean end.
    pub lock_delay: Duration,
    /// Longest time for which each may be held.
    pub max_hold: Option<MaxHold>,
    /// The client's flow that asks.
    pub actor: Actor,
    /// Whether the actor's own holds count as granted once more.
    pub reentrant: bool,
}

/// Bound on the time for which a lock may be held, however healthy its holder.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct MaxHold {
    /// The bound, from the grant on.
    pub limit: Duration,
    /// Whether the client asked for a bound: then it acts on the end that it is told, and believes in the hold no longer.
    pub is_asked: bool,
}

/// A lock that an acquire asks for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct LockSpec {
    /// The lock's name.
    pub name: LockName,
    /// Mode in which to hold it.
    pub mode: Mode,
}

/// Locks of an acquire, in the order in which the client listed them.
pub type LockSpecs = OneOrMore<LockSpec>;

/// Names of an acquire's locks, in the same order.
pub type Names = OneOrMore<LockName>;

/// At least one item, in order. A single one takes no memory of its own.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct OneOrMore<T> {
    first: T,
    others: Vec<T>,
}

impl<T> OneOrMore<T> {
    /// Returns these items.
    pub fn new(first: T, others: Vec<T>) -> Self {
        Self { first, others }
    }

    /// Returns these items; `None` if there are none.
    pub fn from_vec(items: Vec<T>) -> Option<Self> {
        let mut items = items.into_iter();
        let first = items.next()?;
        let others = items.collect();
        Some(Self { first, others })
    }

    /// Returns the first item.
    pub fn first(&self) -> &T {
        &self.first
    }

    /// Returns each item, in order.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        std::iter::once(&self.first).chain(&self.others)
    }

    /// Returns the result for each item, in order.
    pub fn map<U>(&self, of: impl Fn(&T) -> U) -> OneOrMore<U> {
        OneOrMore {
            first: of(&self.first),
            others: self.others.iter().map(&of).collect(),
        }
    }

    /// Returns how many there are.
    #[expect(clippy::len_without_is_empty, reason = "there is always one")]
    pub fn len(&self) -> usize {
        1 + self.others.len()
    }
}

impl<T> IntoIterator for OneOrMore<T> {
    type Item = T;
    type IntoIter = std::iter::Chain<std::iter::Once<T>, std::vec::IntoIter<T>>;

    fn into_iter(self) -> Self::IntoIter {
        std::iter::once(self.first).chain(self.others)
    }
}

/// Time for which an acquire waits for the lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Wait {
    /// Not at all.
    No,
    /// For at most so long.
    For(Duration),
    /// For as long as it takes.
    Forever,
}

impl Wait {
    /// Returns the end of a wait that begins at this moment, if it ends by itself.
    pub(super) fn deadline(self, now: Moment) -> Option<Moment> {
        match self {
            Self::For(wait) => Some(now.after(wait)),
            Self::No | Self::Forever => None,
        }
    }
}

/// Something that a client takes over from another stream.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Resumption {
    /// The lock.
    pub name: LockName,
    /// Owner ids that it may have: the one that was confirmed last, then those of attempts that were not answered.
    pub from: Vec<OwnerId>,
    /// Owner id that it is to have. The coordinator has registered it for this session.
    pub next: OwnerId,
    /// Longest time from its grant for which the rules let it be held now.
    pub max_hold: Option<Duration>,
    /// Kind of what it takes over, as the client believes.
    pub what: Resumed,
}

/// Thing that a client believes it takes over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Resumed {
    /// A hold.
    Hold {
        /// Token of its grant. If the store has another for it, it is another grant, and not taken over.
        token: FencingToken,
        /// Number of times that it is held.
        count: u32,
    },
    /// A place in a queue, or what has become of it.
    Wait {
        /// The request under which its outcome is sent.
        request_id: RequestId,
        /// For how long it goes on waiting.
        wait: Wait,
    },
}

//! Identifiers: owner ids, sessions, actors, coordinators, feeds and fencing tokens.

use std::{fmt, sync::Arc};

/// The right to renew and release one grant: 16 random bytes, fresh for every acquisition.
///
/// While an acquire waits, the same bytes are its ticket: its claim to a place in the queue. Secret: `Debug` shows
/// nothing of it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct OwnerId([u8; 16]);

impl OwnerId {
    /// An owner id from its bytes.
    pub const fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }

    /// An owner id from what a client sent; `None` unless it is exactly 16 bytes.
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        bytes.try_into().ok().map(Self)
    }

    /// The bytes, for the store and for the client that owns them.
    pub const fn as_bytes(&self) -> &[u8; 16] {
        &self.0
    }
}

impl fmt::Debug for OwnerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OwnerId(…)")
    }
}

/// Names a session in listings. Not secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SessionId([u8; 16]);

impl SessionId {
    /// A session id from its bytes.
    pub const fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }

    /// A session id from its bytes; `None` unless there are exactly 16.
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        bytes.try_into().ok().map(Self)
    }

    /// The bytes.
    pub const fn as_bytes(&self) -> &[u8; 16] {
        &self.0
    }
}

impl fmt::Display for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// A sequential flow inside a client, a task or a thread: the unit of reentrancy and of deadlocks. It counts within its
/// session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Actor(u64);

impl Actor {
    /// Nobody: a stranger to every other, itself included.
    pub const NOBODY: Self = Self(0);

    /// An actor from the client's number for it; 0 is nobody.
    pub const fn new(number: u64) -> Self {
        Self(number)
    }

    /// The client's number for it.
    pub const fn get(self) -> u64 {
        self.0
    }

    /// Whether it is nobody.
    pub const fn is_nobody(self) -> bool {
        self.0 == 0
    }
}

impl fmt::Display for Actor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Names one run of a coordinator process: unique, so that a restarted coordinator is another one.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CoordinatorId(Arc<str>);

impl CoordinatorId {
    /// A coordinator id from its text.
    pub fn new(text: &str) -> Self {
        Self(text.into())
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for CoordinatorId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Names one feed of what happens to locks; drawn at random for each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FeedId(u64);

impl FeedId {
    /// A feed's id from its number.
    pub const fn new(number: u64) -> Self {
        Self(number)
    }

    /// The number.
    pub const fn get(self) -> u64 {
        self.0
    }
}

/// A number that rises with every grant of a name; what the lock protects refuses smaller ones.
///
/// `max(last + 1, the store's time in µs, floor)`: it rises across data loss too, as long as the new clock or the
/// floor is not behind. The floor counts for no more than the store's time and the memory together, and a token is
/// remembered until the memory has passed after its own time: see [`Caller`](crate::command::Caller). Microseconds since
/// 1970 stay below 2^53 until the year 2255, so that Lua holds it exactly.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FencingToken(i64);

impl FencingToken {
    /// A token from its number.
    pub const fn new(token: i64) -> Self {
        Self(token)
    }

    /// The number.
    pub const fn get(self) -> i64 {
        self.0
    }
}

impl fmt::Display for FencingToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

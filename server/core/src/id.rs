//! Identifiers: owner ids, sessions, actors, coordinators, feeds and fencing tokens.

use std::{fmt, sync::Arc};

use crate::time::StoreTime;

/// Right to renew and release one grant: 16 random bytes, fresh for every acquire and every resume.
///
/// While an acquire waits, the same bytes are its ticket: its claim to a place in the queue. Secret: `Debug` shows
/// nothing of it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct OwnerId([u8; 16]);

impl OwnerId {
    /// Returns an owner id from its bytes.
    pub const fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }

    /// Parses an owner id that a client sent; returns `None` unless it has exactly 16 bytes.
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        bytes.try_into().ok().map(Self)
    }

    /// Returns the bytes, for the store and for the client that owns them.
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
    /// Returns a session id from its bytes.
    pub const fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }

    /// Parses a session id; returns `None` unless it has exactly 16 bytes.
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        bytes.try_into().ok().map(Self)
    }

    /// Returns the bytes.
    pub const fn as_bytes(&self) -> &[u8; 16] {
        &self.0
    }
}

impl fmt::Display for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// Most predecessors that are kept of a hold or waiter. `resumed.lua` has the same number.
pub const MOST_PREDECESSORS: usize = 3;

/// The last sessions from which streams have resumed a hold or waiter, the latest first: an operator who ends one of them ends
/// the session that has it now. Most have none, so it takes no more than a pointer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Predecessors(Option<Box<Former>>);

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Former {
    latest: SessionId,
    before: [Option<SessionId>; MOST_PREDECESSORS - 1],
}

impl Predecessors {
    /// Returns the predecessors with these ids, the latest first.
    pub fn new(sessions: impl IntoIterator<Item = SessionId>) -> Self {
        let mut sessions = sessions.into_iter();
        let former = sessions.next().map(|latest| Former {
            latest,
            before: std::array::from_fn(|_| sessions.next()),
        });
        Self(former.map(Box::new))
    }

    /// Returns what follows when the session `next` resumes what the session `last` had. A repeated resume changes nothing, and
    /// a unary call that resumes, which has no session, leaves none.
    #[must_use]
    pub fn resumed(&self, last: Option<SessionId>, next: Option<SessionId>) -> Self {
        match (last, next) {
            (_, None) => Self::default(),
            (Some(last), Some(next)) if last != next => {
                Self::new([last].into_iter().chain(self.iter()))
            }
            _ => self.clone(),
        }
    }

    /// Returns each.
    pub fn iter(&self) -> impl Iterator<Item = SessionId> {
        let former = self.0.iter();
        former.flat_map(|former| {
            let before = former.before.iter().flatten();
            [former.latest].into_iter().chain(before.copied())
        })
    }
}

/// Sequential flow inside a client, such as a task or a thread: the unit of reentrancy and of deadlocks. Local to its
/// session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Actor(u64);

impl Actor {
    /// No actor: every acquire with it is independent of all others.
    pub const NOBODY: Self = Self(0);

    /// Returns the actor with the client's number; 0 is no actor.
    pub const fn new(number: u64) -> Self {
        Self(number)
    }

    /// Returns the client's number for it.
    pub const fn get(self) -> u64 {
        self.0
    }

    /// Returns whether it is no actor.
    pub const fn is_nobody(self) -> bool {
        self.0 == 0
    }
}

impl fmt::Display for Actor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Number of a waiter among those of its name, for operators: it is not secret, rises from waiter to waiter, and stays the same
/// when another stream resumes the place. A name's waiters begin with the store's time in microseconds, so that no number comes
/// back unless the store's clock steps back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct WaiterNumber(u64);

impl WaiterNumber {
    /// Returns the waiter number with this value.
    pub const fn new(number: u64) -> Self {
        Self(number)
    }

    /// Returns its value.
    pub const fn get(self) -> u64 {
        self.0
    }

    /// Returns the number of the first waiter of a name that nobody waited for at this time.
    pub fn first_at(now: StoreTime) -> Self {
        Self(u64::try_from(now.as_micros()).unwrap_or(0).max(1))
    }
}

impl fmt::Display for WaiterNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Names one run of a coordinator process: unique, so that a restarted coordinator is another one.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CoordinatorId(Arc<str>);

impl CoordinatorId {
    /// Returns a coordinator id from its text.
    pub fn new(text: &str) -> Self {
        Self(text.into())
    }

    /// Returns the text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for CoordinatorId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Names one feed of changes to locks; drawn at random for each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FeedId(u64);

impl FeedId {
    /// Returns a feed's id from its number.
    pub const fn new(number: u64) -> Self {
        Self(number)
    }

    /// Returns the number.
    pub const fn get(self) -> u64 {
        self.0
    }
}

/// Names one request to release; drawn at random for each, so that a holder that receives it several times takes note of it once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ReleaseRequestId(u64);

impl ReleaseRequestId {
    /// Returns a request's id from its number.
    pub const fn new(number: u64) -> Self {
        Self(number)
    }

    /// Returns the number.
    pub const fn get(self) -> u64 {
        self.0
    }
}

/// Number that rises with every grant of a name; the resource that the lock protects refuses smaller ones.
///
/// It is `max(last + 1, the store's time in µs, floor)`: it rises across data loss too, as long as the new clock or the
/// floor is not behind. The floor is at most the store's time plus the memory, and the store remembers a token until the
/// memory has passed after the token's own time: see [`Caller`](crate::command::Caller). Microseconds since 1970 stay below
/// 2^53 until the year 2255, so that Lua represents them exactly.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FencingToken(i64);

impl FencingToken {
    /// Returns a token from its number.
    pub const fn new(token: i64) -> Self {
        Self(token)
    }

    /// Returns the number.
    pub const fn get(self) -> i64 {
        self.0
    }
}

impl fmt::Display for FencingToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_predecessors_are_kept_and_a_repeated_resume_adds_none() {
        let session = |number: u8| SessionId::from_bytes([number; 16]);
        let mut predecessors = Predecessors::default().resumed(None, Some(session(1)));
        assert_eq!(predecessors.iter().count(), 0);
        for number in 1..=5 {
            let next = session(number + 1);
            predecessors = predecessors.resumed(Some(session(number)), Some(next));
            assert_eq!(predecessors.resumed(Some(next), Some(next)), predecessors);
        }
        let kept: Vec<_> = predecessors.iter().collect();
        assert_eq!(kept, [session(5), session(4), session(3)]);
        let of_a_call = predecessors.resumed(Some(session(6)), None);
        assert_eq!(of_a_call, Predecessors::default());
    }
}

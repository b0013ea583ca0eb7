//! Acquires, and the resumes of what they took.

use std::time::Duration;

use crate::{
    id::{Actor, OwnerId, SessionId},
    mode::Mode,
    name::{ClientName, Value},
};

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
    /// and answered by [`Reply::Lost`](super::Reply::Lost).
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
    /// Longest time from its grant for which it may be held from now on; the bound that it has already counts too.
    pub max_hold: Option<Duration>,
}

impl Resume {
    /// Returns the bound of what had this one before.
    pub fn bound(&self, before: Option<Duration>) -> Option<Duration> {
        [before, self.max_hold].into_iter().flatten().min()
    }
}

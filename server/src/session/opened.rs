//! Session as its stream opens it, and the kinds of such streams.

use std::time::Duration;

use leasehold_core::{
    id::SessionId,
    lease::Lease,
    mode::Mode,
    name::ClientName,
    session::{Closer, LostLock, MAX_IN_FLIGHT, MAX_PENDING_ACKS, Resumption},
};

use crate::{
    access::{Rights, rules::Place},
    limits::{Limits, SessionPlace},
    sessions::Listed,
};

/// Most proclaims that one candidacy has in flight.
pub const MAX_PROCLAIMS: usize = 64;

/// Kind of a stream that is a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The lease stream of the lock service.
    LeaseStream,
    /// A candidacy for an election, whose messages its service translates.
    Candidacy,
}

impl Kind {
    /// Returns the field of the stream's first message.
    pub const fn first(self) -> &'static str {
        match self {
            Self::LeaseStream => "open",
            Self::Candidacy => "campaign",
        }
    }

    /// Returns how many answers a session may owe.
    pub fn owed(self, limits: &Limits) -> usize {
        match self {
            // Each acquire may be queued and then answered, each hold be lost or released.
            Self::LeaseStream => 2 * limits.most_locks() + MAX_IN_FLIGHT + MAX_PENDING_ACKS,
            Self::Candidacy => MAX_PROCLAIMS + MAX_PENDING_ACKS,
        }
    }

    /// Returns whether the client is told the tickets of its waiters, and so can resume their places on another stream. A
    /// candidate's place would only be in the way of others.
    pub(super) const fn tells_tickets(self) -> bool {
        matches!(self, Self::LeaseStream)
    }

    /// Returns what a permission to hold something in this mode must be for. An election has exclusive holds only.
    pub(super) const fn place(self, mode: Mode) -> Place {
        match (self, mode) {
            (Self::Candidacy, _) => Place::Election,
            (Self::LeaseStream, Mode::Exclusive) => Place::Either,
            (Self::LeaseStream, Mode::Shared | Mode::Semaphore(_)) => Place::Lock,
        }
    }

    /// Returns who closes the session.
    pub(super) const fn closer(self) -> Closer {
        match self {
            Self::LeaseStream => Closer::Client,
            Self::Candidacy => Closer::Adapter,
        }
    }
}

/// Parts of a session once its `open` was accepted.
#[derive(Debug)]
pub struct Opened {
    /// The kind of its stream.
    pub kind: Kind,
    /// The request that opened it.
    pub request_id: u64,
    /// Its id.
    pub id: SessionId,
    /// Its client's name.
    pub client_name: ClientName,
    /// Its lease, begun when the `open` was received.
    pub lease: Lease,
    /// For how long it is kept for a resume when its peer ended the stream.
    pub grace: Duration,
    /// The locks and places that it takes over from another stream.
    pub resume: Vec<Resumption>,
    /// The locks and places that it was to take over and may not.
    pub denied: Vec<LostLock>,
    /// Its client's permissions.
    pub rights: Rights,
    /// Most holds and waiting acquires together.
    pub max_locks: usize,
    /// Its place among the sessions.
    pub listed: Listed,
    /// Its place among those of its caller.
    pub account: SessionPlace,
}

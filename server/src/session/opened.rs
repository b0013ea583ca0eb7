//! Session as its stream opens it.

use std::time::Duration;

use leasehold_core::{
    id::SessionId,
    lease::Lease,
    name::ClientName,
    session::{LostLock, Resumption},
};

use crate::{access::Rights, convert::stream::Kind, limits::SessionPlace, sessions::Listed};

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

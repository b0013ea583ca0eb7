//! View of one lock: its mode, its holders and its queue.

use std::{
    fmt,
    time::{Duration, SystemTime},
};

use crate::{
    proto::{from_enum, from_message},
    token::FencingToken,
};

/// Mode in which a lock is held, or in which a waiter wants to hold it.
///
/// ```
/// # leasehold_tests::doc(async |client| {
/// use leasehold_client::LockMode;
///
/// let _reader = client.lock("catalogue").shared().await?;
/// let view = client.admin().get_lock("catalogue").await?;
/// assert_eq!(view.mode, Some(LockMode::Shared));
/// # Ok(()) });
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum LockMode {
    /// One holder at a time.
    Exclusive,
    /// Any number of shared holders at a time, and no exclusive one.
    Shared,
    /// Permits of a semaphore: as many holders at a time as their permits fit into its limit.
    Semaphore,
}

from_enum!(LockMode {
    Exclusive,
    Shared,
    Semaphore,
});

impl fmt::Display for LockMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Exclusive => "exclusive",
            Self::Shared => "shared",
            Self::Semaphore => "semaphore",
        })
    }
}

/// One holder of a lock. Its owner id is secret and never shown.
///
/// ```
/// # leasehold_tests::doc(async |client| {
/// let guard = client.lock("orders/42").value("worker 3").await?;
/// let view = client.admin().get_lock("orders/42").await?;
/// let holder = &view.holders[0];
/// assert_eq!(holder.value, b"worker 3");
/// assert_eq!(holder.fencing_token, Some(guard.fencing_token()));
/// # Ok(()) });
/// ```
#[derive(Clone, PartialEq, Eq, Default, Debug)]
#[non_exhaustive]
pub struct Holder {
    /// The session that holds the lock; empty for a hold of the unary calls and for a foreign holder.
    pub session_id: String,
    /// The name that the client gave itself, at most 256 bytes; empty if it gave none.
    pub client_name: String,
    /// The coordinator that granted or last confirmed the hold; empty for a foreign holder.
    pub coordinator: String,
    /// The fencing token of this hold; none for a foreign holder.
    pub fencing_token: Option<FencingToken>,
    /// Time of the grant, by the store's clock; none for a foreign holder.
    pub acquired_at: Option<SystemTime>,
    /// Time left until the hold ends unless it is renewed; none if it never ends, as a foreign key without expiry.
    pub ttl: Option<Duration>,
    /// The value that the holder attached to its hold: at most 4 KiB.
    pub value: Vec<u8>,
    /// Number of times that the holder holds the lock: 1 except for reentrant holds, 0 for a foreign holder.
    pub hold_count: u32,
    /// Whether a program that does not use Leasehold set the lock's key.
    pub foreign: bool,
    /// The permits that the holder has of a semaphore; none in other modes.
    pub permits: Option<u32>,
    /// The number of the actor that holds the lock; none if the client named none.
    pub actor: Option<u64>,
    /// The longest time from the grant for which the lock may be held, however healthy the holder; none if there is no bound.
    pub max_hold: Option<Duration>,
    /// The network address that the session came from. [`Admin::get_lock`](crate::Admin::get_lock) alone tells it, at the
    /// coordinator that serves the session, to those who may list that; empty otherwise.
    pub peer: String,
}

from_message!(Holder => Holder {
    session_id, client_name, coordinator, fencing_token, acquired_at, ttl, value,
    hold_count, foreign, permits, actor, max_hold, peer,
});

/// One waiter in the queue of a lock.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
#[non_exhaustive]
pub struct Waiter {
    /// The session that waits; empty for a unary call.
    pub session_id: String,
    /// The name that the client gave itself, at most 256 bytes; empty if it gave none.
    pub client_name: String,
    /// The coordinator at which the client waits.
    pub coordinator: String,
    /// Time at which the waiter joined the queue, by the store's clock.
    pub waiting_since: Option<SystemTime>,
    /// The place in the queue: 1 is next.
    pub position: u64,
    /// Mode in which the waiter wants to hold the lock; none if this version does not know it.
    pub mode: Option<LockMode>,
    /// The permits that the waiter wants of a semaphore, at most if it accepts fewer; none in other modes.
    pub permits: Option<u32>,
    /// The fewest permits that the waiter accepts; none if it waits for all of them, and in other modes.
    pub permits_at_least: Option<u32>,
    /// The number of the actor that waits; none if the client named none.
    pub actor: Option<u64>,
    /// The number that names the waiter in [`Admin::force_release_waiter`](crate::Admin::force_release_waiter). None if the
    /// coordinator is of a version that gives none.
    pub number: Option<u64>,
    /// The network address that the session came from, told as for a [`Holder`].
    pub peer: String,
}

from_message!(Waiter => Waiter {
    session_id, client_name, coordinator, waiting_since, position, mode, permits, actor, number,
    permits_at_least, peer,
});

/// Everything that can be seen of one lock. A free lock has neither a mode nor holders.
///
/// ```
/// # leasehold_tests::doc(async |client| {
/// let permit = client.semaphore("downloads", 3).permits(2).await?;
/// let view = client.admin().get_lock("downloads").await?;
/// assert_eq!((view.permits_taken, view.limit), (2, Some(3)));
/// # Ok(()) });
/// ```
#[derive(Clone, PartialEq, Eq, Default, Debug)]
#[non_exhaustive]
pub struct LockView {
    /// The lock's name.
    pub name: String,
    /// Mode in which the lock is held; none while it is free, or if this version does not know it.
    pub mode: Option<LockMode>,
    /// The holders: at most 100 of them, those whose hold ends first.
    pub holders: Vec<Holder>,
    /// Number of holders, including those not in `holders`.
    pub holder_count: u64,
    /// The waiters in the order in which they will be served: at most 100 of them, and none in a listing.
    pub waiters: Vec<Waiter>,
    /// Number of waiters, including those not in `waiters`.
    pub waiter_count: u64,
    /// The newest fencing token that was granted for this name; none if none is on record.
    pub fencing_token: Option<FencingToken>,
    /// Time for which the lock stays closed after an unclean end (its lock-delay); none unless it is closed now. After a
    /// shared hold it is closed to exclusive holders only; after permits of a semaphore, those permits stay taken.
    pub closed_for: Option<Duration>,
    /// The lock-delay that the present hold asked for, the longest of several; none if no holder asked for one.
    pub lock_delay: Option<Duration>,
    /// The semaphore's limit, while it has holders or waiters; none for other locks.
    pub limit: Option<u32>,
    /// The revision of that limit; 0 if the requests named none.
    pub limit_revision: u32,
    /// Number of the semaphore's permits that are taken, including those that a lock-delay keeps; 0 for other locks. More
    /// than the limit after that was lowered, until enough of them are given back.
    pub permits_taken: u32,
}

from_message!(LockView => LockView {
    name, mode, holders, holder_count, waiters, waiter_count, fencing_token, closed_for,
    lock_delay, limit, limit_revision, permits_taken,
});

/// A page of a listing, as [`Admin::list_locks_page`](crate::Admin::list_locks_page) returns it.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
#[non_exhaustive]
pub struct LockPage {
    /// The locks of the page, without their waiters, in no order.
    pub locks: Vec<LockView>,
    /// The token of the next page; none on the last one.
    pub next_page_token: Option<String>,
}

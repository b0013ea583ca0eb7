//! Events of locks, as a [`LockWatcher`](crate::LockWatcher) yields them.

use std::time::{Duration, SystemTime};

use super::lock::{Holder, LockMode, LockView, Waiter};
use crate::{
    lease::LostReason,
    proto::{FromWire, from_enum, from_message, v1},
    token::FencingToken,
};

/// An item of a [`LockWatcher`](crate::LockWatcher).
///
/// ```
/// # leasehold_tests::doc(async |client| {
/// use leasehold_client::LockWatchEvent;
///
/// let _guard = client.lock("orders/42").await?;
/// let mut watcher = client.admin().watch_locks("orders/");
/// let mut held = 0;
/// loop {
///     match watcher.next().await.expect("the watcher goes on")? {
///         LockWatchEvent::Lock(lock) => held += lock.holders.len(),
///         LockWatchEvent::Ready => break,
///         LockWatchEvent::Event(event) => println!("{:?} {}", event.kind, event.name),
///         LockWatchEvent::Gap(reason) => held = 0, // A new snapshot follows.
///         _ => {}
///     }
/// }
/// assert_eq!(held, 1);
/// # Ok(()) });
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
#[expect(
    clippy::large_enum_variant,
    reason = "nearly all of them are events, which would have to be allocated one by one"
)]
pub enum LockWatchEvent {
    /// Part of a snapshot: a lock that is held, closed or waited for. It replaces whatever was known of its name.
    Lock(LockView),
    /// The snapshot is complete: locks that were not in it are free.
    Ready,
    /// Something happened to a lock.
    Event(LockEvent),
    /// The watcher missed events, for the reason given: forget the state of all locks. A snapshot follows.
    Gap(String),
}

impl LockWatchEvent {
    /// Returns the item; none if this version does not know its kind.
    pub(crate) fn from_proto(message: v1::WatchLocksResponse) -> Option<Self> {
        use v1::watch_locks_response::Response;

        Some(match message.response? {
            Response::Lock(lock) => Self::Lock(LockView::from_wire(lock)),
            Response::Ready(_) => Self::Ready,
            Response::Event(event) => Self::Event(LockEvent::from_wire(event)),
            Response::Gap(gap) => Self::Gap(gap.message),
        })
    }
}

/// Kind of a [`LockEvent`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
#[non_exhaustive]
pub enum LockEventKind {
    /// This version does not know the kind.
    #[default]
    Unknown,
    /// A client was granted the lock: `holder`.
    Granted,
    /// A client joined the queue: `waiter`.
    Queued,
    /// A waiter gave up or is gone: `waiter`. A waiter whose coordinator died has no such event.
    Withdrawn,
    /// A hold was given back, or its session ended: `holder` held it.
    Released,
    /// A hold ran out: `holder` held it. The event may come up to a second late.
    Expired,
    /// A hold was gone from the store before its time, for the `reason` given: `holder` held it.
    Lost,
    /// An operator took a hold away: `holder` held it. Or ended a wait: `waiter`.
    Forced,
    /// A holder changed its value: `holder` has the new one.
    ValueChanged,
    /// A holder turned its exclusive hold into a shared one: `holder`.
    Downgraded,
    /// A holder gave some of its permits back: `holder`, with those that it kept.
    PermitsReduced,
    /// A request replaced the limit of a semaphore that has holders or waiters: `limit`.
    LimitChanged,
    /// An operator asked a holder to release the lock: `holder`, which holds it still.
    ReleaseRequested,
}

from_enum!(LockEventKind {
    Granted,
    Queued,
    Withdrawn,
    Released,
    Expired,
    Lost,
    Forced,
    ValueChanged,
    Downgraded,
    PermitsReduced,
    LimitChanged,
    ReleaseRequested,
});

impl FromWire<i32> for LockEventKind {
    fn from_wire(wire: i32) -> Self {
        Option::from_wire(wire).unwrap_or_default()
    }
}

/// Something that happened to a lock.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
#[non_exhaustive]
pub struct LockEvent {
    /// The kind of event.
    pub kind: LockEventKind,
    /// The lock's name.
    pub name: String,
    /// Time of the event, by the store's clock, even if the coordinator noticed later.
    pub time: Option<SystemTime>,
    /// The fencing token of the hold; none for an event of a waiter or of a foreign holder.
    pub fencing_token: Option<FencingToken>,
    /// The hold as it was last seen; none for an event of a waiter.
    pub holder: Option<Holder>,
    /// The waiter; none for an event of a hold.
    pub waiter: Option<Waiter>,
    /// Reason for which a hold was lost; none in other events.
    pub reason: Option<LostReason>,
    /// Mode in which the lock is held after the event; none while it is free.
    pub mode: Option<LockMode>,
    /// Number of holders after the event.
    pub holder_count: u64,
    /// Number of waiters after the event.
    pub waiter_count: u64,
    /// Time for which the lock is closed after the event, if a hold ended uncleanly; none if it is not closed.
    pub closed_for: Option<Duration>,
    /// The semaphore's limit after the event; none unless the event changed it.
    pub limit: Option<u32>,
    /// The revision of that limit; 0 in other events.
    pub limit_revision: u32,
}

from_message!(LockEvent => LockEvent {
    kind, name, time, fencing_token, holder, waiter, reason, mode, holder_count,
    waiter_count, closed_for, limit, limit_revision,
});

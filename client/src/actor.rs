//! Actors: the flows inside a client that ask for locks.

use std::sync::atomic::{AtomicU64, Ordering};

/// Counts over all sessions of this process, so that an actor that strays into another session is nobody else there.
static LAST: AtomicU64 = AtomicU64::new(0);

/// A sequential flow inside a client, a task or a thread, that does one thing after the other: the unit of reentrancy
/// and of deadlocks. Made by [`Session::actor`](crate::Session::actor) and [`Client::actor`](crate::Client::actor).
///
/// Requests are made in its name with [`LockRequest::actor`](crate::LockRequest::actor) and the like; without one, they
/// are strangers to all others, of this session too. What an actor is good for:
///
/// - it can hold a lock more than once, with [`LockRequest::reentrant`](crate::LockRequest::reentrant), where two tasks
///   that share a client still exclude each other;
/// - asking for a lock that it holds already is refused at once
///   ([`AcquireError::SelfDeadlock`](crate::AcquireError::SelfDeadlock)) instead of waiting for itself;
/// - when actors wait for one another in a circle, one of them is told so
///   ([`AcquireError::Deadlock`](crate::AcquireError::Deadlock)).
///
/// All that holds only as long as the flow that has it waits for one thing at a time: don't share one among tasks. It
/// counts within one session. With another session, it is another actor.
///
/// ```
/// # leasehold_tests::doc(async |client| {
/// let actor = client.actor();
/// let outer = client.lock("orders/42").actor(actor).reentrant().acquire().await?;
/// let inner = client.lock("orders/42").actor(actor).reentrant().acquire().await?;
/// assert_eq!(inner.fencing_token(), outer.fencing_token());
///
/// let other = client.lock("orders/42").actor(client.actor()).reentrant();
/// assert!(other.try_acquire().await?.is_none());
/// # Ok(()) });
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Actor(u64);

impl Actor {
    pub(crate) fn new() -> Self {
        Self(LAST.fetch_add(1, Ordering::Relaxed) + 1)
    }

    /// Its number, by which listings and the description of a deadlock name it: not 0, and greater than that of every
    /// actor that this process made before.
    ///
    /// ```
    /// # leasehold_tests::doc(async |client| {
    /// let actor = client.actor();
    /// let guard = client.lock("orders/42").actor(actor).acquire().await?;
    /// let view = client.admin().get_lock("orders/42").await?;
    /// assert_eq!(view.holders[0].actor, actor.get());
    /// # Ok(()) });
    /// ```
    pub fn get(self) -> u64 {
        self.0
    }
}

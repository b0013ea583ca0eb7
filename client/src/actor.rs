//! Actors: the flows inside a client for which it asks for locks.

use std::sync::atomic::{AtomicU64, Ordering};

/// Number of the last actor. It counts over all sessions of this process, so that an actor used in another session is a new one
/// there.
static LAST: AtomicU64 = AtomicU64::new(0);

/// Actor: a sequential flow inside a client, such as a task or a thread, that does one thing after the other. It is the unit
/// of reentrancy and of deadlocks. Made by [`Session::actor`](crate::Session::actor) and
/// [`Client::actor`](crate::Client::actor).
///
/// [`LockRequest::actor`](crate::LockRequest::actor) makes a request in its name; a request without an actor has no relation
/// to any other request, not even of the same session. With an actor:
///
/// - the actor can hold a lock more than once, with [`LockRequest::reentrant`](crate::LockRequest::reentrant), where two tasks
///   that share a client still exclude each other;
/// - the coordinator refuses a request for a lock that the actor holds already
///   ([`AcquireError::SelfDeadlock`](crate::AcquireError::SelfDeadlock)) instead of waiting for itself;
/// - if actors wait for one another in a circle, the coordinator ends one of the waits
///   ([`AcquireError::Deadlock`](crate::AcquireError::Deadlock)).
///
/// All that holds only as long as the flow that has it waits for one thing at a time: don't share one among tasks. It
/// counts within one session. With another session, it is another actor.
///
/// ```
/// # leasehold_tests::doc(async |client| {
/// let actor = client.actor();
/// let outer = client.lock("orders/42").actor(actor).reentrant().await?;
/// let inner = client.lock("orders/42").actor(actor).reentrant().await?;
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

    /// Returns the actor's number, which listings and descriptions of deadlocks show: not 0, and greater than that of every
    /// actor that this process made before.
    ///
    /// ```
    /// # leasehold_tests::doc(async |client| {
    /// let actor = client.actor();
    /// let guard = client.lock("orders/42").actor(actor).await?;
    /// let view = client.admin().get_lock("orders/42").await?;
    /// assert_eq!(view.holders[0].actor, Some(actor.get()));
    /// # Ok(()) });
    /// ```
    pub fn get(self) -> u64 {
        self.0
    }
}

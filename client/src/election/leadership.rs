//! Leadership of an election, and watches of it.

use std::sync::Arc;

use crate::{
    candidacies::Candidacy,
    error::{HoldError, WithLockError},
    guard::{LockGuard, LockWatch, hold_methods},
    guards::LockGuards,
    lease::Lease,
    session::Body,
};

/// Leadership of this process, until it resigns, drops this, or loses it. Made by
/// [`Election::campaign`](crate::Election::campaign).
///
/// A leadership promises what a [`LockGuard`] promises: it is lost at its deadline, by this process's own clock, before
/// anybody else can be elected. Dropping it resigns in the background; that never blocks and needs no runtime.
///
/// The leadership moves to another coordinator with its session, and nobody else is elected for that. With a
/// [grace](crate::SessionBuilder::disconnect_grace) it is suspended when the connection breaks, as a lock is: then
/// [`Leadership::is_leader`] is false, and true again if the session resumes it, while [`Leadership::lost`] waits for the
/// end.
///
/// ```
/// # leasehold_tests::doc(async |client| {
/// let leadership = client.election("scheduler").campaign("10.0.0.7:8080").await?;
/// tokio::select! {
///     reason = leadership.lost() => eprintln!("deposed: {reason}"),
///     () = async { /* what the leader does, passing on leadership.fencing_token() */ } => {}
/// }
/// leadership.resign().await?;
/// # Ok(()) });
/// ```
#[must_use = "dropping it resigns"]
pub struct Leadership {
    guard: LockGuard,
    candidacy: Candidacy,
}

hold_methods!(Leadership: election, is_leader; "election", "leadership");
hold_methods!(LeadershipWatch: election, is_leader; "election", "leadership");

impl Leadership {
    pub(super) fn new(guard: LockGuard, candidacy: Candidacy) -> Self {
        candidacy.elected(guard.watch());
        Self { guard, candidacy }
    }

    fn lease(&self) -> &Arc<Lease> {
        self.guard.lease()
    }

    /// Returns a view of this leadership that can be cloned and sent around, and does not keep it.
    ///
    /// ```
    /// # leasehold_tests::doc(async |client| {
    /// let leadership = client.election("scheduler").campaign("").await?;
    /// let watch = leadership.watch();
    /// assert!(watch.is_leader());
    /// leadership.resign().await?;
    /// assert!(!watch.is_leader());
    /// # Ok(()) });
    /// ```
    pub fn watch(&self) -> LeadershipWatch {
        LeadershipWatch(self.guard.watch())
    }

    /// Changes the value that observers see: at most 4 KiB.
    ///
    /// ```
    /// # leasehold_tests::doc(async |client| {
    /// let election = client.election("scheduler");
    /// let leadership = election.campaign("starting").await?;
    /// leadership.proclaim("ready").await?;
    /// assert_eq!(election.leader().await?.expect("we lead").value, b"ready");
    /// # Ok(()) });
    /// ```
    ///
    /// # Errors
    ///
    /// If the leadership has been lost, if no answer came within ten seconds or before the stream ended, or if the coordinator
    /// could not carry it out.
    pub async fn proclaim(&self, value: impl Into<Vec<u8>>) -> Result<(), HoldError> {
        self.guard.set_value(value).await
    }

    /// Lets the next candidate lead. From the call on, this process does not lead. If this future is dropped, the process
    /// resigns all the same. Returns within ten seconds, even if the coordinator can't be reached.
    ///
    /// ```
    /// # leasehold_tests::doc(async |client| {
    /// let election = client.election("scheduler");
    /// election.campaign("").await?.resign().await?;
    /// assert_eq!(election.leader().await?, None);
    /// # Ok(()) });
    /// ```
    ///
    /// # Errors
    ///
    /// If the leadership was lost before, if no answer came within ten seconds or before the stream ended, or if the
    /// coordinator could not carry it out. What was not carried out is repeated in the background, as with
    /// [`LockGuard::release`](crate::LockGuard::release).
    pub async fn resign(self) -> Result<(), HoldError> {
        let Self { guard, candidacy } = self;
        // From here on this process does not lead, and may campaign again.
        drop(candidacy);
        guard.release().await
    }

    /// Runs the work until it is done or the leadership is lost, then resigns.
    pub(super) async fn run<T>(
        self,
        body: Body,
        work: impl Future<Output = T>,
    ) -> Result<T, WithLockError> {
        let Self { guard, candidacy } = self;
        let done = LockGuards::new(vec![guard]).run(body, work).await;
        drop(candidacy);
        done.map_err(|unprotected| unprotected.loss)
    }
}

/// View of one leadership. Cheap to clone; it does not keep the leadership.
///
/// ```
/// # leasehold_tests::doc(async |client| {
/// let leadership = client.election("scheduler").campaign("").await?;
/// let watch = leadership.watch();
/// assert_eq!(watch.election(), "scheduler");
/// assert_eq!(watch.fencing_token(), leadership.fencing_token());
/// drop(leadership);
/// assert!(!watch.is_leader());
/// # Ok(()) });
/// ```
#[derive(Clone)]
pub struct LeadershipWatch(LockWatch);

impl LeadershipWatch {
    fn lease(&self) -> &Arc<Lease> {
        self.0.lease()
    }

    /// Returns the same hold as a hold of the lock of the election's name.
    ///
    /// ```
    /// # leasehold_tests::doc(async |client| {
    /// let leadership = client.election("scheduler").campaign("10.0.0.7:8080").await?;
    /// let watch = leadership.watch();
    /// assert!(watch.as_lock().is_held());
    /// # Ok(()) });
    /// ```
    pub fn as_lock(&self) -> &LockWatch {
        &self.0
    }
}

//! Leading.

use std::{fmt, time::Duration};

use crate::{
    error::{HoldError, WithLockError},
    guard::{LockGuard, LockWatch},
    guards::LockGuards,
    lease::{FencingToken, LostReason},
};

/// That this process leads, until it resigns, drops this, or loses it. Made by
/// [`Election::campaign`](crate::Election::campaign).
///
/// It promises what a [`LockGuard`] promises: it is lost at its deadline, by this process's own clock, before anybody
/// else can be elected. Dropping it resigns in the background; that never blocks and needs no runtime.
///
/// So it moves to another coordinator with its session, and nobody else is elected for that. With a
/// [grace](crate::SessionBuilder::disconnect_grace) it is suspended when the connection breaks, as a lock is: then
/// [`Leadership::is_leader`] is false, and true again if it is resumed, while [`Leadership::lost`] waits for the end. (A
/// candidacy by the stream of the election service alone, which other clients may use, can't be resumed.)
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
pub struct Leadership(LockGuard);

impl Leadership {
    pub(super) fn new(guard: LockGuard) -> Self {
        Self(guard)
    }

    /// The election's name.
    pub fn election(&self) -> &str {
        self.0.name()
    }

    /// Greater than the token of every earlier leader of this election. Pass it along with whatever is done as the
    /// leader, and let that refuse smaller ones.
    pub fn fencing_token(&self) -> FencingToken {
        self.0.fencing_token()
    }

    /// Whether this process leads, by its own clock and all that it has been told; see [`LockGuard::is_held`]. Once
    /// false, it stays false, unless the leadership is only [suspended](crate::LockState::Suspended).
    pub fn is_leader(&self) -> bool {
        self.0.is_held()
    }

    /// Time left until the leadership is lost unless the coordinator is heard of before; see [`LockGuard::valid_for`].
    pub fn valid_for(&self) -> Duration {
        self.0.valid_for()
    }

    /// Completes when this process has ceased to lead for good, with the reason. May be awaited many times and from many
    /// tasks; does not borrow the leadership.
    ///
    /// ```
    /// # leasehold_tests::doc(async |client| {
    /// use leasehold_client::LostReason;
    ///
    /// let leadership = client.election("scheduler").campaign("").await?;
    /// let lost = tokio::spawn(leadership.lost());
    /// client.admin().force_release("scheduler").await?;
    /// assert_eq!(lost.await?, LostReason::Forced);
    /// # Ok(()) });
    /// ```
    pub fn lost(&self) -> impl Future<Output = LostReason> + Send + use<> {
        self.0.lost()
    }

    /// Something to watch this leadership by that can be cloned and sent around, and does not keep it.
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
        LeadershipWatch(self.0.watch())
    }

    /// Changes the value that observers are told: at most 4 KiB.
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
        self.0.set_value(value).await
    }

    /// Lets the next candidate lead. From the call on, this process counts as not leading. If this future is dropped,
    /// it resigns all the same. Returns within ten seconds, also when the coordinator can't be reached.
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
        self.0.release().await
    }

    /// Runs the work until it is done or the leadership is lost, then resigns.
    pub(super) async fn run<T>(self, work: impl Future<Output = T>) -> Result<T, WithLockError> {
        LockGuards::new(vec![self.0]).run(work).await
    }
}

impl fmt::Debug for Leadership {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.watch().debug("Leadership", f)
    }
}

/// Watches one leadership: cheap to clone, and does not keep it.
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
    /// The election's name.
    pub fn election(&self) -> &str {
        self.0.name()
    }

    /// The leadership's fencing token; see [`Leadership::fencing_token`].
    pub fn fencing_token(&self) -> FencingToken {
        self.0.fencing_token()
    }

    /// Whether the process leads; see [`Leadership::is_leader`].
    pub fn is_leader(&self) -> bool {
        self.0.is_held()
    }

    /// Time left until the leadership is lost; see [`Leadership::valid_for`].
    pub fn valid_for(&self) -> Duration {
        self.0.valid_for()
    }

    /// Completes when the process does not lead any more; see [`Leadership::lost`].
    pub fn lost(&self) -> impl Future<Output = LostReason> + Send + use<> {
        self.0.lost()
    }

    /// The same hold as what it is underneath: one of the lock of the election's name.
    ///
    /// ```
    /// # leasehold_tests::doc(async |client| {
    /// let leadership = client.election("scheduler").campaign("").await?;
    /// let watch = leadership.watch();
    /// assert!(watch.as_lock().is_held());
    /// # Ok(()) });
    /// ```
    pub fn as_lock(&self) -> &LockWatch {
        &self.0
    }
}

impl fmt::Debug for LeadershipWatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.debug("LeadershipWatch", f)
    }
}

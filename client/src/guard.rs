//! A held lock.

use std::{fmt, sync::Arc, time::Duration};

use tokio::sync::{mpsc, oneshot};

use crate::{
    clock::Moment,
    error::{HoldError, HoldFailure},
    lease::{FencingToken, Lease, LockState, LostReason},
    session::{Change, Granted, HoldReply, Note},
    trace::TraceSource,
};

/// A lock that is held, or permits of a semaphore, until released, dropped or lost.
///
/// Dropping it releases it in the background; that never blocks and needs no runtime. [`LockGuard::release`] also tells
/// whether it was still held.
///
/// ```
/// # leasehold_tests::doc(async |client| {
/// let guard = client.lock("orders/42").acquire().await?;
/// println!("{} is ours, with token {}", guard.name(), guard.fencing_token());
/// tokio::select! {
///     reason = guard.lost() => eprintln!("lost: {reason}"),
///     () = async { /* work */ } => {}
/// }
/// guard.release().await?;
/// # Ok(()) });
/// ```
#[must_use = "the lock is released when its guard is dropped"]
pub struct LockGuard {
    lease: Arc<Lease>,
    key: u64,
    hold_count: u32,
    notes: mpsc::UnboundedSender<Note>,
    /// Asked when it asks for something.
    traces: TraceSource,
    /// The session has been told that this guard is gone.
    told: bool,
}

impl LockGuard {
    pub(crate) fn new(
        granted: Granted,
        notes: mpsc::UnboundedSender<Note>,
        traces: TraceSource,
    ) -> Self {
        let Granted {
            key,
            lease,
            hold_count,
        } = granted;
        Self {
            lease,
            key,
            hold_count,
            notes,
            traces,
            told: false,
        }
    }

    /// The lock's name.
    pub fn name(&self) -> &str {
        &self.lease.name
    }

    /// Greater than the token of every earlier grant of this name. Pass it to what the lock protects, and let that
    /// refuse smaller ones.
    pub fn fencing_token(&self) -> FencingToken {
        self.lease.token
    }

    /// How many times its actor held the lock when this guard was granted, with this one: 1, but for reentrant grants.
    ///
    /// ```
    /// # leasehold_tests::doc(async |client| {
    /// let request = client.lock("orders/42").actor(client.actor()).reentrant();
    /// let outer = request.clone().acquire().await?;
    /// let inner = request.acquire().await?;
    /// assert_eq!((outer.hold_count(), inner.hold_count()), (1, 2));
    /// # Ok(()) });
    /// ```
    pub fn hold_count(&self) -> u32 {
        self.hold_count
    }

    /// Whether the lock is held, by this process's own clock and all that it has been told. Reads the clock and one
    /// atomic: cheap enough to ask before every step. Once false, it stays false, unless the lock is only
    /// [suspended](LockState::Suspended).
    ///
    /// ```
    /// # leasehold_tests::doc(async |client| {
    /// let guard = client.lock("orders/42").acquire().await?;
    /// assert!(guard.is_held());
    /// client.admin().force_release("orders/42").await?;
    /// guard.lost().await;
    /// assert!(!guard.is_held());
    /// # Ok(()) });
    /// ```
    pub fn is_held(&self) -> bool {
        self.lease.is_held(Moment::now())
    }

    /// Whether the lock is held, suspended or lost.
    ///
    /// ```
    /// # leasehold_tests::doc(async |client| {
    /// use leasehold_client::LockState;
    ///
    /// let guard = client.lock("orders/42").acquire().await?;
    /// match guard.state() {
    ///     LockState::Held => println!("one more step"),
    ///     LockState::Suspended => println!("waiting for a coordinator"),
    ///     LockState::Lost(reason) => println!("lost: {reason}"),
    ///     _ => {}
    /// }
    /// # Ok(()) });
    /// ```
    pub fn state(&self) -> LockState {
        self.lease.state(Moment::now())
    }

    /// Completes when the lock's state is another one than at the time of the call, with what it is then: at once, if the
    /// lock is lost already. May be awaited many times and from many tasks; does not borrow the guard.
    ///
    /// ```
    /// # leasehold_tests::doc(async |client| {
    /// use leasehold_client::{LockState, LostReason};
    ///
    /// let guard = client.lock("orders/42").acquire().await?;
    /// let changed = tokio::spawn(guard.changed());
    /// # tokio::task::yield_now().await;
    /// guard.release().await?;
    /// assert_eq!(changed.await?, LockState::Lost(LostReason::Released));
    /// # Ok(()) });
    /// ```
    pub fn changed(&self) -> impl Future<Output = LockState> + Send + use<> {
        changed(self.lease.clone())
    }

    /// Time left until the lock is lost unless the coordinator is heard of before; zero while it is not held. Moves with
    /// every heartbeat that is answered, to somewhat below the TTL.
    ///
    /// ```
    /// # leasehold_tests::doc(async |client| {
    /// let guard = client.lock("orders/42").acquire().await?;
    /// assert!(guard.valid_for().as_secs() < 10);
    /// # Ok(()) });
    /// ```
    pub fn valid_for(&self) -> Duration {
        self.lease.valid_for(Moment::now())
    }

    /// Completes when the lock is lost, with the reason; not while it is only [suspended](LockState::Suspended). May be
    /// awaited many times and from many tasks; does not borrow the guard.
    ///
    /// ```
    /// # leasehold_tests::doc(async |client| {
    /// use leasehold_client::LostReason;
    ///
    /// let guard = client.lock("orders/42").acquire().await?;
    /// let watchdog = tokio::spawn(guard.lost());
    /// guard.release().await?;
    /// assert_eq!(watchdog.await?, LostReason::Released);
    /// # Ok(()) });
    /// ```
    pub fn lost(&self) -> impl Future<Output = LostReason> + Send + use<> {
        self.lease.clone().ended()
    }

    /// Something to watch this hold by that can be cloned and sent around, and does not keep it.
    ///
    /// ```
    /// # leasehold_tests::doc(async |client| {
    /// let guard = client.lock("orders/42").acquire().await?;
    /// let watch = guard.watch();
    /// std::thread::spawn(move || {
    ///     if watch.is_held() {
    ///         // one more step
    ///     }
    /// })
    /// .join()
    /// .unwrap();
    /// # Ok(()) });
    /// ```
    pub fn watch(&self) -> LockWatch {
        LockWatch {
            lease: self.lease.clone(),
        }
    }

    /// Gives the lock back and hands it to the next waiter. From the call on, the lock counts as not held. If this
    /// future is dropped, the release is carried out all the same. Returns within ten seconds, also when the coordinator
    /// can't be reached.
    ///
    /// Of a lock that its actor holds more than once, it ends this guard alone: the lock is handed on when the last of
    /// them is released.
    ///
    /// ```
    /// # leasehold_tests::doc(async |client| {
    /// let guard = client.lock("orders/42").acquire().await?;
    /// guard.release().await?;
    /// assert!(client.lock("orders/42").try_acquire().await?.is_some());
    /// # Ok(()) });
    /// ```
    ///
    /// # Errors
    ///
    /// If the lock was lost before, if no answer came within ten seconds or before the stream ended, or if the coordinator
    /// could not carry it out. What was not carried out is repeated in the background, also on the next stream where the
    /// session resumes what it held; otherwise the lock ends with its lease.
    pub async fn release(mut self) -> Result<(), HoldError> {
        let name = self.lease.name.clone();
        let (reply, answer) = oneshot::channel();
        if let Err(reason) = self.tell_released(Some(reply)) {
            return Err(HoldError::Lost { name, reason });
        }
        settle(name, answer).await
    }

    /// Changes the value attached to the hold for others to see: at most 4 KiB.
    ///
    /// ```
    /// # leasehold_tests::doc(async |client| {
    /// let guard = client.lock("orders/42").value("step 1").acquire().await?;
    /// guard.set_value("step 2").await?;
    /// let view = client.admin().get_lock("orders/42").await?;
    /// assert_eq!(view.holders[0].value, b"step 2");
    /// # Ok(()) });
    /// ```
    ///
    /// # Errors
    ///
    /// If the lock has been lost, if no answer came within ten seconds or before the stream ended, or if the coordinator could
    /// not carry it out.
    pub async fn set_value(&self, value: impl Into<Vec<u8>>) -> Result<(), HoldError> {
        self.change(Change::Value(value.into())).await
    }

    /// Turns an exclusive hold into a shared one, in one step: nobody else holds the lock exclusively in between, and
    /// shared waiters at the head of the queue are let in. The fencing token stays. Does nothing to a shared hold.
    /// There is no way back but to release and acquire anew.
    ///
    /// Where the actor holds the lock more than once, all of its guards share the one hold, and are shared from then
    /// on.
    ///
    /// ```
    /// # leasehold_tests::doc(async |client| {
    /// let guard = client.lock("catalogue").acquire().await?;
    /// // Write; then let other readers in.
    /// guard.downgrade().await?;
    /// assert!(client.lock("catalogue").shared().try_acquire().await?.is_some());
    /// assert!(guard.is_held());
    /// # Ok(()) });
    /// ```
    ///
    /// # Errors
    ///
    /// If the lock has been lost, if no answer came within ten seconds or before the stream ended, or if the coordinator could
    /// not carry it out, as with permits of a semaphore. An exclusive hold that is still held after an error may be shared already.
    pub async fn downgrade(&self) -> Result<(), HoldError> {
        self.change(Change::Downgrade).await
    }

    async fn change(&self, change: Change) -> Result<(), HoldError> {
        let name = self.lease.name.clone();
        let (reply, answer) = oneshot::channel();
        let note = Note::Change {
            key: self.key,
            change,
            trace: self.traces.current(),
            reply,
        };
        self.notes.send(note).ok();
        settle(name, answer).await
    }

    /// Ends the hold here first, then tells the session: nobody may believe in it once the coordinator could hand it
    /// on. Fails if it had ended before.
    fn tell_released(&mut self, reply: Option<HoldReply>) -> Result<(), LostReason> {
        let ended = self.lease.end(Moment::now(), LostReason::Released);
        self.told = true;
        // A lost one is told too, for the session to forget it.
        let reply = reply.filter(|_| ended.is_ok());
        let note = Note::Release {
            key: self.key,
            trace: self.traces.current(),
            reply,
        };
        self.notes.send(note).ok();
        ended
    }
}

impl Drop for LockGuard {
    fn drop(&mut self) {
        if !self.told {
            self.tell_released(None).ok();
        }
    }
}

impl fmt::Debug for LockGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        debug("LockGuard", &self.lease, f)
    }
}

/// Watches one hold: cheap to clone, and does not keep the lock.
///
/// ```
/// # leasehold_tests::doc(async |client| {
/// let guard = client.lock("orders/42").acquire().await?;
/// let watch = guard.watch();
/// assert!(watch.is_held());
/// assert_eq!(watch.fencing_token(), guard.fencing_token());
/// drop(guard);
/// assert!(!watch.is_held());
/// # Ok(()) });
/// ```
#[derive(Clone)]
pub struct LockWatch {
    lease: Arc<Lease>,
}

impl LockWatch {
    /// The lock's name.
    pub fn name(&self) -> &str {
        &self.lease.name
    }

    /// The hold's fencing token; see [`LockGuard::fencing_token`].
    pub fn fencing_token(&self) -> FencingToken {
        self.lease.token
    }

    /// Whether the lock is held; see [`LockGuard::is_held`].
    pub fn is_held(&self) -> bool {
        self.lease.is_held(Moment::now())
    }

    /// Whether the lock is held, suspended or lost; see [`LockGuard::state`].
    pub fn state(&self) -> LockState {
        self.lease.state(Moment::now())
    }

    /// Completes when the lock's state is another one than now; see [`LockGuard::changed`].
    ///
    /// ```
    /// # leasehold_tests::doc(async |client| {
    /// let guard = client.lock("orders/42").acquire().await?;
    /// let changed = guard.watch().changed();
    /// drop(guard);
    /// println!("{:?}", changed.await); // Lost(Released)
    /// # Ok(()) });
    /// ```
    pub fn changed(&self) -> impl Future<Output = LockState> + Send + use<> {
        changed(self.lease.clone())
    }

    /// Time left until the lock is lost; see [`LockGuard::valid_for`].
    pub fn valid_for(&self) -> Duration {
        self.lease.valid_for(Moment::now())
    }

    /// Time left until the lock is lost, be it held or suspended, unless a coordinator is heard of before; zero once it is
    /// lost. For work that goes on while the lock is suspended, and has to be over when it is lost.
    ///
    /// ```
    /// # leasehold_tests::doc(async |client| {
    /// let guard = client.lock("orders/42").acquire().await?;
    /// let watch = guard.watch();
    /// assert!(!watch.lost_in().is_zero());
    /// guard.release().await?;
    /// assert!(watch.lost_in().is_zero());
    /// # Ok(()) });
    /// ```
    pub fn lost_in(&self) -> Duration {
        self.lease.lost_in(Moment::now())
    }

    /// Completes when the lock is lost; see [`LockGuard::lost`].
    pub fn lost(&self) -> impl Future<Output = LostReason> + Send + use<> {
        self.lease.clone().ended()
    }

    /// Completes when it is certain whether it is held: at once, unless it is suspended.
    pub(crate) async fn settled(&self) -> Result<(), LostReason> {
        match self.lease.clone().left(LockState::Suspended).await {
            LockState::Lost(reason) => Err(reason),
            _ => Ok(()),
        }
    }

    pub(crate) fn debug(&self, what: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        debug(what, &self.lease, f)
    }
}

impl fmt::Debug for LockWatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        debug("LockWatch", &self.lease, f)
    }
}

fn debug(what: &str, lease: &Lease, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let now = Moment::now();
    f.debug_struct(what)
        .field("name", &lease.name)
        .field("fencing_token", &lease.token.get())
        .field("state", &lease.state(now))
        .field("lost_in", &lease.lost_in(now))
        .finish_non_exhaustive()
}

fn changed(lease: Arc<Lease>) -> impl Future<Output = LockState> + Send + use<> {
    let state = lease.state(Moment::now());
    async move {
        match state {
            LockState::Lost(_) => state,
            _ => lease.left(state).await,
        }
    }
}

async fn settle(
    name: Arc<str>,
    answer: oneshot::Receiver<Result<(), HoldFailure>>,
) -> Result<(), HoldError> {
    match answer.await {
        Ok(result) => result.map_err(|failure| failure.about(name)),
        // The session's task is gone, and its stream with it.
        Err(_) => Err(HoldError::Unconfirmed { name }),
    }
}

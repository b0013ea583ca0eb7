//! Guard of a held lock, and watches of it.

use std::{fmt, sync::Arc};

use tokio::sync::{mpsc, oneshot};

use crate::{
    clock::Moment,
    error::{Failure, HoldError, HoldFailure},
    lease::{Lease, LockState, LostReason},
    session::{Change, Granted, HoldReply, Note, value_fault},
    trace::TraceSource,
};

/// Implements what a guard and its watch say of their hold, for a type with a method `lease`. The first two arguments name
/// the methods that return its name and whether it is held; the others are words for the documentation.
macro_rules! hold_methods {
    ($type:ident: $name:ident, $is_held:ident; $named:literal, $held:literal) => {
        impl $type {
            #[doc = concat!("Returns the name of the ", $named, ".")]
            pub fn $name(&self) -> &str {
                &self.lease().name
            }

            /// Returns the fencing token: greater than that of every earlier grant of this name. Pass it to the protected
            /// resource, which must refuse smaller tokens.
            pub fn fencing_token(&self) -> $crate::FencingToken {
                self.lease().token
            }

            #[doc = concat!("Returns whether the ", $held, " is held, by this process's own clock and all that the coordinator said.")]
            /// Reads the clock and one atomic: cheap enough to ask before every step. Once false, the answer stays false,
            /// unless the hold is only [suspended](crate::LockState::Suspended).
            pub fn $is_held(&self) -> bool {
                self.lease().is_held($crate::clock::Moment::now())
            }

            #[doc = concat!("Returns whether the ", $held, " is held, suspended or lost.")]
            pub fn state(&self) -> $crate::LockState {
                self.lease().state($crate::clock::Moment::now())
            }

            /// Completes when the state differs from that at the time of the call, with the new state; at once if the hold
            /// is lost already. The future borrows nothing, and any number of tasks may await one.
            pub fn changed(&self) -> impl Future<Output = $crate::LockState> + Send + use<> {
                $crate::guard::changed(self.lease().clone())
            }

            #[doc = concat!("Returns the time left until the ", $held, " is lost unless a heartbeat is answered before;")]
            /// zero while it is not held. Every answer moves the end to somewhat less than the TTL from its heartbeat.
            pub fn valid_for(&self) -> std::time::Duration {
                self.lease().valid_for($crate::clock::Moment::now())
            }

            #[doc = concat!("Returns the time left until the ", $held, " is lost, held or suspended, unless a coordinator answers")]
            /// before; zero once it is lost. Use it for work that continues during a suspension and must end with the loss.
            pub fn lost_in(&self) -> std::time::Duration {
                self.lease().lost_in($crate::clock::Moment::now())
            }

            #[doc = concat!("Returns the time left until the ", $held, " ends because it may be held no longer")]
            /// ([`max_hold`](crate::LockRequest::max_hold)), whatever is answered; zero once it is lost, none if there is no bound.
            pub fn ends_in(&self) -> Option<std::time::Duration> {
                self.lease().ends_in($crate::clock::Moment::now())
            }

            #[doc = concat!("Completes when at most `ahead` is left until the ", $held, " ends because it may be held no longer,")]
            /// or when it is lost; never if there is no bound. The future borrows nothing, and any number of tasks may await
            /// one.
            pub fn ends_soon(&self, ahead: std::time::Duration) -> impl Future<Output = ()> + Send + use<> {
                self.lease().clone().ends_soon(ahead)
            }

            #[doc = concat!("Completes when an operator asks for the release of the ", $held, ", at once if one did before, with")]
            /// the last request; with none once it is lost. The future borrows nothing, and any number of tasks may await one.
            pub fn release_requested(&self) -> impl Future<Output = Option<$crate::ReleaseRequest>> + Send + use<> {
                self.lease().clone().asked()
            }

            #[doc = concat!("Completes when the ", $held, " is lost, with the reason;")]
            /// not while it is only [suspended](crate::LockState::Suspended). The future borrows nothing, and any number of
            /// tasks may await one.
            pub fn lost(&self) -> impl Future<Output = $crate::LostReason> + Send + use<> {
                self.lease().clone().ended()
            }
        }

        impl std::fmt::Debug for $type {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                $crate::guard::debug(stringify!($type), self.lease(), f)
            }
        }
    };
}

pub(crate) use hold_methods;

hold_methods!(LockGuard: name, is_held; "lock", "lock");
hold_methods!(LockWatch: name, is_held; "lock", "lock");

/// Guard of a lock, which is held until released, dropped or lost.
///
/// Dropping the guard releases the lock in the background; that never blocks and needs no runtime. [`LockGuard::release`]
/// also says whether the lock was still held.
///
/// ```
/// # leasehold_tests::doc(async |client| {
/// use leasehold_client::{LockState, LostReason};
///
/// let guard = client.lock("orders/42").await?;
/// println!("{} is ours, with token {}", guard.name(), guard.fencing_token());
/// tokio::select! {
///     reason = guard.lost() => eprintln!("lost: {reason}"),
///     () = async { /* work */ } => {}
/// }
/// assert!(guard.is_held() && guard.valid_for().as_secs() < 10);
///
/// let watchdog = tokio::spawn(guard.changed());
/// # tokio::task::yield_now().await;
/// client.admin().force_release("orders/42").await?;
/// assert_eq!(watchdog.await?, LockState::Lost(LostReason::Forced));
/// assert!(!guard.is_held());
/// # Ok(()) });
/// ```
#[must_use = "the lock is released when its guard is dropped"]
pub struct LockGuard {
    granted: Granted,
    notes: mpsc::UnboundedSender<Note>,
    /// Source of the context for its requests.
    traces: TraceSource,
    /// Set once the session knows that this guard is gone.
    told: bool,
}

impl LockGuard {
    pub(crate) fn new(
        granted: Granted,
        notes: mpsc::UnboundedSender<Note>,
        traces: TraceSource,
    ) -> Self {
        Self {
            granted,
            notes,
            traces,
            told: false,
        }
    }

    /// Returns how many times its actor held the lock when this guard was granted, including this guard: 1 except for
    /// reentrant grants.
    ///
    /// ```
    /// # leasehold_tests::doc(async |client| {
    /// let request = client.lock("orders/42").actor(client.actor()).reentrant();
    /// let outer = request.clone().await?;
    /// let inner = request.await?;
    /// assert_eq!((outer.hold_count(), inner.hold_count()), (1, 2));
    /// # Ok(()) });
    /// ```
    pub fn hold_count(&self) -> u32 {
        self.granted.hold_count
    }

    /// Returns how many permits of a semaphore were granted; none for other locks.
    ///
    /// ```
    /// # leasehold_tests::doc(async |client| {
    /// use leasehold_client::LockSpec;
    ///
    /// let specs = [LockSpec::permits("gpu", 2, 4), LockSpec::shared("training-data")];
    /// let guards = client.lock_all(specs).await?;
    /// let permits: Vec<_> = guards.iter().map(|guard| guard.permits()).collect();
    /// assert_eq!(permits, [Some(2), None]);
    /// # Ok(()) });
    /// ```
    pub fn permits(&self) -> Option<u32> {
        self.lease().permits
    }

    pub(crate) fn lease(&self) -> &Arc<Lease> {
        &self.granted.lease
    }

    /// Returns a view of this hold that can be cloned and sent around, and does not keep it.
    ///
    /// ```
    /// # leasehold_tests::doc(async |client| {
    /// let guard = client.lock("orders/42").await?;
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
        LockWatch::of(self.granted.lease.clone())
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
    /// let guard = client.lock("orders/42").await?;
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
        let name = self.granted.lease.name.clone();
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
    /// let guard = client.lock("orders/42").value("step 1").await?;
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
    /// let guard = client.lock("catalogue").await?;
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

    pub(crate) async fn change(&self, change: Change) -> Result<(), HoldError> {
        let name = self.granted.lease.name.clone();
        if let Change::Value(value) = &change
            && let Some(why) = value_fault(value)
        {
            let source = Failure::invalid_field("set_value.value", &why);
            return Err(HoldError::Refused { name, source });
        }
        let (reply, answer) = oneshot::channel();
        let note = Note::Change {
            key: self.granted.key,
            change,
            trace: self.traces.current(),
            reply,
        };
        self.notes.send(note).ok();
        settle(name, answer).await
    }

    /// Ends the hold here first, then tells the session: this process must not believe in the hold once the coordinator could
    /// hand it on. Fails if the hold had ended before.
    fn tell_released(&mut self, reply: Option<HoldReply>) -> Result<(), LostReason> {
        let ended = self.granted.lease.end(Moment::now(), LostReason::Released);
        self.told = true;
        // A lost one is told too, for the session to forget it.
        let reply = reply.filter(|_| ended.is_ok());
        let note = Note::Release {
            key: self.granted.key,
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

/// View of one hold of a lock. Cheap to clone; it does not keep the lock.
///
/// ```
/// # leasehold_tests::doc(async |client| {
/// let guard = client.lock("orders/42").await?;
/// let watch = guard.watch();
/// assert!(watch.is_held());
/// assert_eq!(watch.fencing_token(), guard.fencing_token());
/// let changed = watch.changed();
/// drop(guard);
/// println!("{:?}", changed.await); // Lost(Released)
/// assert!(!watch.is_held() && watch.lost_in().is_zero());
/// # Ok(()) });
/// ```
#[derive(Clone)]
pub struct LockWatch {
    lease: Arc<Lease>,
}

impl LockWatch {
    /// Returns a view of the hold of this lease.
    pub(crate) fn of(lease: Arc<Lease>) -> Self {
        Self { lease }
    }

    pub(crate) fn lease(&self) -> &Arc<Lease> {
        &self.lease
    }

    /// Returns how many permits of a semaphore were granted; none for other locks.
    pub fn permits(&self) -> Option<u32> {
        self.lease().permits
    }

    /// Completes when it is certain whether it is held: at once, unless it is suspended.
    pub(crate) async fn settled(&self) -> Result<(), LostReason> {
        match self.lease.clone().left(LockState::Suspended).await {
            LockState::Lost(reason) => Err(reason),
            _ => Ok(()),
        }
    }
}

pub(crate) fn debug(what: &str, lease: &Lease, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let now = Moment::now();
    f.debug_struct(what)
        .field("name", &lease.name)
        .field("fencing_token", &lease.token.get())
        .field("state", &lease.state(now))
        .field("lost_in", &lease.lost_in(now))
        .finish_non_exhaustive()
}

pub(crate) fn changed(lease: Arc<Lease>) -> impl Future<Output = LockState> + Send + use<> {
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

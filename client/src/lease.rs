//! State of one hold, which its guard and its session share: held, suspended or lost.

use std::{
    fmt,
    future::{Future, pending, poll_fn},
    pin::pin,
    sync::{Arc, Mutex, PoisonError},
    task::Poll,
    time::Duration,
};

use tokio::{sync::Notify, time::sleep};

use crate::{
    clock::{Moment, earlier},
    proto::{FromWire, from_enum},
    release_request::ReleaseRequest,
    token::FencingToken,
};

/// Longest nap until the end of a bound.
const LONGEST_NAP: Duration = Duration::from_secs(10);

/// Reason for which a lock is no longer held.
///
/// ```
/// # leasehold_tests::doc(async |client| {
/// use leasehold_client::LostReason;
///
/// let guard = client.lock("orders/42").await?;
/// client.close().await;
/// match guard.lost().await {
///     LostReason::Forced => println!("an operator took it"),
///     reason => println!("lost: {reason}"), // "lost: the session was closed"
/// }
/// # Ok(()) });
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum LostReason {
    /// The lease ran out before it was renewed: the coordinator or its store was out of reach, or this process was
    /// paused. Decided by this process's own clock, or told by the coordinator, whichever came first.
    Expired,
    /// The lock was gone from the store before its time: a client deleted the key, or the store lost data.
    Deleted,
    /// Another client's lock was found in its place.
    Taken,
    /// An operator force-released it.
    Forced,
    /// The stream to the coordinator ended, and every hold of the session with it.
    SessionEnded,
    /// This process closed the session.
    SessionClosed,
    /// This process released it: not a loss, but what a [`LockWatch`](crate::LockWatch) sees when its guard is gone.
    Released,
    /// The coordinator said that it was no longer held, but not why.
    Unknown,
    /// The coordinator does not allow this client to hold it any more: permissions have changed.
    PermissionRevoked,
    /// The coordinator does not know any more who this client is: its token or certificate has expired, or was removed, and no
    /// newer one came in time for the session to go on with it.
    Unauthenticated,
    /// Another stream resumed it without a request of this session: a client that knew its owner id has it now.
    Resumed,
    /// It was held for as long as it may be: for the [`max_hold`](crate::LockRequest::max_hold) of its request, or that of a rule
    /// of the coordinator.
    MaxHold,
}

from_enum!(LostReason {
    Expired,
    Deleted,
    Taken,
    Forced,
    PermissionRevoked,
    Resumed,
    MaxHold,
});

impl FromWire<i32> for LostReason {
    fn from_wire(wire: i32) -> Self {
        Option::from_wire(wire).unwrap_or(Self::Unknown)
    }
}

impl fmt::Display for LostReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Expired => "its lease ran out before it was renewed",
            Self::Deleted => "it was deleted from the store",
            Self::Taken => "somebody else's lock was found in its place",
            Self::Forced => "it was force-released by an operator",
            Self::SessionEnded => "the stream to the coordinator ended",
            Self::SessionClosed => "the session was closed",
            Self::Released => "it was released",
            Self::Unknown => "the coordinator no longer holds it for us",
            Self::PermissionRevoked => "this client is not allowed to hold it any more",
            Self::Resumed => "another stream resumed it",
            Self::MaxHold => "it was held for as long as it may be",
            Self::Unauthenticated => {
                "the coordinator does not know any more who this client is, and no newer credentials came in time"
            }
        })
    }
}

/// State of a hold.
///
/// ```
/// # leasehold_tests::doc(async |client| {
/// use leasehold_client::{LockState, LostReason};
///
/// let guard = client.lock("orders/42").await?;
/// assert_eq!(guard.state(), LockState::Held);
/// client.close().await;
/// assert_eq!(guard.state(), LockState::Lost(LostReason::SessionClosed));
/// # Ok(()) });
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum LockState {
    /// It is held, by this process's own clock and all messages so far.
    Held,
    /// The stream to the coordinator broke, and the session has a
    /// [`disconnect_grace`](crate::ClientBuilder::disconnect_grace); or the coordinator ended it because the client's token
    /// or certificate has expired: the lock counts as not held, and is not lost yet. It
    /// is held again if the session resumes it in time, with the same fencing token, and otherwise lost.
    Suspended,
    /// It is not held any more, for this reason. That is final.
    Lost(LostReason),
}

/// State of a hold, with what decides how long it lasts.
#[derive(Clone, Copy)]
enum Inner {
    /// Held until this moment.
    Held { until: Moment },
    /// Not held, and lost at this moment. If it is disowned, the coordinator no longer knows who the client is.
    Suspended { until: Moment, disowned: bool },
    /// Lost, for this reason.
    Lost(LostReason),
}

impl Inner {
    /// Returns the state at `now`: lost if the deadline has passed. The deadline is at most `ends_at`.
    fn at(self, now: Moment, ends_at: Option<Moment>) -> Self {
        match self {
            Self::Held { until } | Self::Suspended { until, .. }
                if until <= now && ends_at.is_some_and(|ends_at| ends_at <= until) =>
            {
                Self::Lost(LostReason::MaxHold)
            }
            Self::Held { until } if until <= now => Self::Lost(LostReason::Expired),
            Self::Suspended { until, disowned } if until <= now => Self::Lost(match disowned {
                true => LostReason::Unauthenticated,
                false => LostReason::SessionEnded,
            }),
            inner => inner,
        }
    }

    fn state(self) -> LockState {
        match self {
            Self::Held { .. } => LockState::Held,
            Self::Suspended { .. } => LockState::Suspended,
            Self::Lost(reason) => LockState::Lost(reason),
        }
    }

    fn deadline(self) -> Result<Moment, LostReason> {
        match self {
            Self::Held { until } | Self::Suspended { until, .. } => Ok(until),
            Self::Lost(reason) => Err(reason),
        }
    }
}

/// One hold, shared by its guard, its watches and the session. All of them agree about its state at any moment.
pub(crate) struct Lease {
    pub(crate) name: Arc<str>,
    pub(crate) token: FencingToken,
    /// Number of permits that were granted of a semaphore; none in other modes.
    pub(crate) permits: Option<u32>,
    bounded: Mutex<Bounded>,
    changed: Notify,
}

/// State of a hold, its bound, and what is asked of its holder.
struct Bounded {
    inner: Inner,
    /// Latest moment of its end, whatever is answered.
    ends_at: Option<Moment>,
    /// Last request to release it.
    request: Option<ReleaseRequest>,
}

impl Bounded {
    /// Returns a deadline, or the bound if that is earlier.
    fn limit(&self, deadline: Moment) -> Moment {
        self.ends_at
            .map_or(deadline, |ends_at| ends_at.min(deadline))
    }
}

impl Lease {
    /// Returns a hold that lasts until the deadline unless it is extended, and never longer than `ends_at`.
    pub(crate) fn new(
        name: Arc<str>,
        token: FencingToken,
        deadline: Moment,
        ends_at: Option<Moment>,
    ) -> Self {
        let until = ends_at.map_or(deadline, |ends_at| ends_at.min(deadline));
        let inner = Inner::Held { until };
        Self {
            name,
            token,
            permits: None,
            bounded: Mutex::new(Bounded {
                inner,
                ends_at,
                request: None,
            }),
            changed: Notify::new(),
        }
    }

    /// Returns the same lease, of so many permits of a semaphore; none in other modes.
    pub(crate) fn of_permits(self, permits: Option<u32>) -> Self {
        Self { permits, ..self }
    }

    /// Changes the state, as it is at `now`. The first caller after the deadline ends the hold for all callers, so that an
    /// answer "lost" is never taken back.
    fn with<T>(&self, now: Moment, change: impl FnOnce(&mut Bounded) -> T) -> T {
        let mut bounded = self.bounded.lock().unwrap_or_else(PoisonError::into_inner);
        let before = bounded.inner.state();
        bounded.inner = bounded.inner.at(now, bounded.ends_at);
        let result = change(&mut bounded);
        let has_changed = bounded.inner.state() != before;
        drop(bounded);
        if has_changed {
            self.changed.notify_waiters();
        }
        result
    }

    pub(crate) fn state(&self, now: Moment) -> LockState {
        self.with(now, |bounded| bounded.inner.state())
    }

    pub(crate) fn is_held(&self, now: Moment) -> bool {
        self.state(now) == LockState::Held
    }

    /// Returns the moment at which it is lost, if it is held or suspended at `now`, or else why it was lost.
    pub(crate) fn alive(&self, now: Moment) -> Result<Moment, LostReason> {
        self.with(now, |bounded| bounded.inner.deadline())
    }

    /// Moves the deadline to `to` if that is later. Does nothing for a hold that is not held.
    pub(crate) fn extend(&self, to: Moment) {
        let mut bounded = self.bounded.lock().unwrap_or_else(PoisonError::into_inner);
        let to = bounded.limit(to);
        if let Inner::Held { until } = &mut bounded.inner {
            *until = to.max(*until);
        }
    }

    /// Suspends the hold, because its stream has ended: until `limit`, or its deadline if that is earlier. There is no limit
    /// if the coordinator ended the stream because it no longer knows the client.
    pub(crate) fn suspend(&self, now: Moment, limit: Option<Moment>) {
        self.with(now, |Bounded { inner, .. }| {
            let was_disowned = matches!(inner, Inner::Suspended { disowned: true, .. });
            if let Ok(deadline) = inner.deadline() {
                *inner = Inner::Suspended {
                    until: limit.map_or(deadline, |limit| limit.min(deadline)),
                    disowned: limit.is_none() || was_disowned,
                };
            }
        });
    }

    /// Holds it until `to`, which may be before its deadline so far, because another stream has taken it over. Its bound is the
    /// earlier of the one so far and `ends_at`. Does nothing for a hold that has ended.
    pub(crate) fn resume(&self, now: Moment, to: Moment, ends_at: Option<Moment>) {
        self.with(now, |bounded| {
            if bounded.inner.deadline().is_ok() {
                bounded.ends_at = earlier(bounded.ends_at, ends_at);
                let until = bounded.limit(to);
                bounded.inner = Inner::Held { until };
            }
        });
    }

    /// Ends the hold; the first reason stays. Fails with that one if it had ended before, be it by its deadline.
    pub(crate) fn end(&self, now: Moment, reason: LostReason) -> Result<(), LostReason> {
        self.with(now, |Bounded { inner, .. }| {
            inner.deadline()?;
            *inner = Inner::Lost(reason);
            Ok(())
        })
    }

    /// Returns the time left until the deadline; zero while it is not held.
    pub(crate) fn valid_for(&self, now: Moment) -> Duration {
        self.with(now, |bounded| match bounded.inner {
            Inner::Held { until } => until.since(now),
            _ => Duration::ZERO,
        })
    }

    /// Returns the time left until it is lost, held or suspended; zero once it is.
    pub(crate) fn lost_in(&self, now: Moment) -> Duration {
        self.alive(now)
            .map_or(Duration::ZERO, |deadline| deadline.since(now))
    }

    /// Returns the time left until its bound, zero once it is lost; `None` if it has no bound.
    pub(crate) fn ends_in(&self, now: Moment) -> Option<Duration> {
        self.with(now, |bounded| {
            let ends_at = bounded.ends_at?;
            Some(match bounded.inner {
                Inner::Lost(_) => Duration::ZERO,
                _ => ends_at.since(now),
            })
        })
    }

    /// Completes when at most this time is left until the bound, or when the hold has ended; never if it is not bounded.
    pub(crate) async fn ends_soon(self: Arc<Self>, ahead: Duration) {
        loop {
            let Some(left) = self.ends_in(Moment::now()) else {
                return pending().await;
            };
            let rest = left.saturating_sub(ahead);
            if rest.is_zero() {
                return;
            }
            // Timers do not count the time for which the machine sleeps: none is set for long.
            let nap = sleep(rest.min(LONGEST_NAP));
            tokio::select! {
                () = nap => {}
                _ = self.clone().ended() => return,
            }
        }
    }

    /// Notes that an operator asks for its release.
    pub(crate) fn ask(&self, now: Moment, request: ReleaseRequest) {
        self.with(now, |bounded| bounded.request = Some(request));
        self.changed.notify_waiters();
    }

    /// Returns the last request to release it.
    pub(crate) fn request(&self, now: Moment) -> Option<ReleaseRequest> {
        self.with(now, |bounded| bounded.request.clone())
    }

    /// Completes when an operator asks for its release, at once if one did before; with none if the hold has ended.
    pub(crate) async fn asked(self: Arc<Self>) -> Option<ReleaseRequest> {
        self.once(|state| {
            let request = self.request(Moment::now());
            match state {
                LockState::Lost(_) => Some(None),
                _ => request.map(Some),
            }
        })
        .await
    }

    /// Completes when the hold has ended.
    pub(crate) async fn ended(self: Arc<Self>) -> LostReason {
        self.once(|state| match state {
            LockState::Lost(reason) => Some(reason),
            _ => None,
        })
        .await
    }

    /// Completes when the state is another one than this.
    pub(crate) async fn left(self: Arc<Self>, state: LockState) -> LockState {
        self.once(|now| (now != state).then_some(now)).await
    }

    /// Waits until the state is a wanted one. Every poll reads the clock itself, so that after a pause of the process the order
    /// of wake-ups does not matter.
    async fn once<T>(&self, wanted: impl Fn(LockState) -> Option<T>) -> T {
        loop {
            let mut notified = pin!(self.changed.notified());
            // Listening begins before the state is read, so that no change falls in between.
            notified.as_mut().enable();
            let found = poll_fn(|cx| match wanted(self.state(Moment::now())) {
                Some(found) => Poll::Ready(Some(found)),
                None => notified.as_mut().poll(cx).map(|()| None),
            });
            if let Some(found) = found.await {
                return found;
            }
        }
    }
}

#[cfg(test)]
mod tests;

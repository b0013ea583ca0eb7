//! State of one hold, which its guard and its session share: held, suspended or lost.

use std::{
    fmt,
    future::{Future, poll_fn},
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    task::Poll,
    time::Duration,
};

use tokio::sync::Notify;

use crate::{clock::Moment, proto::v1};

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
#[repr(u8)]
pub enum LostReason {
    /// The lease ran out before it was renewed: the coordinator or its store was out of reach, or this process was
    /// paused. Decided by this process's own clock, or told by the coordinator, whichever came first.
    Expired = 1,
    /// The lock was gone from the store before its time: deleted by somebody, or the store lost data.
    Deleted = 2,
    /// Somebody else's lock was found in its place.
    Taken = 3,
    /// An operator force-released it.
    Forced = 4,
    /// The stream to the coordinator ended, and every hold of the session with it.
    SessionEnded = 5,
    /// This process closed the session.
    SessionClosed = 6,
    /// This process released it: not a loss, but what a [`LockWatch`](crate::LockWatch) sees when its guard is gone.
    Released = 7,
    /// The coordinator said that it was no longer held, but not why.
    Unknown = 8,
    /// The coordinator does not allow this client to hold it any more: permissions have changed.
    PermissionRevoked = 9,
    /// The coordinator does not know any more who this client is: its token or certificate has expired, or was removed, and no
    /// newer one came in time for the session to go on with it.
    Unauthenticated = 10,
    /// Another stream resumed it, and this session did not ask for that: whoever knew its owner id has it now.
    Resumed = 11,
}

impl LostReason {
    const ALL: [Self; 11] = [
        Self::Expired,
        Self::Deleted,
        Self::Taken,
        Self::Forced,
        Self::SessionEnded,
        Self::SessionClosed,
        Self::Released,
        Self::Unknown,
        Self::PermissionRevoked,
        Self::Unauthenticated,
        Self::Resumed,
    ];

    fn from_code(code: u64) -> Self {
        Self::ALL
            .into_iter()
            .find(|reason| *reason as u64 == code)
            .unwrap_or(Self::Unknown)
    }

    /// What the coordinator gave as the reason; what this version does not know becomes `Unknown`.
    pub(crate) fn from_proto(reason: v1::LostReason) -> Self {
        match reason {
            v1::LostReason::Unspecified => Self::Unknown,
            v1::LostReason::Expired => Self::Expired,
            v1::LostReason::Deleted => Self::Deleted,
            v1::LostReason::Taken => Self::Taken,
            v1::LostReason::Forced => Self::Forced,
            v1::LostReason::PermissionRevoked => Self::PermissionRevoked,
            v1::LostReason::Resumed => Self::Resumed,
        }
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
            Self::Unauthenticated => {
                "the coordinator does not know any more who this client is, and no newer credentials came in time"
            }
        })
    }
}

/// A number that rises with every grant of a lock's name.
///
/// Pass it to whatever the lock protects, and let that refuse a number smaller than the largest it has seen: then a
/// holder that was paused and does not know yet that it lost the lock can do no harm.
///
/// ```
/// use leasehold_client::FencingToken;
///
/// let (older, newer) = (FencingToken::from(41), FencingToken::from(42));
/// assert!(newer > older);
/// assert_eq!(newer.to_string(), "42");
/// assert_eq!(i64::from(newer), 42);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct FencingToken(i64);

impl FencingToken {
    /// The number itself: positive, below 2^53 in practice.
    pub fn get(self) -> i64 {
        self.0
    }
}

impl From<i64> for FencingToken {
    fn from(token: i64) -> Self {
        Self(token)
    }
}

impl From<FencingToken> for i64 {
    fn from(token: FencingToken) -> Self {
        token.0
    }
}

impl fmt::Display for FencingToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
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
    /// It is held, by this process's own clock and all that it has been told.
    Held,
    /// The stream to the coordinator broke, and the session has a
    /// [`disconnect_grace`](crate::ClientBuilder::disconnect_grace); or the coordinator ended it because the client's token
    /// or certificate has expired: the lock counts as not held, and is not lost yet. It
    /// is held again if the session resumes it in time, with the same fencing token, and otherwise lost.
    Suspended,
    /// It is not held any more, for this reason. That is final.
    Lost(LostReason),
}

/// Set in `Lease::state` once the hold has ended; the reason is in the low byte then, else the deadline in the bits that
/// are left.
const ENDED: u64 = 1 << 63;

/// Set in `Lease::state` while the hold is suspended; the deadline is when it ends unless it is resumed.
const SUSPENDED: u64 = 1 << 62;

/// Set besides, while it is so because nobody knows any more who this client is.
const DISOWNED: u64 = 1 << 61;

/// The bits of the deadline.
const TIME: u64 = DISOWNED - 1;

/// What one guard holds, from its grant to its end: held, perhaps suspended and held again, then ended for good.
pub(crate) struct Lease {
    pub(crate) name: Arc<str>,
    pub(crate) token: FencingToken,
    state: AtomicU64,
    changed: Notify,
}

impl Lease {
    pub(crate) fn new(name: Arc<str>, token: FencingToken, deadline: Moment) -> Self {
        Self {
            name,
            token,
            state: AtomicU64::new(deadline.as_nanos()),
            changed: Notify::new(),
        }
    }

    pub(crate) fn state(&self, now: Moment) -> LockState {
        match self.settled(now) {
            Ok(state) if state & SUSPENDED == 0 => LockState::Held,
            Ok(_) => LockState::Suspended,
            Err(reason) => LockState::Lost(reason),
        }
    }

    pub(crate) fn is_held(&self, now: Moment) -> bool {
        self.state(now) == LockState::Held
    }

    /// Until when it is held, or suspended, if it is so at `now`; else why not. Whoever asks first after the deadline
    /// ends the hold for everybody, so that an answer "lost" is never taken back.
    pub(crate) fn alive(&self, now: Moment) -> Result<Moment, LostReason> {
        self.settled(now).map(deadline)
    }

    /// The state, if it has not ended by `now`.
    fn settled(&self, now: Moment) -> Result<u64, LostReason> {
        let mut state = self.state.load(Ordering::Acquire);
        loop {
            if state & ENDED != 0 {
                return Err(LostReason::from_code(state & 0xff));
            }
            if now < deadline(state) {
                return Ok(state);
            }
            let reason = match state & SUSPENDED {
                0 => LostReason::Expired,
                _ if state & DISOWNED != 0 => LostReason::Unauthenticated,
                _ => LostReason::SessionEnded,
            };
            match self.swap(state, ENDED | reason as u64) {
                Ok(()) => {
                    self.changed.notify_waiters();
                    return Err(reason);
                }
                Err(newer) => state = newer,
            }
        }
    }

    /// Moves the deadline to `to` if that is later. Does nothing for a hold that is not held.
    pub(crate) fn extend(&self, to: Moment) {
        let mut state = self.state.load(Ordering::Acquire);
        while state & (ENDED | SUSPENDED) == 0 && state < to.as_nanos() {
            match self.swap(state, to.as_nanos()) {
                Ok(()) => return,
                Err(newer) => state = newer,
            }
        }
    }

    /// The stream broke: it counts as not held from now on, and ends at `until`, or at its deadline if that is earlier.
    pub(crate) fn suspend(&self, now: Moment, until: Moment) {
        self.suspend_with(now, until, 0);
    }

    /// The stream ended since the coordinator does not know any more who is there: it ends at its deadline.
    pub(crate) fn disown(&self, now: Moment) {
        self.suspend_with(now, Moment::from_nanos(TIME), DISOWNED);
    }

    fn suspend_with(&self, now: Moment, until: Moment, why: u64) {
        while let Ok(state) = self.settled(now) {
            let until = deadline(state).min(until);
            let why = SUSPENDED | why | state & DISOWNED;
            if self.swap(state, why | until.as_nanos()).is_ok() {
                self.changed.notify_waiters();
                return;
            }
        }
    }

    /// Another stream has taken it over: it is held until `to`, which may be before its deadline of until now. Does
    /// nothing for a hold that has ended.
    pub(crate) fn resume(&self, now: Moment, to: Moment) {
        while let Ok(state) = self.settled(now) {
            if self.swap(state, to.as_nanos()).is_ok() {
                self.changed.notify_waiters();
                return;
            }
        }
    }

    /// Ends the hold; the first reason stays. Fails with that one if it had ended before, be it by its deadline.
    pub(crate) fn end(&self, now: Moment, reason: LostReason) -> Result<(), LostReason> {
        loop {
            let state = self.settled(now)?;
            if self.swap(state, ENDED | reason as u64).is_ok() {
                self.changed.notify_waiters();
                return Ok(());
            }
        }
    }

    /// Time left until the deadline; zero while it is not held.
    pub(crate) fn valid_for(&self, now: Moment) -> Duration {
        match self.settled(now) {
            Ok(state) if state & SUSPENDED == 0 => deadline(state).since(now),
            _ => Duration::ZERO,
        }
    }

    /// Time left until it is lost, held or suspended; zero once it is.
    pub(crate) fn lost_in(&self, now: Moment) -> Duration {
        self.alive(now)
            .map_or(Duration::ZERO, |deadline| deadline.since(now))
    }

    fn swap(&self, from: u64, to: u64) -> Result<(), u64> {
        self.state
            .compare_exchange(from, to, Ordering::AcqRel, Ordering::Acquire)
            .map(|_| ())
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

    /// Every poll looks at the clock itself: after a pause of the process it must not matter who is woken first.
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

/// Of a state that is not the end.
fn deadline(state: u64) -> Moment {
    Moment::from_nanos(state & TIME)
}

#[cfg(test)]
mod tests;

//! What a guard and its session share of one hold: whether it still is one.

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

/// Why a lock is no longer held.
///
/// ```
/// # leasehold_tests::doc(async |client| {
/// use leasehold_client::LostReason;
///
/// let guard = client.lock("orders/42").acquire().await?;
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
}

impl LostReason {
    const ALL: [Self; 8] = [
        Self::Expired,
        Self::Deleted,
        Self::Taken,
        Self::Forced,
        Self::SessionEnded,
        Self::SessionClosed,
        Self::Released,
        Self::Unknown,
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

/// Set in `Lease::state` once the hold has ended; the reason is in the low byte then, else the deadline in all bits.
const ENDED: u64 = 1 << 63;

/// What one guard holds, from its grant to its end. It goes from held to ended once and never back.
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

    /// The deadline if it is held at `now`, else why not. Whoever asks first after the deadline ends the hold for
    /// everybody, so that an answer "lost" is never taken back.
    pub(crate) fn held(&self, now: Moment) -> Result<Moment, LostReason> {
        let mut state = self.state.load(Ordering::Acquire);
        loop {
            let deadline = decode(state)?;
            if now < deadline {
                return Ok(deadline);
            }
            match self.swap(state, ENDED | LostReason::Expired as u64) {
                Ok(()) => {
                    self.changed.notify_waiters();
                    return Err(LostReason::Expired);
                }
                Err(newer) => state = newer,
            }
        }
    }

    /// Moves the deadline to `to` if that is later. Does nothing for a hold that has ended.
    pub(crate) fn extend(&self, to: Moment) {
        let mut state = self.state.load(Ordering::Acquire);
        while state & ENDED == 0 && state < to.as_nanos() {
            match self.swap(state, to.as_nanos()) {
                Ok(()) => return,
                Err(newer) => state = newer,
            }
        }
    }

    /// Ends the hold; the first reason stays. Fails with that one if it had ended before, be it by its deadline.
    pub(crate) fn end(&self, now: Moment, reason: LostReason) -> Result<(), LostReason> {
        loop {
            let deadline = self.held(now)?;
            if self
                .swap(deadline.as_nanos(), ENDED | reason as u64)
                .is_ok()
            {
                self.changed.notify_waiters();
                return Ok(());
            }
        }
    }

    /// Time left until the deadline; zero once ended.
    pub(crate) fn valid_for(&self, now: Moment) -> Duration {
        self.held(now)
            .map_or(Duration::ZERO, |deadline| deadline.since(now))
    }

    fn swap(&self, from: u64, to: u64) -> Result<(), u64> {
        self.state
            .compare_exchange(from, to, Ordering::AcqRel, Ordering::Acquire)
            .map(|_| ())
    }

    /// Completes when the hold has ended. Every poll looks at the clock itself: after a pause of the process it must
    /// not matter who is woken first.
    pub(crate) async fn ended(self: Arc<Self>) -> LostReason {
        loop {
            let mut notified = pin!(self.changed.notified());
            // Listening begins before the state is read, so that no change falls in between.
            notified.as_mut().enable();
            let ended = poll_fn(|cx| match self.held(Moment::now()) {
                Err(reason) => Poll::Ready(Some(reason)),
                Ok(_) => notified.as_mut().poll(cx).map(|()| None),
            });
            if let Some(reason) = ended.await {
                return reason;
            }
        }
    }
}

fn decode(state: u64) -> Result<Moment, LostReason> {
    if state & ENDED == 0 {
        Ok(Moment::from_nanos(state))
    } else {
        Err(LostReason::from_code(state & 0xff))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Moment {
        Moment::from_nanos(millis * 1_000_000)
    }

    fn lease(deadline: Moment) -> Arc<Lease> {
        Arc::new(Lease::new("a".into(), FencingToken(1), deadline))
    }

    #[test]
    fn a_hold_ends_at_its_deadline_and_a_late_extension_does_not_bring_it_back() {
        let lease = lease(at(100));
        assert_eq!(lease.held(at(99)), Ok(at(100)));
        assert_eq!(lease.held(at(100)), Err(LostReason::Expired));
        lease.extend(at(500));
        assert_eq!(lease.held(at(101)), Err(LostReason::Expired));
        assert_eq!(lease.held(at(0)), Err(LostReason::Expired));
    }

    #[test]
    fn an_extension_never_shortens() {
        let lease = lease(at(100));
        lease.extend(at(50));
        assert_eq!(lease.held(at(60)), Ok(at(100)));
        lease.extend(at(200));
        assert_eq!(lease.valid_for(at(150)), Duration::from_millis(50));
    }

    #[test]
    fn the_first_reason_stays() {
        let lease = lease(at(100));
        assert_eq!(lease.end(at(10), LostReason::Forced), Ok(()));
        assert_eq!(
            lease.end(at(20), LostReason::Released),
            Err(LostReason::Forced)
        );
        assert_eq!(lease.held(at(200)), Err(LostReason::Forced));
    }

    #[test]
    fn ending_after_the_deadline_reports_the_deadline() {
        let lease = lease(at(100));
        assert_eq!(
            lease.end(at(100), LostReason::Released),
            Err(LostReason::Expired)
        );
    }

    #[test]
    fn every_reason_survives_the_round_trip() {
        for reason in LostReason::ALL {
            let lease = lease(at(100));
            lease.end(at(1), reason).unwrap();
            assert_eq!(lease.held(at(2)), Err(reason));
        }
    }

    #[tokio::test]
    async fn everybody_who_waits_is_told() {
        let lease = lease(Moment::now().after(Duration::from_secs(60)));
        let waiting: Vec<_> = (0..3)
            .map(|_| tokio::spawn(lease.clone().ended()))
            .collect();
        tokio::task::yield_now().await;
        lease.end(Moment::now(), LostReason::Taken).unwrap();
        for told in waiting {
            assert_eq!(told.await.unwrap(), LostReason::Taken);
        }
        assert_eq!(lease.ended().await, LostReason::Taken);
    }

    #[tokio::test]
    async fn a_poll_after_the_deadline_says_lost_without_being_woken() {
        let lease = lease(Moment::now());
        assert_eq!(lease.ended().await, LostReason::Expired);
    }
}

//! Calls that are cancelled as soon as they are made.
//!
//! A call costs its client two small frames, and us a task, a permission, and perhaps a question to the store and another to take it
//! back: cancelled at once, over and over, it is an attack (CVE-2023-44487, "rapid reset"). HTTP/2's own defence ends the
//! connection, and with it every session on it, and counts only calls that nobody has looked at yet. Here a connection that
//! cancels more than a client can have reason to has fewer turns than others, which costs nobody else anything.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::{Duration, Instant},
};

use super::ConnectionHandle;

/// A call that was cancelled so soon after its first step was not waited for: no deadline of a client is as short. Where there is
/// much to do, the first step comes late, and a reset that was sent with the call is there before it.
const AT_ONCE: Duration = Duration::from_millis(20);
/// So many a second are read as they come: one in each of these.
const EACH: Duration = Duration::from_millis(20);
/// So many may come at a time.
const BURST: u32 = 20;
/// For how long after the last it is remembered at most that there were too many.
const LONGEST: Duration = Duration::from_secs(1);

/// A call that is under way on a connection. Dropped before it has [ended](Self::ended), it was cancelled.
#[derive(Debug)]
pub struct UnderWay {
    connection: ConnectionHandle,
    /// When its first step was taken.
    since: Option<Instant>,
    ended: bool,
    /// What it was counted for as one that is cancelled at once, before anybody could know.
    suspected: Option<Counted>,
}

impl UnderWay {
    /// One that is about to begin.
    #[must_use]
    pub fn new(connection: ConnectionHandle) -> Self {
        connection.note_call();
        // Where there is much to do, what becomes of a call is known late, and many more would be read until then.
        let suspected = connection
            .cancels_too_many()
            .then(|| connection.note_cancelled_at_once());
        Self {
            connection,
            since: None,
            ended: false,
            suspected,
        }
    }

    /// A step of it is taken. False for the first step of one that is suspected to be over by then: it is to be taken a turn later.
    pub fn step(&mut self) -> bool {
        if self.since.is_some() {
            return true;
        }
        self.since = Some(Instant::now());
        self.suspected.is_none()
    }

    /// It was answered.
    pub fn ended(&mut self) {
        self.ended = true;
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        let is_at_once = self.since.is_none_or(|since| since.elapsed() < AT_ONCE);
        match (is_at_once && !self.ended, self.suspected.take()) {
            (true, None) => {
                self.connection.note_cancelled_at_once();
            }
            (false, Some(counted)) => self.connection.note_suspected_wrongly(counted),
            (true, Some(_)) | (false, None) => {}
        }
    }
}

/// For how much longer it is remembered because of one of them.
#[derive(Debug)]
pub(super) struct Counted(u64);

/// Those of one connection.
#[derive(Debug, Default)]
pub(super) struct Cancels {
    /// Until when those that were read would have come if they came as they may; nanoseconds since it was opened, 0 at first.
    paid_until: AtomicU64,
}

impl Cancels {
    /// Takes one in, so long after the connection was opened. Also tells whether it is the first that is too many.
    pub(super) fn add(&self, now: Duration) -> (Counted, bool) {
        let before = self.paid_until.load(Ordering::Relaxed);
        let from = before.max(nanos(now));
        let free = nanos(now) + nanos(EACH * BURST);
        // Two at the same moment may count as one: it is about many.
        let after = (from + nanos(EACH)).min(free + nanos(LONGEST));
        self.paid_until.store(after, Ordering::Relaxed);
        let counted = Counted(after.saturating_sub(from));
        (counted, after > free && before <= free)
    }

    /// Takes one back.
    pub(super) fn take_back(&self, counted: Counted) {
        let before = self.paid_until.load(Ordering::Relaxed);
        self.paid_until
            .store(before.saturating_sub(counted.0), Ordering::Relaxed);
    }

    /// Whether as many as may come at a time have come, or nearly.
    pub(super) fn are_many(&self, now: impl FnOnce() -> Duration) -> bool {
        let paid_until = self.paid_until.load(Ordering::Relaxed);
        paid_until > 0 && paid_until > nanos(now()) + nanos(EACH * BURST / 2)
    }
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX / 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_as_a_client_may_have_reason_to_cancel_are_not_too_many() {
        let cancels = Cancels::default();
        assert!(!cancels.are_many(|| Duration::ZERO));
        for number in 0..1000 {
            let now = EACH * number;
            assert!(!cancels.add(now).1);
            assert!(!cancels.are_many(|| now));
        }
    }

    #[test]
    fn more_are_remembered_for_a_while() {
        let cancels = Cancels::default();
        let now = Duration::from_secs(5);
        let told = (0..BURST + 20).filter(|_| cancels.add(now).1).count();
        assert_eq!(told, 1, "it is told once");
        let last = EACH * (20 + BURST / 2);
        let are_many = |after| cancels.are_many(|| now + after);
        assert!(are_many(last - EACH) && !are_many(last));
        cancels.take_back(cancels.add(now).0);
        assert!(
            are_many(last - EACH) && !are_many(last),
            "nothing is left of it"
        );
        for _ in 0..10_000 {
            cancels.add(now);
        }
        cancels.take_back(cancels.add(now).0);
        assert!(are_many(LONGEST) && !are_many(LONGEST * 2));
    }
}

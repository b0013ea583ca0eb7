//! Bound on calls that are cancelled as soon as they are made.
//!
//! A call costs its client two small frames, and the coordinator a task, a permission check, and perhaps a command to the store
//! and another to undo it: cancelled at once, over and over, it is an attack (CVE-2023-44487, "rapid reset"). HTTP/2's own
//! defence ends the connection with every session on it, and counts only calls that the server has not accepted yet. Here the
//! listener reads less often from a connection that cancels more calls than a client can have reason to. Others lose nothing.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use parking_lot::Mutex;

/// Time after its first step within which a cancelled call counts as cancelled at once: no client's deadline is as short. Under
/// load, the first step comes late, and a reset that was sent with the call arrives before it.
pub(super) const AT_ONCE: Duration = Duration::from_millis(20);
/// Interval that each immediate cancel costs: one per interval is free.
const EACH: Duration = Duration::from_millis(20);
/// Immediate cancels that may come in a burst.
const BURST: u32 = 20;
/// Longest time after the last immediate cancel for which an excess is remembered.
const LONGEST: Duration = Duration::from_secs(1);

/// Suspected call, and when it began.
#[derive(Debug)]
pub(super) struct Suspected {
    span: u64,
}

/// Immediate cancels of one connection.
#[derive(Debug, Default)]
pub(super) struct Cancels {
    /// The time by which the permitted rate pays for the cancels so far; nanoseconds since the connection was opened, 0 at first.
    paid_until: AtomicU64,
    suspects: Mutex<Suspects>,
}

/// Calls that began during an excess of cancels, and whose end is not known yet. A call that is not over after [`AT_ONCE`] was
/// no immediate cancel: it is forgotten in the next span of that length.
#[derive(Debug, Default)]
struct Suspects {
    /// The number of the present span.
    span: u64,
    /// The calls that began in it.
    young: u32,
    /// The calls that began in the previous span.
    old: u32,
}

impl Suspects {
    /// Returns the calls of a span, if they are not forgotten.
    fn of(&mut self, span: u64) -> Option<&mut u32> {
        match self.span.checked_sub(span)? {
            0 => Some(&mut self.young),
            1 => Some(&mut self.old),
            _ => None,
        }
    }

    fn go_on_to(&mut self, span: u64) {
        match span.saturating_sub(self.span) {
            0 => return,
            1 => self.old = self.young,
            _ => self.old = 0,
        }
        self.young = 0;
        self.span = span;
    }
}

impl Cancels {
    /// Counts a cancel, `now` after the connection was opened. Returns whether it is the first in excess.
    pub(super) fn add(&self, now: Duration) -> bool {
        let before = self.paid_until.load(Ordering::Relaxed);
        let from = before.max(nanos(now));
        let free = nanos(now) + nanos(EACH * BURST);
        // Two at the same moment may count as one, which does not matter among many.
        let after = (from + nanos(EACH)).min(free + nanos(LONGEST));
        self.paid_until.store(after, Ordering::Relaxed);
        after > free && before <= free
    }

    /// Notes a call that begins during an excess.
    pub(super) fn suspect(&self, now: Duration) -> Suspected {
        let mut suspects = self.suspects.lock();
        suspects.go_on_to(span(now));
        suspects.young = suspects.young.saturating_add(1);
        Suspected {
            span: suspects.span,
        }
    }

    /// Notes that the end of a suspected call is known.
    pub(super) fn is_known(&self, suspected: &Suspected) {
        if let Some(count) = self.suspects.lock().of(suspected.span) {
            *count = count.saturating_sub(1);
        }
    }

    /// Returns whether there are more cancels than the burst permits. Suspected calls count too, but only beside known cancels, so
    /// that suspicion is not its own cause.
    pub(super) fn are_many(&self, now: impl FnOnce() -> Duration) -> bool {
        let paid_until = self.paid_until.load(Ordering::Relaxed);
        if paid_until == 0 {
            return false;
        }
        let now = now();
        let known = paid_until.saturating_sub(nanos(now));
        let free = nanos(EACH * BURST);
        if known == 0 || known > free {
            return known > 0;
        }
        let mut suspects = self.suspects.lock();
        suspects.go_on_to(span(now));
        let suspected = u64::from(suspects.young) + u64::from(suspects.old);
        known + suspected * nanos(EACH) > free
    }
}

/// Returns the number of the span of [`AT_ONCE`] that contains a time.
fn span(now: Duration) -> u64 {
    nanos(now) / nanos(AT_ONCE)
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
            assert!(!cancels.add(now));
            assert!(!cancels.are_many(|| now));
        }
        let now = EACH * 10_000;
        for _ in 0..BURST {
            assert!(!cancels.add(now));
            assert!(!cancels.are_many(|| now), "so many may come at a time");
        }
        assert!(cancels.add(now), "it is told");
        assert!(cancels.are_many(|| now));
    }

    #[test]
    fn more_are_remembered_for_a_while() {
        let cancels = Cancels::default();
        let now = Duration::from_secs(5);
        let told = (0..BURST + 20).filter(|_| cancels.add(now)).count();
        assert_eq!(told, 1, "it is told once");
        let last = EACH * 20;
        let are_many = |after| cancels.are_many(|| now + after);
        assert!(are_many(last - EACH) && !are_many(last));
        for _ in 0..10_000 {
            cancels.add(now);
        }
        assert!(are_many(LONGEST - EACH) && !are_many(LONGEST));
    }

    #[test]
    fn a_suspicion_is_over_when_the_call_is_or_was_not_cancelled_at_once() {
        let cancels = Cancels::default();
        let now = Duration::from_secs(5);
        for _ in 0..=BURST {
            cancels.add(now);
        }
        // One of them is over by then.
        let now = now + EACH;
        let are_many = |after| cancels.are_many(|| now + after);
        assert!(!are_many(Duration::ZERO));
        let suspected: Vec<Suspected> = (0..100).map(|_| cancels.suspect(now)).collect();
        assert!(are_many(Duration::ZERO));
        for suspected in &suspected[1..] {
            cancels.is_known(suspected);
        }
        assert!(are_many(Duration::ZERO) && !are_many(EACH));
        cancels.is_known(&suspected[0]);
        assert!(!are_many(Duration::ZERO));

        // A hundred that take long count no longer than what is cancelled at once takes.
        let now = now + AT_ONCE;
        let suspected: Vec<Suspected> = (0..100).map(|_| cancels.suspect(now)).collect();
        assert!(cancels.are_many(|| now + AT_ONCE));
        assert!(!cancels.are_many(|| now + 2 * AT_ONCE));
        for suspected in &suspected {
            cancels.is_known(suspected);
        }
        assert!(!cancels.are_many(|| now + 2 * AT_ONCE));
    }

    #[test]
    fn a_suspicion_is_not_its_own_cause() {
        let cancels = Cancels::default();
        let mut now = Duration::from_secs(5);
        for _ in 0..=BURST {
            cancels.add(now);
        }
        let until = now + EACH * (BURST + 1);
        while now < until {
            assert!(cancels.are_many(|| now), "it goes on");
            for _ in 0..100 {
                cancels.suspect(now);
            }
            now += Duration::from_millis(1);
        }
        assert!(!cancels.are_many(|| now), "nothing else is known of it");
    }
}

//! State of one measured name: checks every grant of it, and records the order of holders.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

/// Name, as this process knows it.
pub(super) struct Name {
    text: Arc<str>,
    seen: Mutex<Seen>,
}

#[derive(Default)]
struct Seen {
    holder: Option<Holder>,
    newest: i64,
    waiting: usize,
    /// Time at which it was released while another client waited.
    released: Option<Instant>,
}

struct Holder {
    token: i64,
    is_held: Box<dyn Fn() -> bool + Send>,
}

/// Result of a grant.
#[derive(PartialEq, Eq, Debug)]
pub(super) enum Grant {
    /// It is held; with the time since the release before it, if a client was waiting then.
    Held { hand_off: Option<Duration> },
    /// It was lost before it could be checked, so that others may have been granted since.
    LostAlready,
}

/// Grant that violates exclusion or the order of tokens.
#[derive(thiserror::Error, Clone, PartialEq, Eq, Debug)]
pub(super) enum Violation {
    #[error(
        "exclusion was violated: lock {name:?} was granted with token {token} while this process still held it with \
         token {before}"
    )]
    HeldTwice {
        name: Arc<str>,
        token: i64,
        before: i64,
    },
    #[error(
        "a fencing token did not rise: lock {name:?} was granted with token {token} after token {before}"
    )]
    TokenDidNotRise {
        name: Arc<str>,
        token: i64,
        before: i64,
    },
}

impl Name {
    pub(super) fn new(text: impl Into<Arc<str>>) -> Self {
        Self {
            text: text.into(),
            seen: Mutex::default(),
        }
    }

    pub(super) fn text(&self) -> &Arc<str> {
        &self.text
    }

    /// Notes a client that asks for it.
    pub(super) fn asked(&self) {
        self.seen().waiting += 1;
    }

    /// Notes a client that was answered, or has gone.
    pub(super) fn answered(&self) {
        let mut seen = self.seen();
        seen.waiting = seen.waiting.saturating_sub(1);
    }

    /// Checks a grant. Its holder calls this before anything else, and `released` before the release.
    pub(super) fn granted(
        &self,
        token: i64,
        is_held: impl Fn() -> bool + Send + 'static,
        at: Instant,
    ) -> Result<Grant, Violation> {
        let mut seen = self.seen();
        if !is_held() {
            return Ok(Grant::LostAlready);
        }
        let name = self.text.clone();
        if let Some(holder) = seen.holder.as_ref().filter(|holder| (holder.is_held)()) {
            let before = holder.token;
            return Err(Violation::HeldTwice {
                name,
                token,
                before,
            });
        }
        if token <= seen.newest {
            let before = seen.newest;
            return Err(Violation::TokenDidNotRise {
                name,
                token,
                before,
            });
        }
        seen.newest = token;
        let is_held = Box::new(is_held);
        seen.holder = Some(Holder { token, is_held });
        let released = seen.released.take();
        Ok(Grant::Held {
            hand_off: released.map(|released| at.saturating_duration_since(released)),
        })
    }

    /// Notes that the hold with this token is about to be released.
    pub(super) fn released(&self, token: i64, at: Instant) {
        let mut seen = self.seen();
        // After a loss, another client may hold it.
        if seen
            .holder
            .take_if(|holder| holder.token == token)
            .is_some()
        {
            seen.released = (seen.waiting > 0).then_some(at);
        }
    }

    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests fail by panicking")]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;

    /// Reports a grant that is held while the flag is set.
    fn grant(
        name: &Name,
        token: i64,
        held: &Arc<AtomicBool>,
        at: Instant,
    ) -> Result<Grant, Violation> {
        let held = Arc::clone(held);
        name.granted(token, move || held.load(Ordering::Relaxed), at)
    }

    fn flag() -> Arc<AtomicBool> {
        Arc::new(AtomicBool::new(true))
    }

    fn granted(name: &Name, token: i64, at: Instant) -> Result<Grant, Violation> {
        grant(name, token, &flag(), at)
    }

    const FIRST: Grant = Grant::Held { hand_off: None };

    #[test]
    fn a_second_holder_is_a_violation_unless_the_first_knows_of_its_loss() {
        let now = Instant::now();
        let name = Name::new("a");
        let first = flag();
        assert_eq!(grant(&name, 1, &first, now), Ok(FIRST));
        let violation = granted(&name, 2, now).unwrap_err().to_string();
        assert!(
            violation.contains("\"a\" was granted with token 2 while"),
            "{violation}"
        );
        first.store(false, Ordering::Relaxed);
        assert_eq!(granted(&name, 2, now), Ok(FIRST));
        // What the first still says about it is of no consequence.
        name.released(1, now);
        assert!(granted(&name, 3, now).is_err());
    }

    #[test]
    fn a_token_that_does_not_rise_is_a_violation() {
        let now = Instant::now();
        let name = Name::new("a");
        granted(&name, 7, now).unwrap();
        name.released(7, now);
        for token in [6, 7] {
            let violation = granted(&name, token, now).unwrap_err().to_string();
            assert!(violation.contains("did not rise"), "{violation}");
        }
        assert_eq!(granted(&name, 8, now), Ok(FIRST));
    }

    #[test]
    fn a_grant_that_was_lost_before_it_was_seen_proves_nothing() {
        let now = Instant::now();
        let name = Name::new("a");
        granted(&name, 9, now).unwrap();
        let late = flag();
        late.store(false, Ordering::Relaxed);
        assert_eq!(grant(&name, 8, &late, now), Ok(Grant::LostAlready));
    }

    #[test]
    fn a_hand_off_is_counted_where_somebody_was_waiting() {
        let start = Instant::now();
        let after = |millis| start + Duration::from_millis(millis);
        let name = Name::new("a");
        granted(&name, 1, start).unwrap();
        name.released(1, after(5));
        assert_eq!(granted(&name, 2, after(6)), Ok(FIRST));
        name.asked();
        name.released(2, after(10));
        let hand_off = Some(Duration::from_millis(2));
        assert_eq!(granted(&name, 3, after(12)), Ok(Grant::Held { hand_off }));
        name.answered();
        name.released(3, after(20));
        assert_eq!(granted(&name, 4, after(21)), Ok(FIRST));
    }
}

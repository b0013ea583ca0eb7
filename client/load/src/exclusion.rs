//! Check of every grant of one name for exclusion and rising tokens.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

/// One name, as its clients in this process know it.
pub struct Exclusion {
    name: Arc<str>,
    seen: Mutex<Seen>,
}

#[derive(Default)]
struct Seen {
    holder: Option<Holder>,
    newest: Option<i64>,
    waiting: usize,
    /// Time at which it was released while another client waited.
    released: Option<Instant>,
}

struct Holder {
    token: Option<i64>,
    is_held: Box<dyn Fn() -> bool + Send>,
}

/// Result of a grant.
#[derive(PartialEq, Eq, Debug)]
pub enum Grant {
    /// It is held.
    Held {
        /// The time since the release before it, if a client was waiting then.
        hand_off: Option<Duration>,
    },
    /// It was lost before it could be checked, so that others may have been granted since.
    LostAlready,
}

/// Grant that violates exclusion or the order of tokens.
#[derive(thiserror::Error, Clone, PartialEq, Eq, Debug)]
pub enum Violation {
    /// Somebody else still held the name.
    #[error(
        "exclusion was violated: lock {name:?} was granted{} while this process still held it{}",
        with(*token),
        with(*before)
    )]
    HeldTwice {
        /// The name.
        name: Arc<str>,
        /// The token of the grant, if the service has tokens.
        token: Option<i64>,
        /// The token of the hold.
        before: Option<i64>,
    },
    /// The token was not greater than every earlier one.
    #[error(
        "a fencing token did not rise: lock {name:?} was granted with token {token} after token {before}"
    )]
    TokenDidNotRise {
        /// The name.
        name: Arc<str>,
        /// The token of the grant.
        token: i64,
        /// The greatest token before.
        before: i64,
    },
}

fn with(token: Option<i64>) -> String {
    token.map_or_else(String::new, |token| format!(" with token {token}"))
}

impl Exclusion {
    /// Begins to check the grants of this name.
    pub fn new(name: impl Into<Arc<str>>) -> Self {
        Self {
            name: name.into(),
            seen: Mutex::default(),
        }
    }

    /// Returns the name.
    pub fn name(&self) -> &Arc<str> {
        &self.name
    }

    /// Notes a client that asks for it.
    pub fn asked(&self) {
        self.seen().waiting += 1;
    }

    /// Notes a client that was answered, or has gone.
    pub fn answered(&self) {
        let mut seen = self.seen();
        seen.waiting = seen.waiting.saturating_sub(1);
    }

    /// Checks a grant, with its fencing token if the service has tokens. Its holder calls this before anything else, and
    /// [`Exclusion::released`] before the release. `is_held` says whether the holder still believes in its hold.
    ///
    /// # Errors
    ///
    /// If somebody else holds the name, or the token is not greater than every earlier one.
    pub fn granted(
        &self,
        token: Option<i64>,
        is_held: impl Fn() -> bool + Send + 'static,
        at: Instant,
    ) -> Result<Grant, Violation> {
        let mut seen = self.seen();
        if !is_held() {
            return Ok(Grant::LostAlready);
        }
        let name = self.name.clone();
        if let Some(holder) = seen.holder.as_ref().filter(|holder| (holder.is_held)()) {
            let before = holder.token;
            return Err(Violation::HeldTwice {
                name,
                token,
                before,
            });
        }
        if let (Some(token), Some(before)) = (token, seen.newest)
            && token <= before
        {
            return Err(Violation::TokenDidNotRise {
                name,
                token,
                before,
            });
        }
        seen.newest = seen.newest.max(token);
        let is_held = Box::new(is_held);
        seen.holder = Some(Holder { token, is_held });
        let released = seen.released.take();
        Ok(Grant::Held {
            hand_off: released.map(|released| at.saturating_duration_since(released)),
        })
    }

    /// Notes that the hold with this token is about to be released.
    pub fn released(&self, token: Option<i64>, at: Instant) {
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
        name: &Exclusion,
        token: i64,
        held: &Arc<AtomicBool>,
        at: Instant,
    ) -> Result<Grant, Violation> {
        let held = Arc::clone(held);
        name.granted(Some(token), move || held.load(Ordering::Relaxed), at)
    }

    fn flag() -> Arc<AtomicBool> {
        Arc::new(AtomicBool::new(true))
    }

    fn granted(name: &Exclusion, token: i64, at: Instant) -> Result<Grant, Violation> {
        grant(name, token, &flag(), at)
    }

    const FIRST: Grant = Grant::Held { hand_off: None };

    #[test]
    fn a_second_holder_is_a_violation_unless_the_first_knows_of_its_loss() {
        let now = Instant::now();
        let name = Exclusion::new("a");
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
        name.released(Some(1), now);
        assert!(granted(&name, 3, now).is_err());
    }

    #[test]
    fn a_second_holder_without_a_token_is_a_violation_too() {
        let now = Instant::now();
        let name = Exclusion::new("a");
        let granted = || name.granted(None, || true, now);
        granted().unwrap();
        let violation = granted().unwrap_err().to_string();
        assert!(violation.contains("\"a\" was granted while"), "{violation}");
        name.released(None, now);
        assert_eq!(granted(), Ok(FIRST));
    }

    #[test]
    fn a_token_that_does_not_rise_is_a_violation() {
        let now = Instant::now();
        let name = Exclusion::new("a");
        granted(&name, 7, now).unwrap();
        name.released(Some(7), now);
        for token in [6, 7] {
            let violation = granted(&name, token, now).unwrap_err().to_string();
            assert!(violation.contains("did not rise"), "{violation}");
        }
        assert_eq!(granted(&name, 8, now), Ok(FIRST));
    }

    #[test]
    fn a_grant_that_was_lost_before_it_was_seen_proves_nothing() {
        let now = Instant::now();
        let name = Exclusion::new("a");
        granted(&name, 9, now).unwrap();
        let late = flag();
        late.store(false, Ordering::Relaxed);
        assert_eq!(grant(&name, 8, &late, now), Ok(Grant::LostAlready));
    }

    #[test]
    fn a_hand_off_is_counted_where_somebody_was_waiting() {
        let start = Instant::now();
        let after = |millis| start + Duration::from_millis(millis);
        let name = Exclusion::new("a");
        granted(&name, 1, start).unwrap();
        name.released(Some(1), after(5));
        assert_eq!(granted(&name, 2, after(6)), Ok(FIRST));
        name.asked();
        name.released(Some(2), after(10));
        let hand_off = Some(Duration::from_millis(2));
        assert_eq!(granted(&name, 3, after(12)), Ok(Grant::Held { hand_off }));
        name.answered();
        name.released(Some(3), after(20));
        assert_eq!(granted(&name, 4, after(21)), Ok(FIRST));
    }
}

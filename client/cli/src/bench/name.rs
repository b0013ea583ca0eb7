//! State of one measured name: checks every grant of it, and records the order of holders.

use std::{
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use leasehold_client::LockWatch;

/// Name, as this process knows it.
pub(super) struct Name<H = LockWatch> {
    text: Arc<str>,
    seen: Mutex<Seen<H>>,
}

struct Seen<H> {
    holder: Option<H>,
    newest: i64,
    waiting: usize,
    /// When it was released while another client waited.
    released: Option<Instant>,
}

/// Hold that is checked.
pub(super) trait Hold {
    fn token(&self) -> i64;
    fn is_held(&self) -> bool;
}

impl Hold for LockWatch {
    fn token(&self) -> i64 {
        self.fencing_token().get()
    }

    fn is_held(&self) -> bool {
        Self::is_held(self)
    }
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
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Violation {
    name: Arc<str>,
    token: i64,
    before: i64,
    kind: Kind,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    HeldTwice,
    TokenDidNotRise,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            name,
            token,
            before,
            kind,
        } = self;
        match kind {
            Kind::HeldTwice => write!(
                f,
                "exclusion was violated: lock {name:?} was granted with token {token} while this process still held \
                 it with token {before}"
            ),
            Kind::TokenDidNotRise => write!(
                f,
                "a fencing token did not rise: lock {name:?} was granted with token {token} after token {before}"
            ),
        }
    }
}

impl<H: Hold> Name<H> {
    pub(super) fn new(text: impl Into<Arc<str>>) -> Self {
        Self {
            text: text.into(),
            seen: Mutex::new(Seen {
                holder: None,
                newest: 0,
                waiting: 0,
                released: None,
            }),
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
    pub(super) fn granted(&self, hold: H, at: Instant) -> Result<Grant, Violation> {
        let mut seen = self.seen();
        if !hold.is_held() {
            return Ok(Grant::LostAlready);
        }
        let token = hold.token();
        let violated = |kind, before| {
            Err(Violation {
                name: Arc::clone(&self.text),
                token,
                before,
                kind,
            })
        };
        if let Some(holder) = seen.holder.as_ref().filter(|holder| holder.is_held()) {
            return violated(Kind::HeldTwice, holder.token());
        }
        if token <= seen.newest {
            return violated(Kind::TokenDidNotRise, seen.newest);
        }
        seen.newest = token;
        seen.holder = Some(hold);
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
            .as_ref()
            .is_some_and(|hold| hold.token() == token)
        {
            seen.holder = None;
            seen.released = (seen.waiting > 0).then_some(at);
        }
    }

    fn seen(&self) -> MutexGuard<'_, Seen<H>> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests fail by panicking")]
mod tests {
    use std::{cell::Cell, rc::Rc};

    use super::*;

    #[derive(Clone)]
    struct Fake {
        token: i64,
        held: Rc<Cell<bool>>,
    }

    impl Hold for Fake {
        fn token(&self) -> i64 {
            self.token
        }

        fn is_held(&self) -> bool {
            self.held.get()
        }
    }

    fn hold(token: i64) -> Fake {
        Fake {
            token,
            held: Rc::new(Cell::new(true)),
        }
    }

    const FIRST: Grant = Grant::Held { hand_off: None };

    #[test]
    fn a_second_holder_is_a_violation_unless_the_first_knows_of_its_loss() {
        let now = Instant::now();
        let name = Name::new("a");
        let first = hold(1);
        assert_eq!(name.granted(first.clone(), now), Ok(FIRST));
        let violation = name.granted(hold(2), now).unwrap_err().to_string();
        assert!(
            violation.contains("\"a\" was granted with token 2 while"),
            "{violation}"
        );
        first.held.set(false);
        assert_eq!(name.granted(hold(2), now), Ok(FIRST));
        // What the first still says about it is of no consequence.
        name.released(1, now);
        assert!(name.granted(hold(3), now).is_err());
    }

    #[test]
    fn a_token_that_does_not_rise_is_a_violation() {
        let now = Instant::now();
        let name = Name::new("a");
        name.granted(hold(7), now).unwrap();
        name.released(7, now);
        for token in [6, 7] {
            let violation = name.granted(hold(token), now).unwrap_err().to_string();
            assert!(violation.contains("did not rise"), "{violation}");
        }
        assert_eq!(name.granted(hold(8), now), Ok(FIRST));
    }

    #[test]
    fn a_grant_that_was_lost_before_it_was_seen_proves_nothing() {
        let now = Instant::now();
        let name = Name::new("a");
        name.granted(hold(9), now).unwrap();
        let late = hold(8);
        late.held.set(false);
        assert_eq!(name.granted(late, now), Ok(Grant::LostAlready));
    }

    #[test]
    fn a_hand_off_is_counted_where_somebody_was_waiting() {
        let start = Instant::now();
        let after = |millis| start + Duration::from_millis(millis);
        let name = Name::new("a");
        name.granted(hold(1), start).unwrap();
        name.released(1, after(5));
        assert_eq!(name.granted(hold(2), after(6)), Ok(FIRST));
        name.asked();
        name.released(2, after(10));
        let hand_off = Some(Duration::from_millis(2));
        assert_eq!(
            name.granted(hold(3), after(12)),
            Ok(Grant::Held { hand_off })
        );
        name.answered();
        name.released(3, after(20));
        assert_eq!(name.granted(hold(4), after(21)), Ok(FIRST));
    }
}

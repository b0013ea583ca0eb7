//! Schedule of the moves that a session makes only if it can: to newer credentials, and because a coordinator that goes on
//! serving asks it to. Without another stream to have, the present one goes on.

use std::time::Duration;

use crate::clock::Moment;

/// Pause before the session tries again, if no coordinator had a stream for it.
const AGAIN: Duration = Duration::from_secs(10);

/// Stage of such a move from a stream.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub(super) enum OptionalMove {
    /// There is no reason for one.
    #[default]
    Unwanted,
    /// It begins then.
    Planned(Moment),
    /// The session looks for another stream, or has one that it moves to.
    Due,
}

impl OptionalMove {
    /// Plans a move for this time. One that is planned already stays as it is, so that a pause is kept.
    pub(super) fn plan(&mut self, at: Moment) {
        if *self == Self::Unwanted {
            *self = Self::Planned(at);
        }
    }

    /// Begins the move if it is time.
    pub(super) fn tick(&mut self, now: Moment) {
        if self.alarm().is_some_and(|at| at <= now) {
            *self = Self::Due;
        }
    }

    /// Notes that there is no other stream to have at present.
    pub(super) fn failed(&mut self, now: Moment) {
        if self.is_due() {
            *self = Self::Planned(now.after(AGAIN));
        }
    }

    pub(super) fn is_due(self) -> bool {
        self == Self::Due
    }

    pub(super) fn alarm(self) -> Option<Moment> {
        match self {
            Self::Planned(at) => Some(at),
            Self::Unwanted | Self::Due => None,
        }
    }
}

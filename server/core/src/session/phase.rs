//! Phase of a session, and what is known in each.

use super::{RequestId, resuming::Resuming};
use crate::time::Moment;

/// Phase of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Phase {
    /// It takes over what another stream had, and is not open yet.
    Resuming,
    /// It takes requests.
    Open,
    /// It has no stream, and is kept for a resume.
    Detached,
    /// It gives everything back.
    Closing,
    /// It has no stream, and leaves its locks until what its client was promised has passed.
    Lingering,
    /// It is over.
    Ended,
}

/// Phase of a session, with the data that is valid in it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum State {
    /// It takes over what another stream had, and is not open yet.
    Resuming(Box<Resuming>),
    Open,
    /// It has no stream: its waiters wait, and what they are granted is kept, for its client to resume it elsewhere. Nothing is
    /// renewed; its keys are set to expire when the grace is over, as its client believes in them no longer than that.
    Detached {
        until: Moment,
        /// Time at which to set the keys; `None` if they are set.
        shorten_at: Option<Moment>,
    },
    /// It gives everything back, until that is done or the time is over, and then answers this request. Without one, an operator
    /// has ended it.
    Closing {
        request: Option<RequestId>,
        until: Moment,
    },
    /// It could not be opened. The client may resume elsewhere what this may have come to: that is left until then.
    NotOpened {
        until: Moment,
        resuming: Box<Resuming>,
    },
    /// Its client may still believe in its locks: they are left until what it was promised has passed.
    Lingering {
        until: Moment,
    },
    Ended,
}

impl State {
    /// Returns the phase.
    pub(super) fn phase(&self) -> Phase {
        match self {
            Self::Resuming(_) => Phase::Resuming,
            Self::Open => Phase::Open,
            Self::Detached { .. } => Phase::Detached,
            Self::Closing { .. } => Phase::Closing,
            Self::NotOpened { .. } | Self::Lingering { .. } => Phase::Lingering,
            Self::Ended => Phase::Ended,
        }
    }
}

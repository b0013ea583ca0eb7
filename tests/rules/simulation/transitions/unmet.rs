//! Events that a machine never or seldom meets in a state, with the reasons.

use super::names::Machine;

/// Events that a machine does not meet in these states, or seldom, and the reason. Commas divide them.
pub(super) struct Unmet {
    pub(super) of: Machine,
    pub(super) states: &'static str,
    pub(super) events: &'static str,
    pub(super) why: Why,
}

/// Reason for which an event is not met.
pub(super) enum Why {
    /// It can't be.
    Never(&'static str),
    /// It may be, but few worlds have it.
    Seldom(&'static str),
}

pub(super) const UNMET: &[Unmet] = &[
    Unmet {
        of: Machine::Session,
        states: "closing, detached, lingering, resuming",
        events: "acquire, cancel, release, set value, downgrade, reduce, heartbeat, close",
        why: Why::Never("a driver reads requests only while the session is open"),
    },
    Unmet {
        of: Machine::Session,
        states: "detached, resuming",
        events: "cut",
        why: Why::Never("a driver reads no stream that resumes, and a detached session has none"),
    },
    Unmet {
        of: Machine::Session,
        states: "resuming",
        events: "peer ended",
        why: Why::Never("a driver reads no stream that resumes"),
    },
    Unmet {
        of: Machine::Session,
        states: "closing, detached, lingering, resuming",
        events: "other limit",
        why: Why::Seldom("it has to cross the end of the stream"),
    },
    Unmet {
        of: Machine::Session,
        states: "closing",
        events: "ended by operator",
        why: Why::Seldom("it has to cross `close`"),
    },
    Unmet {
        of: Machine::Session,
        states: "lingering",
        events: "forced out",
        why: Why::Seldom("it has to cross the end of the stream"),
    },
    Unmet {
        of: Machine::Session,
        states: "open",
        events: "other limit",
        why: Why::Seldom(
            "a limit has to be lowered while an acquire waits whose place is then lost",
        ),
    },
    Unmet {
        of: Machine::Client,
        states: "closing, deaf, none, open, stopped, to be left, to be left + connected",
        events: "opened",
        why: Why::Never("no stream is asked to open"),
    },
    Unmet {
        of: Machine::Client,
        states: "closing",
        events: "ended plainly",
        why: Why::Never("the coordinator says so only when it is not heard any more"),
    },
    Unmet {
        of: Machine::Client,
        states: "deaf, deaf + asked, none, none + asked, open, stopped, stopped + asked, to be left, to be left + connected, withheld + asked",
        events: "closed, ended plainly",
        why: Why::Never(
            "the coordinator says so only after `close`, or when it is not heard any more",
        ),
    },
    Unmet {
        of: Machine::Client,
        states: "closing, deaf + asked, none + asked, open, stopped + asked, to be left + connected, withheld + asked",
        events: "connected, connect failed",
        why: Why::Never("a driver connects only if the machine wants another stream"),
    },
    Unmet {
        of: Machine::Client,
        states: "none, none + asked, stopped, stopped + asked",
        events: "queued, granted, not granted, released, changed, error, heartbeat answered, lost, draining, asked to move, asked to release",
        why: Why::Never("there is no stream on which anything else could be said"),
    },
    Unmet {
        of: Machine::Client,
        states: "none, stopped",
        events: "ended with a status, broke",
        why: Why::Never("there is no stream"),
    },
    Unmet {
        of: Machine::Client,
        states: "closing",
        events: "queued, granted, released, changed, lost, draining, asked to move, asked to release",
        why: Why::Seldom("it has to cross `close`"),
    },
    Unmet {
        of: Machine::Client,
        states: "to be left + connected",
        events: "draining, asked to move",
        why: Why::Seldom("it has to come while the session waits for an answer"),
    },
    Unmet {
        of: Machine::Client,
        states: "closing",
        events: "release, change",
        why: Why::Seldom("it takes a guard whose grant has crossed `close`"),
    },
];

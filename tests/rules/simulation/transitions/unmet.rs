//! Events that a machine never or seldom meets in a state, with the reasons.

use super::names::{Machine, State};

/// Events that a machine does not meet in a state, or seldom, and the reason.
pub(super) struct Unmet {
    pub(super) of: Machine,
    pub(super) state: State,
    pub(super) events: &'static [&'static str],
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
        state: ("closing", ""),
        events: &[
            "acquire",
            "cancel",
            "release",
            "set value",
            "downgrade",
            "reduce",
            "heartbeat",
            "close",
        ],
        why: Why::Never("a driver reads requests only while the session is open"),
    },
    Unmet {
        of: Machine::Session,
        state: ("closing", ""),
        events: &["other limit"],
        why: Why::Seldom("it has to cross the end of the stream"),
    },
    Unmet {
        of: Machine::Session,
        state: ("detached", ""),
        events: &[
            "acquire",
            "cancel",
            "release",
            "set value",
            "downgrade",
            "reduce",
            "heartbeat",
            "close",
        ],
        why: Why::Never("a driver reads requests only while the session is open"),
    },
    Unmet {
        of: Machine::Session,
        state: ("detached", ""),
        events: &["other limit"],
        why: Why::Seldom("it has to cross the end of the stream"),
    },
    Unmet {
        of: Machine::Session,
        state: ("detached", ""),
        events: &["cut"],
        why: Why::Never("a driver reads no stream that resumes, and a detached session has none"),
    },
    Unmet {
        of: Machine::Session,
        state: ("lingering", ""),
        events: &[
            "acquire",
            "cancel",
            "release",
            "set value",
            "downgrade",
            "reduce",
            "heartbeat",
            "close",
        ],
        why: Why::Never("a driver reads requests only while the session is open"),
    },
    Unmet {
        of: Machine::Session,
        state: ("lingering", ""),
        events: &["forced out", "other limit"],
        why: Why::Seldom("it has to cross the end of the stream"),
    },
    Unmet {
        of: Machine::Session,
        state: ("resuming", ""),
        events: &[
            "acquire",
            "cancel",
            "release",
            "set value",
            "downgrade",
            "reduce",
            "heartbeat",
            "close",
        ],
        why: Why::Never("a driver reads requests only while the session is open"),
    },
    Unmet {
        of: Machine::Session,
        state: ("open", ""),
        events: &["other limit"],
        why: Why::Seldom(
            "a limit has to be lowered while an acquire waits whose place is then lost",
        ),
    },
    Unmet {
        of: Machine::Session,
        state: ("resuming", ""),
        events: &["other limit"],
        why: Why::Seldom("it has to cross the end of the stream"),
    },
    Unmet {
        of: Machine::Session,
        state: ("resuming", ""),
        events: &["peer ended", "cut"],
        why: Why::Never("a driver reads no stream that resumes, and a detached session has none"),
    },
    Unmet {
        of: Machine::Client,
        state: ("closing", ""),
        events: &["opened"],
        why: Why::Never("no stream is asked to open"),
    },
    Unmet {
        of: Machine::Client,
        state: ("closing", ""),
        events: &[
            "queued",
            "granted",
            "released",
            "changed",
            "lost",
            "draining",
            "asked to release",
        ],
        why: Why::Seldom("it has to cross `close`"),
    },
    Unmet {
        of: Machine::Client,
        state: ("closing", ""),
        events: &["release", "change"],
        why: Why::Seldom("it takes a guard whose grant has crossed `close`"),
    },
    Unmet {
        of: Machine::Client,
        state: ("closing", ""),
        events: &["ended plainly"],
        why: Why::Never(
            "the coordinator says so only after `close`, or when it is not heard any more",
        ),
    },
    Unmet {
        of: Machine::Client,
        state: ("closing", ""),
        events: &["connected", "connect failed"],
        why: Why::Never("a driver connects only if the machine wants another stream"),
    },
    Unmet {
        of: Machine::Client,
        state: ("deaf", ""),
        events: &["opened"],
        why: Why::Never("no stream is asked to open"),
    },
    Unmet {
        of: Machine::Client,
        state: ("deaf", ""),
        events: &["closed", "ended plainly"],
        why: Why::Never(
            "the coordinator says so only after `close`, or when it is not heard any more",
        ),
    },
    Unmet {
        of: Machine::Client,
        state: ("deaf", "asked"),
        events: &["closed", "ended plainly"],
        why: Why::Never(
            "the coordinator says so only after `close`, or when it is not heard any more",
        ),
    },
    Unmet {
        of: Machine::Client,
        state: ("deaf", "asked"),
        events: &["connected", "connect failed"],
        why: Why::Never("a driver connects only if the machine wants another stream"),
    },
    Unmet {
        of: Machine::Client,
        state: ("none", ""),
        events: &["opened"],
        why: Why::Never("no stream is asked to open"),
    },
    Unmet {
        of: Machine::Client,
        state: ("none", ""),
        events: &[
            "queued",
            "granted",
            "not granted",
            "released",
            "changed",
            "error",
            "heartbeat answered",
            "lost",
            "draining",
            "asked to release",
            "ended with a status",
            "broke",
        ],
        why: Why::Never("there is no stream on which anything else could be said"),
    },
    Unmet {
        of: Machine::Client,
        state: ("none", ""),
        events: &["closed", "ended plainly"],
        why: Why::Never(
            "the coordinator says so only after `close`, or when it is not heard any more",
        ),
    },
    Unmet {
        of: Machine::Client,
        state: ("none", "asked"),
        events: &[
            "queued",
            "granted",
            "not granted",
            "released",
            "changed",
            "error",
            "heartbeat answered",
            "lost",
            "draining",
            "asked to release",
        ],
        why: Why::Never("there is no stream on which anything else could be said"),
    },
    Unmet {
        of: Machine::Client,
        state: ("none", "asked"),
        events: &["closed", "ended plainly"],
        why: Why::Never(
            "the coordinator says so only after `close`, or when it is not heard any more",
        ),
    },
    Unmet {
        of: Machine::Client,
        state: ("none", "asked"),
        events: &["connected", "connect failed"],
        why: Why::Never("a driver connects only if the machine wants another stream"),
    },
    Unmet {
        of: Machine::Client,
        state: ("open", ""),
        events: &["opened"],
        why: Why::Never("no stream is asked to open"),
    },
    Unmet {
        of: Machine::Client,
        state: ("open", ""),
        events: &["closed", "ended plainly"],
        why: Why::Never(
            "the coordinator says so only after `close`, or when it is not heard any more",
        ),
    },
    Unmet {
        of: Machine::Client,
        state: ("open", ""),
        events: &["connected", "connect failed"],
        why: Why::Never("a driver connects only if the machine wants another stream"),
    },
    Unmet {
        of: Machine::Client,
        state: ("stopped", ""),
        events: &["opened"],
        why: Why::Never("no stream is asked to open"),
    },
    Unmet {
        of: Machine::Client,
        state: ("stopped", ""),
        events: &[
            "queued",
            "granted",
            "not granted",
            "released",
            "changed",
            "error",
            "heartbeat answered",
            "lost",
            "draining",
            "asked to release",
            "ended with a status",
            "broke",
        ],
        why: Why::Never("there is no stream on which anything else could be said"),
    },
    Unmet {
        of: Machine::Client,
        state: ("stopped", ""),
        events: &["closed", "ended plainly"],
        why: Why::Never(
            "the coordinator says so only after `close`, or when it is not heard any more",
        ),
    },
    Unmet {
        of: Machine::Client,
        state: ("stopped", "asked"),
        events: &[
            "queued",
            "granted",
            "not granted",
            "released",
            "changed",
            "error",
            "heartbeat answered",
            "lost",
            "draining",
            "asked to release",
        ],
        why: Why::Never("there is no stream on which anything else could be said"),
    },
    Unmet {
        of: Machine::Client,
        state: ("stopped", "asked"),
        events: &["closed", "ended plainly"],
        why: Why::Never(
            "the coordinator says so only after `close`, or when it is not heard any more",
        ),
    },
    Unmet {
        of: Machine::Client,
        state: ("stopped", "asked"),
        events: &["connected", "connect failed"],
        why: Why::Never("a driver connects only if the machine wants another stream"),
    },
    Unmet {
        of: Machine::Client,
        state: ("to be left", ""),
        events: &["opened"],
        why: Why::Never("no stream is asked to open"),
    },
    Unmet {
        of: Machine::Client,
        state: ("to be left", ""),
        events: &["closed", "ended plainly"],
        why: Why::Never(
            "the coordinator says so only after `close`, or when it is not heard any more",
        ),
    },
    Unmet {
        of: Machine::Client,
        state: ("to be left", "connected"),
        events: &["opened"],
        why: Why::Never("no stream is asked to open"),
    },
    Unmet {
        of: Machine::Client,
        state: ("to be left", "connected"),
        events: &["draining"],
        why: Why::Seldom("it has to cross `close`"),
    },
    Unmet {
        of: Machine::Client,
        state: ("to be left", "connected"),
        events: &["closed", "ended plainly"],
        why: Why::Never(
            "the coordinator says so only after `close`, or when it is not heard any more",
        ),
    },
    Unmet {
        of: Machine::Client,
        state: ("to be left", "connected"),
        events: &["connected", "connect failed"],
        why: Why::Never("a driver connects only if the machine wants another stream"),
    },
    Unmet {
        of: Machine::Client,
        state: ("withheld", "asked"),
        events: &["closed", "ended plainly"],
        why: Why::Never(
            "the coordinator says so only after `close`, or when it is not heard any more",
        ),
    },
    Unmet {
        of: Machine::Client,
        state: ("withheld", "asked"),
        events: &["connected", "connect failed"],
        why: Why::Never("a driver connects only if the machine wants another stream"),
    },
];

//! Transitions of the machines that were taken: state before, event, and state after, by their names.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

use leasehold_client::simulation::StreamEnd as ClientEnd;
use leasehold_core::session::{Input, Phase, RegistryEvent, Request, StreamEnd};
use leasehold_proto::v1::{SessionResponse, session_response::Response};

/// A machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Machine {
    /// That of a session at a coordinator.
    Session,
    /// That of a client.
    Client,
}

/// Events that a machine does not meet in a state, or seldom, and the reason.
struct Unmet {
    of: Machine,
    state: State,
    events: &'static [&'static str],
    why: Why,
}

/// Reason for which an event is not met.
enum Why {
    /// It can't be.
    Never(&'static str),
    /// It may be, but few worlds have it.
    Seldom(&'static str),
}

const UNMET: &[Unmet] = &[
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

/// Name of a state: of two parts, of which the second may be empty.
pub(crate) type State = (&'static str, &'static str);

/// The transitions, each with the number of times that it was taken.
#[derive(Clone, Default, PartialEq, Eq)]
pub(crate) struct Transitions(BTreeMap<(Machine, State, &'static str, State), u64>);

impl fmt::Debug for Transitions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} different ones", self.0.len())
    }
}

impl Transitions {
    pub(crate) fn note(&mut self, of: Machine, before: State, event: &'static str, after: State) {
        *self.0.entry((of, before, event, after)).or_default() += 1;
    }

    pub(crate) fn add(&mut self, other: &Self) {
        for (transition, times) in &other.0 {
            *self.0.entry(*transition).or_default() += times;
        }
    }

    /// Prints them, and what is not met.
    pub(crate) fn print(&self) {
        for it in UNMET {
            let (how, why) = match it.why {
                Why::Never(why) => ("never", why),
                Why::Seldom(why) => ("seldom", why),
            };
            eprintln!(
                "{:?}: {} {} -- {} {:?}: {}",
                it.of, it.state.0, it.state.1, how, it.events, why
            );
        }
        for ((of, before, event, after), times) in &self.0 {
            let ((before, next), (after, then)) = (before, after);
            eprintln!("{of:?}: {before} {next} -- {event} -> {after} {then}: {times}");
        }
    }

    /// Fails if a machine did not meet an event in a state, unless that is listed, or met one that can't be met.
    pub(crate) fn check(&self) {
        let taken: BTreeSet<_> = self
            .0
            .keys()
            .map(|(of, state, event, _)| (*of, *state, *event))
            .collect();
        let mut wrong = Vec::new();
        for (of, events) in [(Machine::Session, SESSION), (Machine::Client, CLIENT)] {
            let states: BTreeSet<State> = taken
                .iter()
                .filter(|key| key.0 == of)
                .map(|key| key.1)
                .collect();
            for (state, event) in states
                .iter()
                .flat_map(|state| events.iter().map(move |event| (*state, *event)))
            {
                let mut listed = UNMET.iter();
                let listed = listed
                    .find(|it| it.of == of && it.state == state && it.events.contains(&event));
                let is_taken = taken.contains(&(of, state, event));
                let is_right = match listed.map(|it| &it.why) {
                    None => is_taken,
                    Some(Why::Never(_)) => !is_taken,
                    Some(Why::Seldom(_)) => true,
                };
                if !is_right {
                    wrong.push((of, state, event));
                }
            }
        }
        assert!(
            wrong.is_empty(),
            "not taken, or taken though that can't be: {wrong:#?}"
        );
    }
}

/// The events of a session.
const SESSION: &[&str] = &[
    "acquire",
    "cancel",
    "release",
    "set value",
    "downgrade",
    "reduce",
    "heartbeat",
    "close",
    "answer",
    "failure",
    "granted",
    "place moved",
    "hold lost",
    "forced out",
    "other limit",
    "asked to release",
    "peer ended",
    "cut",
    "store up",
    "store down",
    "draining",
    "stopping",
    "ended by operator",
    "time",
    "rights",
];

/// The events of a client.
const CLIENT: &[&str] = &[
    "opened",
    "queued",
    "granted",
    "not granted",
    "released",
    "changed",
    "error",
    "heartbeat answered",
    "lost",
    "draining",
    "closed",
    "asked to release",
    "ended plainly",
    "ended with a status",
    "broke",
    "connected",
    "connect failed",
    "time",
    "acquire",
    "cancel",
    "release",
    "change",
];

/// Returns the name of what happens to a session.
pub(crate) fn input(input: &Input) -> &'static str {
    match input {
        Input::Request(_, request) => match request {
            Request::Acquire(_) => "acquire",
            Request::Cancel(_) => "cancel",
            Request::Release { .. } => "release",
            Request::SetValue { .. } => "set value",
            Request::Downgrade { .. } => "downgrade",
            Request::Reduce { .. } => "reduce",
            Request::Heartbeat { .. } => "heartbeat",
            Request::Close(_) => "close",
        },
        Input::StoreReply(_, Ok(_)) => "answer",
        Input::StoreReply(_, Err(_)) => "failure",
        Input::Registry(_, event) => match event {
            RegistryEvent::Granted { .. } => "granted",
            RegistryEvent::GrantFailed(_) => "grant failed",
            RegistryEvent::OtherLimit(_) => "other limit",
            RegistryEvent::Moved => "place moved",
            RegistryEvent::Lost(_) => "hold lost",
            RegistryEvent::ForcedOut => "forced out",
            RegistryEvent::Deadlocked(_) => "deadlocked",
        },
        Input::ReleaseRequested(..) => "asked to release",
        Input::StreamEnded(StreamEnd::ByPeer) => "peer ended",
        Input::StreamEnded(StreamEnd::Cut) => "cut",
        Input::StoreUp(true) => "store up",
        Input::StoreUp(false) => "store down",
        Input::Writable(_) => "writable",
        Input::Draining(_) => "draining",
        Input::Stopping => "stopping",
        Input::EndedByOperator => "ended by operator",
    }
}

/// Returns the name of a session's state.
pub(crate) fn phase(phase: Phase) -> State {
    let name = match phase {
        Phase::Resuming => "resuming",
        Phase::Open => "open",
        Phase::Detached => "detached",
        Phase::Closing => "closing",
        Phase::Lingering => "lingering",
        Phase::Ended => "ended",
    };
    (name, "")
}

/// Returns the name of what a client hears.
pub(crate) fn message(message: &SessionResponse) -> &'static str {
    match message.response {
        Some(Response::Opened(_)) => "opened",
        Some(Response::Queued(_)) => "queued",
        Some(Response::Granted(_)) => "granted",
        Some(Response::NotGranted(_)) => "not granted",
        Some(Response::Released(_)) => "released",
        Some(Response::ValueSet(_) | Response::Downgraded(_) | Response::Reduced(_)) => "changed",
        Some(Response::Error(_)) => "error",
        Some(Response::Heartbeat(_)) => "heartbeat answered",
        Some(Response::Lost(_)) => "lost",
        Some(Response::Draining(_)) => "draining",
        Some(Response::Closed(_)) => "closed",
        Some(Response::ReleaseRequested(_)) => "asked to release",
        None => "nothing",
    }
}

/// Returns the name of a stream's end.
pub(crate) fn end(end: &ClientEnd) -> &'static str {
    match end {
        ClientEnd::Plain => "ended plainly",
        ClientEnd::Status(_) => "ended with a status",
        ClientEnd::Broken => "broke",
    }
}

//! Names of the machines' states and events.

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

/// Name of a state: of two parts, of which the second may be empty.
pub(super) type State = (&'static str, &'static str);

/// Returns a state's name as lists have it.
pub(super) fn shown((name, next): State) -> String {
    match next {
        "" => name.to_owned(),
        next => format!("{name} + {next}"),
    }
}

/// The events of a session, between commas.
pub(super) const SESSION: &str = "\
    acquire, cancel, release, set value, downgrade, reduce, heartbeat, close, answer, failure, \
    granted, place moved, hold lost, forced out, other limit, asked to release, peer ended, cut, \
    store up, store down, draining, stopping, ended by operator, time, rights";

/// The events of a client, between commas.
pub(super) const CLIENT: &str = "\
    opened, queued, granted, not granted, released, changed, error, heartbeat answered, lost, \
    draining, asked to move, closed, asked to release, ended plainly, ended with a status, broke, connected, \
    connect failed, time, acquire, cancel, release, change";

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
    match &message.response {
        Some(Response::Opened(_)) => "opened",
        Some(Response::Queued(_)) => "queued",
        Some(Response::Granted(_)) => "granted",
        Some(Response::NotGranted(_)) => "not granted",
        Some(Response::Released(_)) => "released",
        Some(Response::ValueSet(_) | Response::Downgraded(_) | Response::Reduced(_)) => "changed",
        Some(Response::Error(_)) => "error",
        Some(Response::Heartbeat(_)) => "heartbeat answered",
        Some(Response::Lost(_)) => "lost",
        Some(Response::Draining(draining)) if draining.keeps_serving => "asked to move",
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

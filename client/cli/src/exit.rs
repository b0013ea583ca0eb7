//! Exit codes, which are part of the interface, and the mapping of errors to them.

use std::{error::Error as StdError, process::ExitCode, sync::Arc};

use leasehold_client::{AcquireError, ConnectError, Endpoints, Failure, FailureKind};

use crate::{say::say, show};

/// Exit status of the tool. The numbers are those of `sysexits.h` where it has one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Exit {
    Success,
    /// Another error.
    Failure,
    /// Some coordinators serve, and some do not.
    SomeServe,
    /// The election has no leader.
    NobodyLeads,
    /// Invalid command line, or input that the coordinator refuses.
    Usage,
    /// No coordinator is reachable, or it does not serve now.
    Unavailable,
    /// The lock, or the leadership, was lost while the command ran.
    LockLost,
    /// The lock was not granted.
    NotGranted,
    /// A measurement saw two holders of one lock, or a fencing token that did not rise.
    Violation,
    /// Unknown identity or missing permission; or one side does not trust the other's certificate.
    NotAllowed,
    /// The command could not be executed.
    NotExecutable,
    /// The command was not found.
    NotFound,
    /// The command ended with this code.
    Command(u8),
    /// The command, or the tool itself, was ended by this signal.
    Signal(i32),
}

/// Result of every subcommand.
pub(crate) type Outcome = anyhow::Result<Exit>;

/// A mistake on the command line that only the command itself notices.
#[derive(thiserror::Error, Debug)]
#[error("{0}")]
pub(crate) struct Mistake(pub(crate) String);

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(match exit {
            Exit::Success => 0,
            Exit::Failure => 1,
            Exit::SomeServe => 3,
            Exit::NobodyLeads => 4,
            Exit::Usage => 64,
            Exit::Unavailable => 69,
            Exit::LockLost => 70,
            Exit::NotGranted => 75,
            Exit::Violation => 76,
            Exit::NotAllowed => 77,
            Exit::NotExecutable => 126,
            Exit::NotFound => 127,
            Exit::Command(code) => code,
            Exit::Signal(signal) => u8::try_from(128 + signal).unwrap_or(u8::MAX),
        })
    }
}

/// Reports an error on standard error, with its causes: in words, or as a JSON document.
pub(crate) fn report(error: &anyhow::Error, as_json: bool) {
    if as_json {
        show::error::Error::new(error).print();
    } else {
        say(explained(error));
    }
}

/// Reports an error of the coordinators at these endpoints, and names them: in words, or as a JSON document.
pub(crate) fn report_at(endpoints: &Endpoints, error: &anyhow::Error, as_json: bool) {
    if as_json {
        return show::error::Error::at(endpoints, error).print();
    }
    let mut message = explained(error);
    let mut urls = endpoints.urls().iter();
    if is_of_coordinator(error) && !urls.any(|url| message.contains(url)) {
        let failure = error.chain().find_map(|cause| cause.downcast_ref());
        let asked = failure.and_then(Failure::endpoint);
        let at = asked.unwrap_or(endpoints.as_str());
        message = format!("{message} (coordinator: {at})");
    }
    say(message);
}

/// Returns an error with its causes, in words.
pub(crate) fn explained(error: &anyhow::Error) -> String {
    let mut message = String::new();
    for cause in error.chain() {
        let words = cause.to_string();
        if message.is_empty() {
            message = words;
        } else if !message.contains(&words) {
            message = format!("{message}: {words}");
        }
        if tells_all(cause) {
            break;
        }
    }
    message
}

/// Returns whether this cause's message is complete, so that the causes below it can be left out: the layers of a transport
/// repeat each other.
fn tells_all(cause: &(dyn StdError + 'static)) -> bool {
    use ConnectError::{Mismatch, Tls, Unreachable};
    let shared: Option<&Arc<ConnectError>> = cause.downcast_ref();
    let error = shared.map(|shared| &**shared).or(cause.downcast_ref());
    let connecting = matches!(
        error,
        Some(Tls { .. } | Mismatch { .. } | Unreachable { .. })
    );
    connecting || cause.is::<Failure>()
}

/// Returns whether the error comes from a coordinator, or from the way to it.
pub(crate) fn is_of_coordinator(error: &anyhow::Error) -> bool {
    match (error.downcast_ref(), connect_error(error)) {
        (Some(error), _) => !is_outcome(error),
        (None, Some(ConnectError::InvalidEndpoint { .. } | ConnectError::Credentials(_))) => false,
        (None, Some(_)) => true,
        (None, None) => error.is::<Failure>(),
    }
}

/// Returns whether the coordinator served the request and did not grant the lock.
pub(crate) fn is_outcome(error: &AcquireError) -> bool {
    use AcquireError::{Busy, Deadlock, TimedOut};
    matches!(error, Busy { .. } | TimedOut { .. } | Deadlock { .. })
}

/// Returns why there is no connection, if that is the error.
pub(crate) fn connect_error(error: &anyhow::Error) -> Option<&ConnectError> {
    match error.downcast_ref() {
        Some(AcquireError::Unavailable { source, .. }) => source.as_deref(),
        _ => error.downcast_ref(),
    }
}

/// Returns the coordinator's answer, if the error is one.
pub(crate) fn failure_in(error: &anyhow::Error) -> Option<&Failure> {
    match (connect_error(error), error.downcast_ref::<AcquireError>()) {
        (Some(connecting), _) => connecting.failure(),
        (None, Some(acquiring)) => acquiring.failure(),
        (None, None) => error.downcast_ref(),
    }
}

/// Returns the exit code of an error.
pub(crate) fn code(error: &anyhow::Error) -> Exit {
    let acquiring = error.downcast_ref();
    match (acquiring, connect_error(error)) {
        (Some(acquiring), _) if is_outcome(acquiring) => Exit::NotGranted,
        (Some(AcquireError::LimitMismatch { .. }), _) => Exit::Usage,
        (_, Some(ConnectError::InvalidEndpoint { .. } | ConnectError::Credentials(_))) => {
            Exit::Usage
        }
        (_, Some(ConnectError::Tls { .. })) => Exit::NotAllowed,
        (None, None) if error.is::<Mistake>() => Exit::Usage,
        (None, None) => failure_in(error).map_or(Exit::Failure, failure),
        _ => failure_in(error).map_or(Exit::Unavailable, failure),
    }
}

/// Returns the exit code of a coordinator's answer.
pub(crate) fn failure(failure: &Failure) -> Exit {
    match failure.kind() {
        FailureKind::InvalidArgument => Exit::Usage,
        FailureKind::Unauthenticated | FailureKind::PermissionDenied => Exit::NotAllowed,
        _ if failure.is_tls() => Exit::NotAllowed,
        _ if failure.is_mismatch() || failure.is_retryable() => Exit::Unavailable,
        _ => Exit::Failure,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_have_the_documented_codes() {
        let name = || "a".into();
        let refused = |kind| AcquireError::Refused {
            name: name(),
            source: Failure::new(kind, "", ""),
        };
        for (error, expected) in [
            (
                AcquireError::Busy {
                    name: name(),
                    holder: None,
                },
                Exit::NotGranted,
            ),
            (
                AcquireError::Deadlock {
                    name: name(),
                    source: Failure::new(FailureKind::Aborted, "DEADLOCK", ""),
                },
                Exit::NotGranted,
            ),
            (
                AcquireError::LimitMismatch {
                    name: name(),
                    limit: 2,
                    source: Failure::new(FailureKind::FailedPrecondition, "LIMIT_MISMATCH", ""),
                },
                Exit::Usage,
            ),
            (
                AcquireError::Unavailable {
                    name: name(),
                    source: None,
                },
                Exit::Unavailable,
            ),
            (refused(FailureKind::InvalidArgument), Exit::Usage),
            (refused(FailureKind::Unavailable), Exit::Unavailable),
            (refused(FailureKind::Internal), Exit::Failure),
            (refused(FailureKind::PermissionDenied), Exit::NotAllowed),
            (refused(FailureKind::ResourceExhausted), Exit::Unavailable),
        ] {
            assert_eq!(code(&error.clone().into()), expected, "{error}");
        }
    }

    #[test]
    fn signals_become_the_codes_that_shells_use() {
        assert_eq!(ExitCode::from(Exit::Signal(15)), ExitCode::from(143));
        assert_eq!(ExitCode::from(Exit::Command(3)), ExitCode::from(3));
    }
}

//! Exit codes, which are part of the interface, and the mapping of errors to them.

use std::{error::Error as StdError, process::ExitCode, sync::Arc};

use leasehold_client::{AcquireError, ConnectError, CoordinatorStatus, Failure, FailureKind};

use crate::signals;

/// Exit status of the tool. The numbers are those of `sysexits.h` where it has one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Exit {
    code: u8,
    /// INT or QUIT, if the tool dies of it instead.
    signal: Option<i32>,
}

impl Exit {
    pub(crate) const SUCCESS: Self = Self::new(0);
    /// Another error.
    pub(crate) const FAILURE: Self = Self::new(1);
    /// Some coordinators serve, and some do not.
    pub(crate) const SOME_SERVE: Self = Self::new(3);
    /// The election has no leader.
    pub(crate) const NOBODY_LEADS: Self = Self::new(4);
    /// The fencing token is not the newest one.
    pub(crate) const NOT_CURRENT: Self = Self::new(5);
    /// Something is wrong with the deployment.
    pub(crate) const FINDINGS: Self = Self::new(6);
    /// There was nothing to release or to end.
    pub(crate) const NOTHING_THERE: Self = Self::new(7);
    /// Invalid command line, or input that the coordinator refuses.
    pub(crate) const USAGE: Self = Self::new(64);
    /// No coordinator is reachable, or it does not serve now.
    pub(crate) const UNAVAILABLE: Self = Self::new(69);
    /// The lock, or the leadership, was lost while the command ran.
    pub(crate) const LOCK_LOST: Self = Self::new(70);
    /// The lock was not granted, or is not yet as the command waits for.
    pub(crate) const NOT_GRANTED: Self = Self::new(75);
    /// A measurement saw two holders of one lock, or a fencing token that did not rise.
    pub(crate) const VIOLATION: Self = Self::new(76);
    /// Unknown identity or missing permission; or one side does not trust the other's certificate.
    pub(crate) const NOT_ALLOWED: Self = Self::new(77);
    /// The command could not be executed.
    pub(crate) const NOT_EXECUTABLE: Self = Self::new(126);
    /// The command was not found.
    pub(crate) const NOT_FOUND: Self = Self::new(127);

    const fn new(code: u8) -> Self {
        Self { code, signal: None }
    }

    /// Returns the command's own status.
    pub(crate) fn of_command(code: i32) -> Self {
        Self::new(u8::try_from(code).unwrap_or(u8::MAX))
    }

    /// Returns the status after a signal, as shells show it.
    pub(crate) fn signal(signal: i32) -> Self {
        Self::of_command(128 + signal)
    }

    /// Returns the status of a command that a signal ended, or would have ended. After INT and QUIT, which keys send, it is an end
    /// by that signal, which shells show in the same way: one that runs the tool in a loop ends the loop only then.
    pub(crate) fn died_of(signal: i32) -> Self {
        let by_key = [libc::SIGINT, libc::SIGQUIT].contains(&signal);
        Self {
            signal: by_key.then_some(signal),
            ..Self::signal(signal)
        }
    }

    /// Ends the process by the signal, if it is to end by one. Returns the code, also if the signal can't end it: that of a
    /// process 1 can't.
    pub(crate) fn die_or_code(self) -> ExitCode {
        if let Some(signal) = self.signal {
            signals::die_of(signal);
        }
        self.code.into()
    }
}

/// Result of every subcommand.
pub(crate) type Outcome = anyhow::Result<Exit>;

/// A mistake on the command line that only the command itself notices.
#[derive(thiserror::Error, Debug)]
#[error("{0}")]
pub(crate) struct Mistake(pub(crate) String);

/// The end of a wait's time.
#[derive(thiserror::Error, Debug)]
#[error("{0}")]
pub(crate) struct NotYet(pub(crate) String);

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
    use AcquireError::{Busy, Deadlock, ForceReleased, TimedOut};
    matches!(
        error,
        Busy { .. } | TimedOut { .. } | Deadlock { .. } | ForceReleased { .. }
    )
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
        (Some(acquiring), _) if is_outcome(acquiring) => Exit::NOT_GRANTED,
        (Some(AcquireError::LimitMismatch { .. }), _) => Exit::USAGE,
        (_, Some(ConnectError::InvalidEndpoint { .. } | ConnectError::Credentials(_))) => {
            Exit::USAGE
        }
        (_, Some(ConnectError::Tls { .. })) => Exit::NOT_ALLOWED,
        (None, None) if error.is::<Mistake>() => Exit::USAGE,
        (None, None) if error.is::<NotYet>() => Exit::NOT_GRANTED,
        (None, None) => failure_in(error).map_or(Exit::FAILURE, failure),
        _ => failure_in(error).map_or(Exit::UNAVAILABLE, failure),
    }
}

/// Returns the exit code if no coordinator answered: that of their reason, if all have the same; `None` if one answered.
pub(crate) fn unanswered(rows: &[CoordinatorStatus]) -> Option<Exit> {
    let codes: Option<Vec<_>> = rows
        .iter()
        .map(|row| row.status.as_ref().err().map(failure))
        .collect();
    codes.map(|codes| in_common(&codes))
}

fn in_common(codes: &[Exit]) -> Exit {
    match codes {
        [first, others @ ..] if others.iter().all(|code| code == first) => *first,
        _ => Exit::UNAVAILABLE,
    }
}

/// Returns the exit code of a coordinator's answer.
pub(crate) fn failure(failure: &Failure) -> Exit {
    match failure.kind() {
        FailureKind::InvalidArgument => Exit::USAGE,
        FailureKind::Unauthenticated | FailureKind::PermissionDenied => Exit::NOT_ALLOWED,
        _ if failure.is_tls() => Exit::NOT_ALLOWED,
        _ if failure.is_mismatch() || failure.is_retryable() => Exit::UNAVAILABLE,
        _ => Exit::FAILURE,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_have_the_documented_codes() {
        use FailureKind::*;

        let failure = |kind| Failure::new(kind, "", "");
        let refused = |kind| AcquireError::Refused {
            name: "a".into(),
            source: failure(kind),
        };
        let (name, holder) = ("a".into(), None);
        let busy = AcquireError::Busy { name, holder };
        let (name, source) = ("a".into(), failure(Aborted));
        let deadlock = AcquireError::Deadlock { name, source };
        let (name, source) = ("a".into(), failure(Aborted));
        let forced = AcquireError::ForceReleased { name, source };
        let mismatch = AcquireError::LimitMismatch {
            name: "a".into(),
            limit: 2,
            source: failure(FailedPrecondition),
        };
        let (name, source) = ("a".into(), None);
        let unavailable = AcquireError::Unavailable { name, source };
        for (error, expected) in [
            (busy, Exit::NOT_GRANTED),
            (deadlock, Exit::NOT_GRANTED),
            (forced, Exit::NOT_GRANTED),
            (mismatch, Exit::USAGE),
            (unavailable, Exit::UNAVAILABLE),
            (refused(InvalidArgument), Exit::USAGE),
            (refused(Unavailable), Exit::UNAVAILABLE),
            (refused(Internal), Exit::FAILURE),
            (refused(PermissionDenied), Exit::NOT_ALLOWED),
            (refused(ResourceExhausted), Exit::UNAVAILABLE),
        ] {
            assert_eq!(code(&error.clone().into()), expected, "{error}");
        }
    }

    #[test]
    fn silent_coordinators_have_the_code_of_their_common_reason() {
        let (denied, silent) = (Exit::NOT_ALLOWED, Exit::UNAVAILABLE);
        assert_eq!(in_common(&[denied, denied]), denied);
        assert_eq!(in_common(&[denied, silent]), silent);
    }

    #[test]
    fn signals_become_the_codes_that_shells_use() {
        let expected = |code, signal| Exit { code, signal };
        assert_eq!(Exit::signal(2), expected(130, None));
        assert_eq!(Exit::died_of(15), expected(143, None));
        assert_eq!(Exit::died_of(2), expected(130, Some(2)));
        assert_eq!(Exit::of_command(3), expected(3, None));
    }
}

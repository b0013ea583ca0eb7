//! Fate of what a failed attempt to open a stream was to resume.

use leasehold_proto::Reason;

use crate::error::{ConnectError, Failure, FailureKind};

/// Fate of the holds and waiters that a stream which has not opened was asked to take over.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Fate {
    /// Nothing was taken over.
    Declined,
    /// The coordinator may have taken them over, and keeps them until they expire.
    Kept,
    /// The coordinator may have taken them over; it has noticed the end of the stream, and may have released them.
    Dropped,
    /// An operator ended the session: what was to be taken over is lost, whatever the grace.
    Ended,
}

impl Fate {
    /// Returns the fate after a stream that ended with this error.
    pub(super) fn of(error: &ConnectError) -> Self {
        match error {
            ConnectError::InvalidEndpoint { .. } | ConnectError::Credentials(_) => Self::Declined,
            // The connection is kept until there is another stream.
            ConnectError::TimedOut { .. } => Self::Kept,
            ConnectError::Unauthenticated { source, .. }
            | ConnectError::PermissionDenied { source, .. }
            | ConnectError::LimitReached { source, .. }
            | ConnectError::Refused { source, .. } => Self::of_answer(source),
            ConnectError::Tls { .. }
            | ConnectError::Mismatch { .. }
            | ConnectError::Unreachable { .. }
            | ConnectError::Ended { .. } => Self::Dropped,
        }
    }

    /// Returns the fate after a stream that was ended with this failure.
    pub(super) fn of_answer(failure: &Failure) -> Self {
        match failure.known_reason() {
            // A proxy in between answered, which passes nothing on with these.
            None if failure.reason().is_empty() => match failure.kind() {
                FailureKind::InvalidArgument
                | FailureKind::FailedPrecondition
                | FailureKind::PermissionDenied
                | FailureKind::Unauthenticated
                | FailureKind::Unimplemented
                | FailureKind::ResourceExhausted => Self::Declined,
                _ => Self::Dropped,
            },
            // The coordinator says these before it asks the store for anything.
            Some(
                Reason::InvalidField
                | Reason::NotOpen
                | Reason::UnknownRequest
                | Reason::TooManySessions
                | Reason::TooManyLocks
                | Reason::Draining
                | Reason::OpenTimeout
                | Reason::Unauthenticated
                | Reason::PermissionDenied
                | Reason::RateLimited
                | Reason::MessageTooLarge,
            ) => Self::Declined,
            Some(Reason::SessionEnded) => Self::Ended,
            _ => Self::Kept,
        }
    }
}

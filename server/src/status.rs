//! Refusals: the one place where an error becomes a gRPC status or a session's `error` message.

use leasehold_proto::v1::{FieldViolation, SessionFailure};
use leasehold_store::StoreError;
use tonic::{Code, Status};
use tonic_types::{BadRequest, ErrorDetails, FieldViolation as Violation, StatusExt};

/// The domain of every `google.rpc.ErrorInfo` of ours.
pub const DOMAIN: &str = "leasehold";

/// Machine-readable reasons, as `docs/errors.md` lists them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// A field is out of bounds; the field violations say which.
    InvalidField,
    /// The stream's first message was not `open`.
    NotOpen,
    /// The stream was opened before.
    AlreadyOpen,
    /// The first message did not come in time.
    OpenTimeout,
    /// A message held none of the requests that are known here.
    UnknownRequest,
    /// The request id belongs to an acquire that is still in flight.
    RequestIdInUse,
    /// The session fell silent for its TTL.
    SessionSilent,
    /// The coordinator is going away.
    Draining,
    /// The coordinator has as many sessions as it may.
    TooManySessions,
    /// The session has as many locks and waiting acquires as it may.
    TooManyLocks,
    /// The session has as many releases and changes of values in flight as it may.
    TooManyRequests,
    /// The store is out of reach; nothing was done.
    StoreUnavailable,
    /// The store did not answer; what was done is being undone.
    StoreIndeterminate,
    /// The store refused.
    StoreRefused,
    /// The lock's Redis key holds something that is not a lock.
    KeyNotALock,
    /// The store's answer made no sense.
    StoreGarbled,
}

impl Reason {
    /// As it is on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::InvalidField => "INVALID_FIELD",
            Self::NotOpen => "NOT_OPEN",
            Self::AlreadyOpen => "ALREADY_OPEN",
            Self::OpenTimeout => "OPEN_TIMEOUT",
            Self::UnknownRequest => "UNKNOWN_REQUEST",
            Self::RequestIdInUse => "REQUEST_ID_IN_USE",
            Self::SessionSilent => "SESSION_SILENT",
            Self::Draining => "DRAINING",
            Self::TooManySessions => "TOO_MANY_SESSIONS",
            Self::TooManyLocks => "TOO_MANY_LOCKS",
            Self::TooManyRequests => "TOO_MANY_REQUESTS",
            Self::StoreUnavailable => "STORE_UNAVAILABLE",
            Self::StoreIndeterminate => "STORE_INDETERMINATE",
            Self::StoreRefused => "STORE_REFUSED",
            Self::KeyNotALock => "KEY_NOT_A_LOCK",
            Self::StoreGarbled => "STORE_GARBLED",
        }
    }

    const fn code(self) -> Code {
        match self {
            Self::InvalidField | Self::UnknownRequest | Self::RequestIdInUse => {
                Code::InvalidArgument
            }
            Self::NotOpen | Self::AlreadyOpen | Self::KeyNotALock => Code::FailedPrecondition,
            Self::OpenTimeout | Self::SessionSilent => Code::DeadlineExceeded,
            Self::TooManySessions | Self::TooManyLocks | Self::TooManyRequests => {
                Code::ResourceExhausted
            }
            Self::Draining
            | Self::StoreUnavailable
            | Self::StoreIndeterminate
            | Self::StoreRefused => Code::Unavailable,
            Self::StoreGarbled => Code::Internal,
        }
    }
}

/// A request that could not be served.
#[derive(Clone, Debug)]
pub struct Refusal {
    reason: Reason,
    message: String,
    violations: Vec<(String, String)>,
}

impl Refusal {
    /// A refusal; the message tells what happened, to what, and what to do.
    pub fn new(reason: Reason, message: impl Into<String>) -> Self {
        Self {
            reason,
            message: message.into(),
            violations: Vec::new(),
        }
    }

    /// A refusal for a field that is out of bounds; `what` completes the sentence "the field …".
    pub fn field(field: &str, what: impl ToString) -> Self {
        let what = what.to_string();
        Self {
            reason: Reason::InvalidField,
            message: format!("{field} {what}"),
            violations: vec![(field.to_owned(), what)],
        }
    }

    /// As a session's answer to one request.
    pub fn into_failure(self) -> SessionFailure {
        SessionFailure {
            code: self.reason.code() as i32,
            reason: self.reason.as_str().to_owned(),
            message: self.message,
            field_violations: self
                .violations
                .into_iter()
                .map(|(field, description)| FieldViolation { field, description })
                .collect(),
        }
    }
}

impl From<Refusal> for Status {
    fn from(refusal: Refusal) -> Self {
        let mut details = ErrorDetails::with_error_info(refusal.reason.as_str(), DOMAIN, []);
        if !refusal.violations.is_empty() {
            let violations = refusal
                .violations
                .into_iter()
                .map(|(field, description)| Violation::new(field, description))
                .collect::<Vec<_>>();
            details.set_bad_request(BadRequest::new(violations).field_violations);
        }
        Self::with_error_details(refusal.reason.code(), refusal.message, details)
    }
}

impl From<StoreError> for Refusal {
    fn from(error: StoreError) -> Self {
        let reason = match &error {
            StoreError::Unavailable { .. } => Reason::StoreUnavailable,
            StoreError::Indeterminate { .. } => Reason::StoreIndeterminate,
            StoreError::WrongType { .. } => Reason::KeyNotALock,
            StoreError::Refused { .. } => Reason::StoreRefused,
            StoreError::Garbled { .. } => Reason::StoreGarbled,
        };
        Self::new(reason, error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::Reason;

    /// Every reason; the compiler reminds whoever adds one, in `code`.
    const ALL: [Reason; 16] = [
        Reason::InvalidField,
        Reason::NotOpen,
        Reason::AlreadyOpen,
        Reason::OpenTimeout,
        Reason::UnknownRequest,
        Reason::RequestIdInUse,
        Reason::SessionSilent,
        Reason::Draining,
        Reason::TooManySessions,
        Reason::TooManyLocks,
        Reason::TooManyRequests,
        Reason::StoreUnavailable,
        Reason::StoreIndeterminate,
        Reason::StoreRefused,
        Reason::KeyNotALock,
        Reason::StoreGarbled,
    ];

    #[test]
    fn the_documentation_lists_every_reason_and_no_other() {
        let listed: Vec<&str> = include_str!("../../docs/errors.md")
            .lines()
            .filter_map(|line| line.strip_prefix("| `")?.split('`').next())
            .collect();
        for reason in ALL {
            assert!(listed.contains(&reason.as_str()), "{}", reason.as_str());
        }
        assert_eq!(listed.len(), ALL.len(), "{listed:?}");
    }
}

//! Refusals: the one place where an error becomes a gRPC status or a session's `error` message.

use std::{collections::HashMap, time::Duration};

use leasehold_core::name::LockName;
use leasehold_proto::v1::{FieldViolation, SessionFailure};
use leasehold_store::StoreError;
use tonic::{Code, Status};
use tonic_types::{BadRequest, ErrorDetails, FieldViolation as Violation, StatusExt};

use crate::convert::wire_duration;

/// The domain of every `google.rpc.ErrorInfo` of ours.
pub const DOMAIN: &str = "leasehold";

/// Machine-readable reasons, as `docs/errors.md` lists them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// A field is out of bounds; the field violations say which.
    InvalidField,
    /// The caller has shown no identity, or none that is accepted.
    Unauthenticated,
    /// The caller's identity has expired.
    IdentityExpired,
    /// The caller's identity lacks a permission.
    PermissionDenied,
    /// The stream's first message was not the one that opens it.
    NotOpen,
    /// The stream was opened before.
    AlreadyOpen,
    /// The first message did not come in time.
    OpenTimeout,
    /// A call was not complete in time.
    RequestTimeout,
    /// A message held none of the requests that are known here.
    UnknownRequest,
    /// The request id belongs to an acquire that is still in flight.
    RequestIdInUse,
    /// The actor holds the lock already, or waits for it, and did not ask to hold it once more.
    SelfDeadlock,
    /// The actor holds the lock in a weaker mode than it asks for.
    UpgradeRefused,
    /// Those who hold or wait for the semaphore agree on another limit.
    LimitMismatch,
    /// The hold is one of a semaphore: it can't be made a shared one.
    NotExclusive,
    /// The wait was part of a deadlock, and was ended for the others to go on.
    Deadlock,
    /// A lock that the request counts on was lost before it could be served.
    LockLost,
    /// The candidate does not lead.
    NotLeader,
    /// The session fell silent for its TTL.
    SessionSilent,
    /// The coordinator is going away.
    Draining,
    /// The coordinator, or the caller, has as many sessions as it may.
    TooManySessions,
    /// The session has as many locks and waiting acquires as it may.
    TooManyLocks,
    /// The session has as many releases and changes of values in flight as it may.
    TooManyRequests,
    /// The caller has made as many requests of late as it may.
    RateLimited,
    /// As many acquires wait for the name as may.
    TooManyWaiters,
    /// As many streams watch as may.
    TooManyWatchers,
    /// The acquire is for more names than it may be.
    TooManyNames,
    /// A page of a listing is asked for that is larger than it may be.
    PageTooLarge,
    /// A message is larger than it may be.
    MessageTooLarge,
    /// The store is out of reach; nothing was done.
    StoreUnavailable,
    /// The store did not answer; what was done is being undone.
    StoreIndeterminate,
    /// Too few replicas of the store have acknowledged it in time; it is taken back.
    NotReplicated,
    /// The store refused.
    StoreRefused,
    /// The lock's Redis key holds something that is not a lock.
    KeyNotALock,
    /// The store keeps locks in a way that does not offer what was asked for.
    NotOffered,
    /// The store's answer made no sense.
    StoreGarbled,
}

impl Reason {
    /// As it is on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::InvalidField => "INVALID_FIELD",
            Self::Unauthenticated => "UNAUTHENTICATED",
            Self::IdentityExpired => "IDENTITY_EXPIRED",
            Self::PermissionDenied => "PERMISSION_DENIED",
            Self::NotOpen => "NOT_OPEN",
            Self::AlreadyOpen => "ALREADY_OPEN",
            Self::OpenTimeout => "OPEN_TIMEOUT",
            Self::RequestTimeout => "REQUEST_TIMEOUT",
            Self::UnknownRequest => "UNKNOWN_REQUEST",
            Self::RequestIdInUse => "REQUEST_ID_IN_USE",
            Self::SelfDeadlock => "SELF_DEADLOCK",
            Self::UpgradeRefused => "UPGRADE_REFUSED",
            Self::LimitMismatch => "LIMIT_MISMATCH",
            Self::NotExclusive => "NOT_EXCLUSIVE",
            Self::Deadlock => "DEADLOCK",
            Self::LockLost => "LOCK_LOST",
            Self::NotLeader => "NOT_LEADER",
            Self::SessionSilent => "SESSION_SILENT",
            Self::Draining => "DRAINING",
            Self::TooManySessions => "TOO_MANY_SESSIONS",
            Self::TooManyLocks => "TOO_MANY_LOCKS",
            Self::TooManyRequests => "TOO_MANY_REQUESTS",
            Self::RateLimited => "RATE_LIMITED",
            Self::TooManyWaiters => "TOO_MANY_WAITERS",
            Self::TooManyWatchers => "TOO_MANY_WATCHERS",
            Self::TooManyNames => "TOO_MANY_NAMES",
            Self::PageTooLarge => "PAGE_TOO_LARGE",
            Self::MessageTooLarge => "MESSAGE_TOO_LARGE",
            Self::StoreUnavailable => "STORE_UNAVAILABLE",
            Self::StoreIndeterminate => "STORE_INDETERMINATE",
            Self::NotReplicated => "NOT_REPLICATED",
            Self::StoreRefused => "STORE_REFUSED",
            Self::KeyNotALock => "KEY_NOT_A_LOCK",
            Self::NotOffered => "NOT_OFFERED",
            Self::StoreGarbled => "STORE_GARBLED",
        }
    }

    const fn code(self) -> Code {
        match self {
            Self::InvalidField | Self::UnknownRequest | Self::RequestIdInUse => {
                Code::InvalidArgument
            }
            Self::Unauthenticated | Self::IdentityExpired => Code::Unauthenticated,
            Self::PermissionDenied => Code::PermissionDenied,
            Self::NotOpen
            | Self::AlreadyOpen
            | Self::SelfDeadlock
            | Self::UpgradeRefused
            | Self::LimitMismatch
            | Self::NotExclusive
            | Self::NotLeader
            | Self::KeyNotALock
            | Self::NotOffered => Code::FailedPrecondition,
            Self::Deadlock | Self::LockLost => Code::Aborted,
            Self::OpenTimeout | Self::RequestTimeout | Self::SessionSilent => {
                Code::DeadlineExceeded
            }
            Self::TooManySessions
            | Self::TooManyLocks
            | Self::TooManyRequests
            | Self::RateLimited
            | Self::TooManyWaiters
            | Self::TooManyWatchers
            | Self::TooManyNames
            | Self::PageTooLarge
            | Self::MessageTooLarge => Code::ResourceExhausted,
            Self::Draining
            | Self::StoreUnavailable
            | Self::StoreIndeterminate
            | Self::NotReplicated
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
    metadata: Vec<(&'static str, String)>,
    retry_after: Option<Duration>,
}

impl Refusal {
    /// A refusal; the message tells what happened, to what, and what to do.
    pub fn new(reason: Reason, message: impl Into<String>) -> Self {
        Self {
            reason,
            message: message.into(),
            violations: Vec::new(),
            metadata: Vec::new(),
            retry_after: None,
        }
    }

    /// The refusal of what is over a limit, named with the setting that sets it; `None` if it is no use to try again.
    pub fn over(
        reason: Reason,
        (setting, limit): (&'static str, impl ToString),
        retry_after: Option<Duration>,
        message: impl Into<String>,
    ) -> Self {
        let refusal = Self::new(reason, message)
            .with("limit", limit)
            .with("setting", setting);
        Self {
            retry_after,
            ..refusal
        }
    }

    /// With the time after which it may be tried again.
    #[must_use]
    pub const fn retry_after(mut self, time: Duration) -> Self {
        self.retry_after = Some(time);
        self
    }

    /// Why.
    #[must_use]
    pub const fn reason(&self) -> Reason {
        self.reason
    }

    /// With something that goes with the reason, as `docs/errors.md` lists it.
    #[must_use]
    pub fn with(mut self, key: &'static str, value: impl ToString) -> Self {
        self.metadata.push((key, value.to_string()));
        self
    }

    /// The refusal of an acquire of a semaphore with another limit than the one in force.
    pub fn other_limit(name: &LockName, limit: u32) -> Self {
        let message = format!(
            "those who hold or wait for the semaphore {name:?} agree on a limit of {limit}; ask with that one",
            name = name.as_str(),
        );
        Self::new(Reason::LimitMismatch, message).with("limit", limit)
    }

    /// A refusal for a field that is out of bounds; `what` completes the sentence "the field …".
    pub fn field(field: &str, what: impl ToString) -> Self {
        let what = what.to_string();
        Self {
            reason: Reason::InvalidField,
            message: format!("{field} {what}"),
            violations: vec![(field.to_owned(), what)],
            metadata: Vec::new(),
            retry_after: None,
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
            metadata: self
                .metadata
                .into_iter()
                .map(|(key, value)| (key.to_owned(), value))
                .collect(),
            retry_after: self.retry_after.map(wire_duration),
        }
    }
}

impl From<Refusal> for Status {
    fn from(refusal: Refusal) -> Self {
        let mut details = ErrorDetails::with_error_info(
            refusal.reason.as_str(),
            DOMAIN,
            refusal
                .metadata
                .into_iter()
                .map(|(key, value)| (key.to_owned(), value))
                .collect::<HashMap<_, _>>(),
        );
        if !refusal.violations.is_empty() {
            let violations = refusal
                .violations
                .into_iter()
                .map(|(field, description)| Violation::new(field, description))
                .collect::<Vec<_>>();
            details.set_bad_request(BadRequest::new(violations).field_violations);
        }
        if let Some(retry_after) = refusal.retry_after {
            details.set_retry_info(Some(retry_after));
        }
        Self::with_error_details(refusal.reason.code(), refusal.message, details)
    }
}

impl From<StoreError> for Refusal {
    fn from(error: StoreError) -> Self {
        let reason = match &error {
            StoreError::Unavailable { .. } => Reason::StoreUnavailable,
            StoreError::Indeterminate { .. } => Reason::StoreIndeterminate,
            StoreError::NotReplicated { .. } => Reason::NotReplicated,
            StoreError::WrongType { .. } => Reason::KeyNotALock,
            StoreError::Refused { .. } => Reason::StoreRefused,
            StoreError::NotOffered { .. } => Reason::NotOffered,
            StoreError::Garbled { .. } => Reason::StoreGarbled,
        };
        Self::new(reason, error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::Reason;

    /// Every reason; the compiler reminds whoever adds one, in `code`.
    const ALL: [Reason; 35] = [
        Reason::InvalidField,
        Reason::Unauthenticated,
        Reason::IdentityExpired,
        Reason::PermissionDenied,
        Reason::NotOpen,
        Reason::AlreadyOpen,
        Reason::OpenTimeout,
        Reason::RequestTimeout,
        Reason::UnknownRequest,
        Reason::RequestIdInUse,
        Reason::SelfDeadlock,
        Reason::UpgradeRefused,
        Reason::LimitMismatch,
        Reason::NotExclusive,
        Reason::Deadlock,
        Reason::LockLost,
        Reason::NotLeader,
        Reason::SessionSilent,
        Reason::Draining,
        Reason::TooManySessions,
        Reason::TooManyLocks,
        Reason::TooManyRequests,
        Reason::RateLimited,
        Reason::TooManyWaiters,
        Reason::TooManyWatchers,
        Reason::TooManyNames,
        Reason::PageTooLarge,
        Reason::MessageTooLarge,
        Reason::StoreUnavailable,
        Reason::StoreIndeterminate,
        Reason::NotReplicated,
        Reason::StoreRefused,
        Reason::KeyNotALock,
        Reason::NotOffered,
        Reason::StoreGarbled,
    ];

    /// Returns what a program is to do with the same request, as `docs/errors.md` defines it.
    const fn retry(reason: Reason) -> &'static str {
        match reason {
            // It passes by itself.
            Reason::OpenTimeout
            | Reason::RequestTimeout
            | Reason::SessionSilent
            | Reason::TooManyLocks
            | Reason::TooManyRequests
            | Reason::RateLimited
            | Reason::TooManyWaiters
            | Reason::StoreUnavailable
            | Reason::StoreIndeterminate
            | Reason::NotReplicated
            | Reason::StoreRefused => "yes",
            // It is this coordinator's alone.
            Reason::TooManySessions | Reason::TooManyWatchers | Reason::Draining => "elsewhere",
            // The request, what the client holds, its identity or a setting has to change first.
            Reason::InvalidField
            | Reason::Unauthenticated
            | Reason::IdentityExpired
            | Reason::PermissionDenied
            | Reason::NotOpen
            | Reason::AlreadyOpen
            | Reason::UnknownRequest
            | Reason::RequestIdInUse
            | Reason::SelfDeadlock
            | Reason::UpgradeRefused
            | Reason::LimitMismatch
            | Reason::NotExclusive
            | Reason::Deadlock
            | Reason::LockLost
            | Reason::NotLeader
            | Reason::TooManyNames
            | Reason::PageTooLarge
            | Reason::MessageTooLarge
            | Reason::KeyNotALock
            | Reason::NotOffered
            | Reason::StoreGarbled => "no",
        }
    }

    /// The cells of the table of reasons.
    fn documented() -> Vec<Vec<&'static str>> {
        include_str!("../../docs/errors.md")
            .lines()
            .filter(|line| line.starts_with("| `"))
            .map(|line| {
                line.trim_matches('|')
                    .split('|')
                    .map(|cell| cell.trim().trim_matches('`'))
                    .collect::<Vec<_>>()
            })
            // Other tables of the page begin with words of a user's own.
            .filter(|cells| {
                let is_of_a_reason = |letter: char| letter.is_ascii_uppercase() || letter == '_';
                cells[0].chars().all(is_of_a_reason)
            })
            .collect()
    }

    #[test]
    fn the_documentation_lists_every_reason_and_no_other() {
        let documented = documented();
        for reason in ALL {
            let row = documented.iter().find(|row| row[0] == reason.as_str());
            assert!(row.is_some(), "{} is not documented", reason.as_str());
            let Some(row) = row else { continue };
            let code = format!("{:?}", reason.code());
            assert_eq!(
                row[1].replace('_', "").to_lowercase(),
                code.to_lowercase(),
                "{row:?}"
            );
            assert_eq!(row[2], retry(reason), "{row:?}");
        }
        assert_eq!(documented.len(), ALL.len(), "{documented:?}");
    }
}

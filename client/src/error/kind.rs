//! Kinds of failures: the status codes of gRPC.

use std::fmt;

use tonic::Code;

/// Kind of a [`Failure`](crate::Failure): the status code of gRPC that the coordinator answered with.
///
/// ```
/// use leasehold_client::{Failure, FailureKind};
///
/// let failure = Failure::new(FailureKind::Unavailable, "STORE_UNAVAILABLE", "the store does not answer");
/// assert_eq!(failure.kind(), FailureKind::Unavailable);
/// assert_eq!(failure.kind().to_string(), "UNAVAILABLE");
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum FailureKind {
    /// The call was cancelled.
    Cancelled,
    /// The cause is unknown: a connection that broke, or a code that this version does not know.
    Unknown,
    /// A field of the request was invalid; see [`Failure::field_violations`](crate::Failure::field_violations).
    InvalidArgument,
    /// There was no answer in time.
    DeadlineExceeded,
    /// What was asked for does not exist.
    NotFound,
    /// What was to be made exists already.
    AlreadyExists,
    /// The coordinator knows the caller and does not allow the request.
    PermissionDenied,
    /// One of the coordinator's limits is reached.
    ResourceExhausted,
    /// The request does not fit the state of the lock or of the session.
    FailedPrecondition,
    /// The request was aborted, as the youngest wait of a deadlock.
    Aborted,
    /// A value is out of range.
    OutOfRange,
    /// The coordinator does not know this call.
    Unimplemented,
    /// The coordinator broke a rule of its own, or answered what makes no sense.
    Internal,
    /// The coordinator or its store can't serve the request at present, or can't be reached.
    Unavailable,
    /// Data was lost.
    DataLoss,
    /// The coordinator does not know the caller: it showed no certificate and no token, or none that is valid.
    Unauthenticated,
}

impl FailureKind {
    pub(crate) fn from_code(code: Code) -> Self {
        match code {
            // No failure has the code of success; one that claims to is not understood.
            Code::Ok | Code::Unknown => Self::Unknown,
            Code::Cancelled => Self::Cancelled,
            Code::InvalidArgument => Self::InvalidArgument,
            Code::DeadlineExceeded => Self::DeadlineExceeded,
            Code::NotFound => Self::NotFound,
            Code::AlreadyExists => Self::AlreadyExists,
            Code::PermissionDenied => Self::PermissionDenied,
            Code::ResourceExhausted => Self::ResourceExhausted,
            Code::FailedPrecondition => Self::FailedPrecondition,
            Code::Aborted => Self::Aborted,
            Code::OutOfRange => Self::OutOfRange,
            Code::Unimplemented => Self::Unimplemented,
            Code::Internal => Self::Internal,
            Code::Unavailable => Self::Unavailable,
            Code::DataLoss => Self::DataLoss,
            Code::Unauthenticated => Self::Unauthenticated,
        }
    }

    /// Returns the name of the status code, for example `INVALID_ARGUMENT`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Cancelled => "CANCELLED",
            Self::Unknown => "UNKNOWN",
            Self::InvalidArgument => "INVALID_ARGUMENT",
            Self::DeadlineExceeded => "DEADLINE_EXCEEDED",
            Self::NotFound => "NOT_FOUND",
            Self::AlreadyExists => "ALREADY_EXISTS",
            Self::PermissionDenied => "PERMISSION_DENIED",
            Self::ResourceExhausted => "RESOURCE_EXHAUSTED",
            Self::FailedPrecondition => "FAILED_PRECONDITION",
            Self::Aborted => "ABORTED",
            Self::OutOfRange => "OUT_OF_RANGE",
            Self::Unimplemented => "UNIMPLEMENTED",
            Self::Internal => "INTERNAL",
            Self::Unavailable => "UNAVAILABLE",
            Self::DataLoss => "DATA_LOSS",
            Self::Unauthenticated => "UNAUTHENTICATED",
        }
    }
}

impl fmt::Display for FailureKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_of_grpc_has_a_kind_of_its_name() {
        // The code 0 is success, which no failure has.
        for number in 1..17 {
            let code = Code::from_i32(number);
            let name = FailureKind::from_code(code).as_str().replace('_', "");
            assert!(name.eq_ignore_ascii_case(&format!("{code:?}")), "{name}");
        }
    }
}

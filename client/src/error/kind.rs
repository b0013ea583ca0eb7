//! Kinds of failures: the status codes of gRPC.

use std::fmt;

use tonic::Code;

/// Defines the kinds: their descriptions, and their names in gRPC.
macro_rules! kinds {
    ($(#[$about:meta])* pub enum FailureKind { $($(#[$meaning:meta])* $kind:ident = $name:literal,)* }) => {
        $(#[$about])*
        pub enum FailureKind {
            $($(#[$meaning])* $kind,)*
        }

        impl FailureKind {
            pub(crate) fn from_code(code: Code) -> Self {
                match code {
                    // No failure has the code of success, so that the client does not understand one that has.
                    Code::Ok => Self::Unknown,
                    $(Code::$kind => Self::$kind,)*
                }
            }

            /// Returns the name of the status code, for example `INVALID_ARGUMENT`.
            pub fn as_str(self) -> &'static str {
                match self {
                    $(Self::$kind => $name,)*
                }
            }
        }
    };
}

kinds! {
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
    Cancelled = "CANCELLED",
    /// The cause is unknown: a connection that broke, or a code that this version does not know.
    Unknown = "UNKNOWN",
    /// A field of the request was invalid; see [`Failure::field_violations`](crate::Failure::field_violations).
    InvalidArgument = "INVALID_ARGUMENT",
    /// There was no answer in time.
    DeadlineExceeded = "DEADLINE_EXCEEDED",
    /// The thing asked for does not exist.
    NotFound = "NOT_FOUND",
    /// The thing to be created exists already.
    AlreadyExists = "ALREADY_EXISTS",
    /// The coordinator knows the caller and does not allow the request.
    PermissionDenied = "PERMISSION_DENIED",
    /// One of the coordinator's limits is reached.
    ResourceExhausted = "RESOURCE_EXHAUSTED",
    /// The request does not fit the state of the lock or of the session.
    FailedPrecondition = "FAILED_PRECONDITION",
    /// The request was aborted, as the youngest wait of a deadlock.
    Aborted = "ABORTED",
    /// A value is out of range.
    OutOfRange = "OUT_OF_RANGE",
    /// The coordinator does not know this call.
    Unimplemented = "UNIMPLEMENTED",
    /// The coordinator broke a rule of its own, or answered what makes no sense.
    Internal = "INTERNAL",
    /// The coordinator or its store can't serve the request at present, or can't be reached.
    Unavailable = "UNAVAILABLE",
    /// Data was lost.
    DataLoss = "DATA_LOSS",
    /// The coordinator does not know the caller: it showed no certificate and no token, or none that is valid.
    Unauthenticated = "UNAUTHENTICATED",
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

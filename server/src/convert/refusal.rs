//! Conversion of refusals: to a session's `error` message, and to a gRPC status.

use std::time::Duration;

use leasehold_proto::v1::{FieldViolation, SessionFailure};
use tonic::{Code, Status};
use tonic_types::{ErrorDetails, StatusExt};

use super::answers::wire_duration;
use crate::status::Refusal;

/// The domain of every `google.rpc.ErrorInfo` of ours.
const DOMAIN: &str = "leasehold";

/// Returns a session's answer to a request that it refuses.
pub fn failure(refusal: Refusal) -> SessionFailure {
    let violations = refusal.violations.into_iter();
    let metadata = refusal.metadata.into_iter();
    SessionFailure {
        code: refusal.reason.code() as i32,
        reason: refusal.reason.as_str().to_owned(),
        message: refusal.brief.map_or(refusal.message, str::to_owned),
        field_violations: violations
            .map(|(field, description)| FieldViolation { field, description })
            .collect(),
        metadata: metadata
            .map(|(key, value)| (key.to_owned(), value))
            .collect(),
        retry_after: refusal.retry_after.map(wire_duration),
    }
}

/// Returns the status that ends a call or a stream with this failure.
pub fn status(failure: SessionFailure) -> Status {
    let mut details = ErrorDetails::with_error_info(failure.reason, DOMAIN, failure.metadata);
    for violation in failure.field_violations {
        details.add_bad_request_violation(violation.field, violation.description);
    }
    if let Some(after) = failure.retry_after {
        details.set_retry_info(Duration::try_from(after).ok());
    }
    Status::with_error_details(Code::from_i32(failure.code), failure.message, details)
}

impl From<Refusal> for Status {
    fn from(refusal: Refusal) -> Self {
        status(failure(refusal))
    }
}

//! Conversion of Redis errors to store errors.

use leasehold_core::name::LockName;
use redis::{RedisError, ServerError};

use super::status::{DownCause, LinkError};
use crate::cause::is_wrong_type;
use leasehold_core::failure::StoreError;

pub(crate) fn link_error(error: &LinkError) -> StoreError {
    let reason = error.to_string();
    if error.may_have_happened() {
        StoreError::Indeterminate { reason }
    } else {
        StoreError::Unavailable { reason }
    }
}

/// Converts the error of one command. Shows only its code, because the text could repeat arguments, and with them owner ids.
pub(crate) fn server_error(name: &LockName, error: &ServerError) -> StoreError {
    if is_wrong_type(error) {
        return StoreError::WrongType { name: name.clone() };
    }
    refused(error.code(), error.details())
}

/// Converts the error of a whole call, none of whose commands was carried out.
pub(crate) fn call_error(error: &RedisError) -> StoreError {
    match error.code() {
        Some(code) => refused(code, error.detail()),
        None => StoreError::Refused {
            reason: format!("Redis answered with an error ({:?})", error.kind()),
        },
    }
}

fn refused(code: &str, details: Option<&str>) -> StoreError {
    let cause = DownCause::of(code, details);
    let reason = match cause {
        DownCause::Rejected => format!("Redis answered with the error {code}"),
        // Before version 7, scripts wrap errors into others.
        _ => {
            let code = cause.codes().first().unwrap_or(&code);
            format!("Redis {} ({code})", cause.says())
        }
    };
    if cause.is_unfit() || cause == DownCause::ClusterDown {
        StoreError::Unavailable { reason }
    } else {
        StoreError::Refused { reason }
    }
}

//! Conversion of Redis errors to store errors.

use leasehold_core::name::LockName;
use redis::{RedisError, ServerError, ServerErrorKind};

use super::status::LinkError;
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
    // Before version 7, scripts report the errors of their commands with the code inside the text. Without the hyphen, the
    // same letters may be part of a user's name.
    let says = |code: &str| {
        let inside = format!("-{code} ");
        error.code() == code
            || error
                .details()
                .is_some_and(|details| details.contains(&inside))
    };
    if says("WRONGTYPE") {
        return StoreError::WrongType { name: name.clone() };
    }
    if says("READONLY") {
        return StoreError::Unavailable {
            reason: "Redis is a replica now (READONLY)".into(),
        };
    }
    if says("OOM") {
        return StoreError::Refused {
            reason: "Redis is out of memory (OOM): raise maxmemory".into(),
        };
    }
    StoreError::Refused {
        reason: format!("Redis answered with the error {}", error.code()),
    }
}

/// Converts the error of a whole call, none of whose commands was carried out.
pub(crate) fn call_error(error: &RedisError) -> StoreError {
    match error.kind() {
        redis::ErrorKind::Server(ServerErrorKind::ClusterDown) => StoreError::Unavailable {
            reason:
                "the Redis Cluster, or a part of it, serves nothing for the moment (CLUSTERDOWN)"
                    .into(),
        },
        redis::ErrorKind::Server(
            ServerErrorKind::ReadOnly | ServerErrorKind::BusyLoading | ServerErrorKind::MasterDown,
        ) => StoreError::Unavailable {
            reason: error_text(error),
        },
        _ => StoreError::Refused {
            reason: error_text(error),
        },
    }
}

fn error_text(error: &RedisError) -> String {
    match error.code() {
        Some(code) => format!("Redis answered with the error {code}"),
        None => format!("Redis answered with an error ({:?})", error.kind()),
    }
}

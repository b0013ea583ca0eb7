//! Errors of Connect: their names, HTTP statuses and JSON.

use base64::{Engine, engine::general_purpose::STANDARD_NO_PAD};
use prost::Message;
use prost_reflect::{DescriptorPool, DynamicMessage};
use serde::Serialize;
use tonic::{Code, Status, codegen::http::StatusCode};

/// Most characters of an error that a decoder found. It may quote the client's own text.
const SHOWN: usize = 256;

/// An error as clients read it.
#[derive(Debug, Serialize)]
pub(super) struct WireError {
    code: &'static str,
    #[serde(skip_serializing_if = "String::is_empty")]
    message: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    details: Vec<Detail>,
}

/// A detail of an error.
#[derive(Debug, Serialize)]
struct Detail {
    r#type: String,
    value: String,
    /// The same in JSON, for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    debug: Option<serde_json::Value>,
}

impl WireError {
    /// Returns a status as an error. Details get JSON for people if the pool has their types.
    pub(super) fn new(status: &Status, pool: &DescriptorPool) -> Self {
        // Without details there are no bytes; other bytes than a status's are nothing for a client.
        let of_status = tonic_types::Status::decode(status.details()).unwrap_or_default();
        let details = of_status.details.into_iter().map(|detail| {
            let name = detail.type_url.rsplit('/').next().unwrap_or_default();
            let debug = pool.get_message_by_name(name).and_then(|descriptor| {
                let message = DynamicMessage::decode(descriptor, &*detail.value).ok()?;
                serde_json::to_value(message).ok()
            });
            Detail {
                r#type: name.to_owned(),
                value: STANDARD_NO_PAD.encode(&detail.value),
                debug,
            }
        });
        Self {
            code: name(status.code()),
            message: status.message().to_owned(),
            details: details.collect(),
        }
    }

    pub(super) fn to_json(&self) -> Vec<u8> {
        // Strings and JSON are always serializable.
        serde_json::to_vec(self).unwrap_or_default()
    }
}

/// Returns the start of a decoder's error.
pub(super) fn shown(error: &impl ToString) -> String {
    let text = error.to_string();
    match text.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

/// Returns Connect's name of a code. An error can't be OK: that would be the coordinator's fault.
pub(super) const fn name(code: Code) -> &'static str {
    match code {
        Code::Cancelled => "canceled",
        Code::Ok | Code::Unknown => "unknown",
        Code::InvalidArgument => "invalid_argument",
        Code::DeadlineExceeded => "deadline_exceeded",
        Code::NotFound => "not_found",
        Code::AlreadyExists => "already_exists",
        Code::PermissionDenied => "permission_denied",
        Code::ResourceExhausted => "resource_exhausted",
        Code::FailedPrecondition => "failed_precondition",
        Code::Aborted => "aborted",
        Code::OutOfRange => "out_of_range",
        Code::Unimplemented => "unimplemented",
        Code::Internal => "internal",
        Code::Unavailable => "unavailable",
        Code::DataLoss => "data_loss",
        Code::Unauthenticated => "unauthenticated",
    }
}

/// Returns the HTTP status of an answer with this code.
pub(super) fn http_status(code: Code) -> StatusCode {
    match code {
        // A client that cancels a call reads no answer; HTTP itself has no such status.
        Code::Cancelled => StatusCode::from_u16(499).unwrap_or(StatusCode::REQUEST_TIMEOUT),
        Code::InvalidArgument | Code::FailedPrecondition | Code::OutOfRange => {
            StatusCode::BAD_REQUEST
        }
        Code::DeadlineExceeded => StatusCode::GATEWAY_TIMEOUT,
        Code::NotFound => StatusCode::NOT_FOUND,
        Code::AlreadyExists | Code::Aborted => StatusCode::CONFLICT,
        Code::PermissionDenied => StatusCode::FORBIDDEN,
        Code::ResourceExhausted => StatusCode::TOO_MANY_REQUESTS,
        Code::Unimplemented => StatusCode::NOT_IMPLEMENTED,
        Code::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
        Code::Unauthenticated => StatusCode::UNAUTHORIZED,
        Code::Ok | Code::Unknown | Code::Internal | Code::DataLoss => {
            StatusCode::INTERNAL_SERVER_ERROR
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_have_the_names_and_statuses_of_the_specification() {
        let table = [
            (1, "canceled", 499),
            (2, "unknown", 500),
            (3, "invalid_argument", 400),
            (4, "deadline_exceeded", 504),
            (5, "not_found", 404),
            (6, "already_exists", 409),
            (7, "permission_denied", 403),
            (8, "resource_exhausted", 429),
            (9, "failed_precondition", 400),
            (10, "aborted", 409),
            (11, "out_of_range", 400),
            (12, "unimplemented", 501),
            (13, "internal", 500),
            (14, "unavailable", 503),
            (15, "data_loss", 500),
            (16, "unauthenticated", 401),
        ];
        for (number, expected, status) in table {
            let code = Code::from_i32(number);
            assert_eq!((name(code), http_status(code).as_u16()), (expected, status));
        }
    }

    #[test]
    fn a_decoders_error_is_shown_in_part() {
        assert_eq!(shown(&"short"), "short");
        assert_eq!(shown(&"ü".repeat(1000)).chars().count(), SHOWN + 1);
    }
}

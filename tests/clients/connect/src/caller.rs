//! Request heads as the suite wants them back, and the headers and errors that it asks for.

use std::time::Duration;

use leasehold_server::connect::timeout_of_grpc;
use prost::Message;
use prost_types::Any;
use tokio::time::Instant;
use tonic::{
    Code, Request, Status,
    codegen::http::{HeaderMap, HeaderName, HeaderValue},
    metadata::MetadataMap,
};

use super::proto::{Error, Header, conformance_payload::RequestInfo};

/// Head of a request: its headers, and the time that its client gives it.
pub(super) struct Caller {
    headers: HeaderMap,
    timeout: Option<Duration>,
    /// End of that time.
    pub(super) deadline: Option<Instant>,
}

impl Caller {
    pub(super) fn of<T>(request: &Request<T>) -> Result<Self, Status> {
        let headers = request.metadata().clone().into_headers();
        let timeout = timeout_of_grpc(&headers);
        if timeout.is_none() && headers.contains_key("grpc-timeout") {
            return Err(Status::invalid_argument("grpc-timeout is no time"));
        }
        let deadline = timeout.map(|timeout| Instant::now() + timeout);
        Ok(Self {
            headers,
            timeout,
            deadline,
        })
    }

    /// Returns what the suite wants to know of a request. The query of a GET is not in it: the layer of Connect translates it.
    pub(super) fn info(&self, requests: Vec<Any>) -> RequestInfo {
        let headers = self.headers.keys().map(|name| Header {
            name: name.to_string(),
            value: self.headers.get_all(name).iter().map(shown).collect(),
        });
        RequestInfo {
            request_headers: headers.collect(),
            timeout_ms: self
                .timeout
                .map(|timeout| i64::try_from(timeout.as_millis()).unwrap_or(i64::MAX)),
            requests,
            connect_get_info: None,
        }
    }
}

fn shown(value: &HeaderValue) -> String {
    String::from_utf8_lossy(value.as_bytes()).into_owned()
}

/// Returns a message of the suite as one of any type.
pub(super) fn any(name: &str, message: &impl Message) -> Any {
    Any {
        type_url: format!("type.googleapis.com/connectrpc.conformance.v1.{name}"),
        value: message.encode_to_vec(),
    }
}

/// Returns the headers or trailers that a request asks for.
pub(super) fn metadata(asked: &[Header]) -> Result<MetadataMap, Status> {
    let wrong = |_| Status::invalid_argument("a header that is asked for is not valid");
    let mut headers = HeaderMap::new();
    for header in asked {
        let name = HeaderName::from_bytes(header.name.as_bytes()).map_err(|_| wrong(()))?;
        for value in &header.value {
            let value = HeaderValue::from_str(value).map_err(|_| wrong(()))?;
            headers.append(name.clone(), value);
        }
    }
    Ok(MetadataMap::from_headers(headers))
}

/// Returns the status that a call ends with: the error that its request asks for, with `info` among its details, or none.
pub(super) fn status(
    asked: Option<Error>,
    info: Option<RequestInfo>,
    trailers: MetadataMap,
) -> Status {
    let Some(mut error) = asked else {
        return Status::with_metadata(Code::Ok, "", trailers);
    };
    if let Some(info) = info {
        let info = any("ConformancePayload.RequestInfo", &info);
        error.details.push(info);
    }
    let message = error.message.unwrap_or_default();
    let details = tonic_types::Status {
        code: error.code,
        message: message.clone(),
        details: error.details,
    };
    let details = details.encode_to_vec();
    Status::with_details_and_metadata(error.code.into(), message, details.into(), trailers)
}

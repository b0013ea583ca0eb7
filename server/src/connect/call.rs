//! Head of a Connect request: the method, and the form of its messages.

use std::{collections::HashMap, time::Duration};

use bytes::Bytes;
use prost_reflect::{
    DescriptorPool, MethodDescriptor, prost_types::method_options::IdempotencyLevel,
};
use tonic::{
    Code, Status,
    codegen::http::{
        HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Version, header, request::Parts,
    },
};

use super::{
    codec::Codec,
    encoding::{Encoding, SUPPORTED},
    query::Query,
};

/// Prefix of the content types of streams.
const OF_STREAMS: &str = "application/connect+";
/// Prefix of the content types of unary calls.
const OF_UNARY: &str = "application/";

/// Served methods, by path.
#[derive(Debug)]
pub(super) struct Schema {
    methods: HashMap<String, MethodDescriptor>,
    pub(super) pool: DescriptorPool,
}

/// A call that a request asks for.
#[derive(Clone, Debug)]
pub(super) struct Call {
    pub(super) method: MethodDescriptor,
    pub(super) codec: Codec,
    /// Set if request and answer are one message each, and nothing else.
    pub(super) is_unary: bool,
    pub(super) is_get: bool,
    pub(super) encoding: Encoding,
    pub(super) answer_encoding: Encoding,
    pub(super) timeout: Option<Duration>,
    /// The message of a GET.
    pub(super) message: Option<Bytes>,
}

/// Request that becomes no call.
#[derive(Debug)]
pub(super) enum Refused {
    /// It is none of Connect's.
    Request(Box<Rejection>),
    /// It can be answered as a call.
    Call(Box<(Call, Status)>),
}

/// Answer of HTTP to a request that is none of Connect's.
#[derive(Debug)]
pub(super) struct Rejection {
    pub(super) http: StatusCode,
    pub(super) header: Option<(HeaderName, HeaderValue)>,
    pub(super) status: Status,
}

impl Rejection {
    pub(super) fn new(http: StatusCode, code: Code, message: impl Into<String>) -> Self {
        Self {
            http,
            header: None,
            status: Status::new(code, message),
        }
    }

    pub(super) fn with(mut self, name: HeaderName, value: &'static str) -> Self {
        self.header = Some((name, HeaderValue::from_static(value)));
        self
    }

    pub(super) fn wrong_method(allowed: &'static str, message: &'static str) -> Self {
        Self::new(StatusCode::METHOD_NOT_ALLOWED, Code::Unknown, message)
            .with(header::ALLOW, allowed)
    }

    /// Returns the answer to a request that needs HTTP/2. A client that waits for what never comes gets an end.
    pub(super) fn needs_http2(what: &str) -> Self {
        let message = format!("{what} needs HTTP/2");
        Self::new(
            StatusCode::HTTP_VERSION_NOT_SUPPORTED,
            Code::Unimplemented,
            message,
        )
        .with(header::CONNECTION, "close")
    }
}

impl From<Rejection> for Refused {
    fn from(rejection: Rejection) -> Self {
        Self::Request(Box::new(rejection))
    }
}

impl Schema {
    pub(super) fn new(pool: DescriptorPool) -> Self {
        let services = pool.services();
        let methods = services.flat_map(|service| service.methods().collect::<Vec<_>>());
        let methods = methods.map(|method| {
            let path = format!("/{}/{}", method.parent_service().full_name(), method.name());
            (path, method)
        });
        Self {
            methods: methods.collect(),
            pool,
        }
    }

    /// Returns the method of this path if both of its sides stream.
    pub(super) fn bidirectional(&self, path: &str) -> Option<&MethodDescriptor> {
        let method = self.methods.get(path);
        method.filter(|method| method.is_client_streaming() && method.is_server_streaming())
    }

    /// Returns whether both sides of the method stream, which needs HTTP/2.
    pub(super) fn is_bidirectional(&self, path: &str) -> bool {
        self.bidirectional(path).is_some()
    }

    /// Returns the call that a request of gRPC-Web asks for; `None` if there is no such method, which tonic answers. All messages
    /// have a prefix.
    pub(super) fn call_of_grpc_web(&self, path: &str) -> Option<Call> {
        let method = self.methods.get(path)?;
        Some(Call::of_messages(method.clone(), Codec::Proto))
    }

    /// Returns the call that a request asks for.
    pub(super) fn call(&self, head: &Parts) -> Result<Call, Refused> {
        let path = head.uri.path();
        let Some(method) = self.methods.get(path) else {
            let message = "no such method; the path is /SERVICE/METHOD, such as /leasehold.v1.LockService/Acquire";
            return Err(Rejection::new(StatusCode::NOT_FOUND, Code::Unimplemented, message).into());
        };
        if head.version < Version::HTTP_2 && self.is_bidirectional(path) {
            let what = "without a WebSocket, a call that streams both ways";
            return Err(Rejection::needs_http2(what).into());
        }
        if head.method == Method::GET && is_free_of_side_effects(method) {
            return get(method, head);
        }
        if head.method != Method::POST {
            let (allowed, message) = if is_free_of_side_effects(method) {
                ("GET, POST", "the method is called by POST or GET")
            } else {
                ("POST", "the method is called by POST")
            };
            return Err(Rejection::wrong_method(allowed, message).into());
        }
        post(method, head)
    }
}

/// Returns whether a method may be called by GET.
fn is_free_of_side_effects(method: &MethodDescriptor) -> bool {
    let options = method.method_descriptor_proto().options.as_ref();
    let is_declared = options
        .is_some_and(|options| options.idempotency_level() == IdempotencyLevel::NoSideEffects);
    is_declared && !method.is_client_streaming() && !method.is_server_streaming()
}

fn post(method: &MethodDescriptor, head: &Parts) -> Result<Call, Refused> {
    let is_unary = !method.is_client_streaming() && !method.is_server_streaming();
    let (prefix, accepted) = if is_unary {
        (OF_UNARY, "application/json, application/proto")
    } else {
        (
            OF_STREAMS,
            "application/connect+json, application/connect+proto",
        )
    };
    let content_type = text(&head.headers, &header::CONTENT_TYPE).and_then(without_charset);
    let codec = content_type
        .and_then(|content_type| content_type.strip_prefix(prefix))
        .and_then(Codec::named);
    let Some(codec) = codec else {
        return Err(unsupported(accepted).into());
    };
    let (sent, accepts) = if is_unary {
        (header::CONTENT_ENCODING, header::ACCEPT_ENCODING)
    } else {
        (
            HeaderName::from_static("connect-content-encoding"),
            HeaderName::from_static("connect-accept-encoding"),
        )
    };
    let sent = text(&head.headers, &sent).unwrap_or_default();
    let version = text(&head.headers, "connect-protocol-version").unwrap_or("1");
    let call = Call {
        method: method.clone(),
        codec,
        is_unary,
        is_get: false,
        encoding: Encoding::Identity,
        answer_encoding: Encoding::Identity,
        timeout: None,
        message: None,
    };
    if version != "1" {
        let message = format!("connect-protocol-version must be \"1\"; it is {version:?}");
        return Err(call.refused(Status::invalid_argument(message)));
    }
    call.agree(&head.headers, sent, &accepts)
}

fn get(method: &MethodDescriptor, head: &Parts) -> Result<Call, Refused> {
    let query = Query::parse(head.uri.query().unwrap_or_default());
    let codec = Codec::named(&query.encoding);
    let call = Call {
        method: method.clone(),
        codec: codec.unwrap_or(Codec::Json),
        is_unary: true,
        is_get: true,
        encoding: Encoding::Identity,
        answer_encoding: Encoding::Identity,
        timeout: None,
        message: None,
    };
    if query.encoding.is_empty() {
        let message = "the query has no parameter `encoding`, which is json or proto";
        return Err(call.refused(Status::invalid_argument(message)));
    }
    if codec.is_none() {
        return Err(unsupported("json, proto").into());
    }
    if !matches!(&*query.connect, "" | "v1") {
        let message = format!(
            "the parameter `connect` must be v1; it is {:?}",
            query.connect
        );
        return Err(call.refused(Status::invalid_argument(message)));
    }
    let mut call = call.agree(&head.headers, &query.compression, &header::ACCEPT_ENCODING)?;
    match query.message() {
        Ok(message) => {
            call.message = Some(message);
            Ok(call)
        }
        Err(message) => Err(call.refused(Status::invalid_argument(message))),
    }
}

impl Call {
    /// Returns a call whose messages come one by one, as they are.
    pub(super) const fn of_messages(method: MethodDescriptor, codec: Codec) -> Self {
        Self {
            method,
            codec,
            is_unary: false,
            is_get: false,
            encoding: Encoding::Identity,
            answer_encoding: Encoding::Identity,
            timeout: None,
            message: None,
        }
    }

    /// Reads the encodings and the time-out.
    fn agree(
        mut self,
        headers: &HeaderMap,
        sent: &str,
        accepts: &HeaderName,
    ) -> Result<Self, Refused> {
        let Some(encoding) = Encoding::named(sent) else {
            let message = format!("unknown encoding {sent:?}; the supported ones are {SUPPORTED}");
            return Err(self.refused(Status::unimplemented(message)));
        };
        self.encoding = encoding;
        self.answer_encoding = Encoding::accepted(text(headers, accepts), encoding);
        match timeout(headers) {
            Ok(timeout) => {
                self.timeout = timeout;
                Ok(self)
            }
            Err(message) => Err(self.refused(Status::invalid_argument(message))),
        }
    }

    fn refused(self, status: Status) -> Refused {
        Refused::Call(Box::new((self, status)))
    }
}

fn unsupported(accepted: &'static str) -> Rejection {
    let message = format!("unsupported media type; the method takes {accepted}");
    Rejection::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, Code::Unknown, message)
        .with(HeaderName::from_static("accept-post"), accepted)
}

/// Returns a header's value, if it is text.
fn text(headers: &HeaderMap, name: impl header::AsHeaderName) -> Option<&str> {
    headers.get(name)?.to_str().ok()
}

/// Returns a content type without its parameter, of which only UTF-8 is known.
fn without_charset(content_type: &str) -> Option<&str> {
    let Some((essence, parameter)) = content_type.split_once(';') else {
        return Some(content_type);
    };
    let (name, value) = parameter.split_once('=')?;
    let is_utf8 = name.trim().eq_ignore_ascii_case("charset")
        && value.trim().trim_matches('"').eq_ignore_ascii_case("utf-8");
    is_utf8.then_some(essence.trim_end())
}

/// Returns the time-out that a request asks for.
fn timeout(headers: &HeaderMap) -> Result<Option<Duration>, String> {
    let Some(value) = headers.get("connect-timeout-ms") else {
        return Ok(None);
    };
    let digits = value.as_bytes();
    let are_digits = (1..=10).contains(&digits.len()) && digits.iter().all(u8::is_ascii_digit);
    let millis = value.to_str().ok().filter(|_| are_digits);
    match millis.map(str::parse) {
        Some(Ok(millis)) => Ok(Some(Duration::from_millis(millis))),
        _ => Err(
            "connect-timeout-ms must be a number of milliseconds with at most 10 digits".to_owned(),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_outs_have_at_most_ten_digits() {
        let read = |value: &str| {
            let mut headers = HeaderMap::new();
            headers.insert("connect-timeout-ms", value.parse().unwrap());
            timeout(&headers)
        };
        assert_eq!(timeout(&HeaderMap::new()), Ok(None));
        assert_eq!(read("0"), Ok(Some(Duration::ZERO)));
        assert_eq!(read("1500"), Ok(Some(Duration::from_millis(1500))));
        let longest = Duration::from_millis(9_999_999_999);
        assert_eq!(read("9999999999"), Ok(Some(longest)));
        for wrong in ["", "-1", "+1", "1.5", "1s", "10000000000", "٣"] {
            assert!(read(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn a_content_type_may_name_utf_8() {
        for (charset, is_read) in [
            ("", true),
            (";charset=UTF-8", true),
            (" ; charset=\"utf-8\"", true),
            ("; charset=latin1", false),
            ("; x", false),
        ] {
            let content_type = format!("application/json{charset}");
            let expected = is_read.then_some("application/json");
            assert_eq!(without_charset(&content_type), expected);
        }
    }
}

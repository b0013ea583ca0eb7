//! Opening handshake of a WebSocket.

use base64::Engine;
use bytes::BytesMut;
use http_body::Body as _;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tonic::{
    Code,
    body::Body,
    codegen::http::{
        HeaderMap, HeaderName, HeaderValue, Method, Response, StatusCode, Version, header,
        request::Parts,
    },
};

use super::super::{
    call::{Call, Rejection, Schema},
    codec::Codec,
    metadata,
    query::BASE64,
};

/// Subprotocol of the messages, which the answer selects if the client offers any.
const MESSAGES: &str = "leasehold.v1";
/// Prefix of an offered subprotocol that is no protocol: a bearer token in URL-safe base64 follows. The WebSockets of browsers can
/// send no header of their own.
const BEARER: &str = "leasehold.bearer.";
/// Prefix of the headers that belong to the handshake alone.
const OF_HANDSHAKE: &str = "sec-websocket-";
/// Version of the protocol, the only one in use.
const VERSION: &str = "13";

/// A call that a handshake asks for.
#[derive(Debug)]
pub(in super::super) struct Upgrade {
    pub(in super::super) call: Call,
    key: HeaderValue,
    has_subprotocols: bool,
}

/// Returns whether a request asks for a WebSocket.
pub(in super::super) fn is_asked(head: &Parts, body: &Body) -> bool {
    head.method == Method::GET
        && head.version == Version::HTTP_11
        && body.is_end_stream()
        && tokens(&head.headers, &header::UPGRADE)
            .any(|token| token.eq_ignore_ascii_case("websocket"))
}

impl Upgrade {
    /// Reads a handshake for a call of this path, and makes its headers those of a gRPC request. Returns `None` if the method does
    /// not stream both ways.
    pub(in super::super) fn read(
        head: &mut Parts,
        schema: &Schema,
    ) -> Option<Result<Self, Rejection>> {
        let method = schema.bidirectional(head.uri.path())?;
        let call = Call::of_messages(method.clone(), Codec::Json);
        Some(Self::accept(call, head))
    }

    fn accept(call: Call, head: &mut Parts) -> Result<Self, Rejection> {
        let headers = &mut head.headers;
        if headers
            .get(header::SEC_WEBSOCKET_VERSION)
            .is_none_or(|version| version != VERSION)
        {
            let message = format!("sec-websocket-version must be {VERSION}");
            let status = StatusCode::UPGRADE_REQUIRED;
            let rejection = Rejection::new(status, Code::InvalidArgument, message);
            return Err(rejection.with(header::SEC_WEBSOCKET_VERSION, VERSION));
        }
        if !tokens(headers, &header::CONNECTION).any(|token| token.eq_ignore_ascii_case("upgrade"))
        {
            return Err(bad("the header `connection` must name `upgrade`"));
        }
        let key = headers.get(header::SEC_WEBSOCKET_KEY).filter(|key| {
            let bytes = base64::engine::general_purpose::STANDARD.decode(key);
            bytes.is_ok_and(|bytes| bytes.len() == 16)
        });
        let key = key
            .cloned()
            .ok_or_else(|| bad("sec-websocket-key must be 16 bytes in base64"))?;
        let offered: Vec<_> = tokens(headers, &header::SEC_WEBSOCKET_PROTOCOL)
            .map(str::to_owned)
            .collect();
        if !offered.is_empty() && !offered.iter().any(|one| one == MESSAGES) {
            // The values may be secret.
            let message = format!("none of the offered subprotocols is known; offer {MESSAGES}");
            return Err(bad(message));
        }
        let credentials = offered.iter().filter_map(|one| one.strip_prefix(BEARER));
        let credentials: Option<Vec<_>> = credentials.map(authorization).collect();
        let credentials = credentials.ok_or_else(|| {
            bad(format!(
                "a subprotocol {BEARER}TOKEN must have a bearer token in URL-safe base64"
            ))
        })?;
        let of_handshake = headers
            .keys()
            .filter(|name| name.as_str().starts_with(OF_HANDSHAKE))
            .cloned();
        for name in of_handshake.collect::<Vec<_>>() {
            headers.remove(name);
        }
        metadata::to_grpc(headers, None);
        for value in credentials {
            headers.append(header::AUTHORIZATION, value);
        }
        head.method = Method::POST;
        Ok(Self {
            call,
            key,
            has_subprotocols: !offered.is_empty(),
        })
    }

    /// Returns the answer, after which the connection is a WebSocket.
    pub(in super::super) fn answer(&self) -> Response<Body> {
        let mut response = Response::new(Body::empty());
        *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
        let headers = response.headers_mut();
        headers.insert(header::CONNECTION, HeaderValue::from_static("upgrade"));
        headers.insert(header::UPGRADE, HeaderValue::from_static("websocket"));
        // Base64 is a value of a header.
        if let Ok(accept) = HeaderValue::try_from(derive_accept_key(self.key.as_bytes())) {
            headers.insert(header::SEC_WEBSOCKET_ACCEPT, accept);
        }
        if self.has_subprotocols {
            let messages = HeaderValue::from_static(MESSAGES);
            headers.insert(header::SEC_WEBSOCKET_PROTOCOL, messages);
        }
        response
    }
}

/// Returns the members of a header that is a list.
fn tokens<'h>(headers: &'h HeaderMap, name: &HeaderName) -> impl Iterator<Item = &'h str> {
    let values = headers.get_all(name).into_iter();
    let texts = values.filter_map(|value| value.to_str().ok());
    texts
        .flat_map(|text| text.split(','))
        .map(str::trim)
        .filter(|token| !token.is_empty())
}

/// Returns the header of a token; `None` if it is not one.
fn authorization(token: &str) -> Option<HeaderValue> {
    let token = BASE64.decode(token).ok()?;
    let mut value = BytesMut::from(&b"Bearer "[..]);
    value.extend_from_slice(&token);
    let mut value = HeaderValue::from_maybe_shared(value.freeze()).ok()?;
    value.set_sensitive(true);
    Some(value)
}

fn bad(message: impl Into<String>) -> Rejection {
    Rejection::new(StatusCode::BAD_REQUEST, Code::InvalidArgument, message)
}

//! Protocol of a request, by its content type.

use tonic::codegen::http::{HeaderValue, Request, header};

/// Content types of gRPC-Web.
const GRPC_WEB: [&str; 4] = [
    "application/grpc-web",
    "application/grpc-web+proto",
    "application/grpc-web-text",
    "application/grpc-web-text+proto",
];

/// Protocol of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Protocol {
    Grpc,
    GrpcWeb,
    Connect,
    /// Content types that look like gRPC's.
    Unknown,
}

impl Protocol {
    pub(super) fn of<B>(request: &Request<B>) -> Self {
        let content_type = request.headers().get(header::CONTENT_TYPE);
        let content_type = content_type.map_or(&b""[..], HeaderValue::as_bytes);
        match content_type.strip_prefix(b"application/grpc") {
            Some([] | [b';', ..] | b"+proto") => Self::Grpc,
            Some(suffix) if suffix.starts_with(b"+proto;") => Self::Grpc,
            None => Self::Connect,
            Some(_)
                if GRPC_WEB
                    .iter()
                    .any(|known| known.as_bytes() == content_type) =>
            {
                Self::GrpcWeb
            }
            Some(_) => Self::Unknown,
        }
    }
}

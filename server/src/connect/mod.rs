//! Connect protocol and gRPC-Web, on the port of gRPC.
//!
//! [`ConnectLayer`] stands in front of all other layers. It passes gRPC on as it is, and translates everything else: a request
//! becomes the gRPC request of the same method, and gRPC's answer becomes that of the client's protocol. So limits, permissions,
//! metrics and handlers exist once, and know gRPC alone. The methods and their messages come from descriptors; nothing here knows
//! a service.
//!
//! - `layer`: origins of web pages, and the call itself; `protocol`: which one a request is of; `body`: that of an answer;
//! - `call`: head of a Connect request: method, codec, encodings, time-out; `query` has those of a GET;
//! - `request`: body of a request, from Connect's messages to gRPC's frames, as it is read;
//! - `websocket`: calls that stream both ways over HTTP/1.1;
//! - `rest`: what is left of a request that was answered early;
//! - `answer`: gRPC's answer, as one message or as a stream that ends with its status;
//! - `codec`, `encoding`, `envelope`: JSON, gzip, and messages with a prefix, within bounds;
//! - `error`, `metadata`: statuses as JSON and as HTTP has them; headers and trailers.
//!
//! The reference is <https://connectrpc.com/docs/protocol>. Leasehold's own choices: unknown fields and keys that occur twice are
//! errors, because a misspelt `ttl` must not become the default; the answer to a GET may not be stored.

mod answer;
mod body;
mod call;
mod codec;
mod encoding;
mod envelope;
mod error;
mod layer;
mod metadata;
mod protocol;
mod query;
mod request;
mod rest;
#[cfg(test)]
mod tests;
mod websocket;

pub use body::Answer;
pub use layer::{Answering, ConnectLayer};
pub use metadata::timeout_of_grpc;

//! Connect, JSON over HTTP and gRPC-Web: the same coordinator, on the same port, over HTTP/1.1 and HTTP/2.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests"
)]

mod browsers;
mod connections;
mod hostile;
mod openapi;
mod streams;
mod unary;
mod websockets;

//! Connect, JSON over HTTP and gRPC-Web: the same coordinator, on the same port, over HTTP/1.1 and HTTP/2.

mod browsers;
mod connections;
mod hostile;
mod openapi;
mod streams;
mod unary;
mod websockets;

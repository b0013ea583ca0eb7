//! The coordinator's own accept loop and admin port: how connections begin, end and are cut.

mod admin_http;
mod exhausted;
mod listener;
mod listener_http2;
mod support;

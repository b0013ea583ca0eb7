//! Calls of the API in every protocol and from every client: what one coordinator answers, refuses and keeps.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests fail by panicking"
)]

mod access;
mod connect;
mod e2e;

//! A link against a real Redis server: replies, outages and refusals.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests"
)]

mod commands;
mod outages;
mod refusals;
mod server;
mod tls;

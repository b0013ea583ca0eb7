//! Feeds of both stores: what is told, to whom, and in which order; and what it costs whom.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests"
)]

mod cost;
mod errors;
mod follow;
mod order;
mod outages;
mod proxy;
#[path = "../link/server.rs"]
#[expect(dead_code, reason = "shared with the tests of the link")]
mod server;
mod world;

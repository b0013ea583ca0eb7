//! Feeds of both stores: their contents, order and recipients, and their cost.

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

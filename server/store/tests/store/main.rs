//! Links to Redis, feeds of both stores, and the votes of a quorum.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod feed;
mod link;
mod server;
mod votes;

//! Links to Redis, feeds of both stores, and the votes of a quorum.

mod feed;
mod link;
#[path = "../../fixtures/ports.rs"]
#[expect(unreachable_pub, reason = "it is a public module of leasehold-tests")]
mod ports;
mod server;
mod votes;

//! Every kind of store: the same cases on each, and what is special to replicas, Sentinel, Cluster and a quorum.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests fail by panicking"
)]

mod cluster;
mod conformance;
mod quorum;
mod replicas;
mod sentinel;
mod store;

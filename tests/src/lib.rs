//! Fixtures of Leasehold's end-to-end and fault suites: real Redis servers, alone and in
//! every topology, coordinators in and out of process, a proxy
//! that breaks connections on purpose, and sessions at the level of the wire.
//!
//! Everything listens on loopback, on a port of its own, and ends with its handle; a child process also ends when the
//! test process dies, however it dies. A fixture that cannot start fails the test with a message that says what to do.
//!
//! ```no_run
//! # async fn demo() {
//! use leasehold_tests::{Coordinator, RedisServer};
//!
//! let redis = RedisServer::start();
//! let coordinator = Coordinator::process().store(redis.url()).start();
//! println!("a coordinator serves {} on {}", redis.url(), coordinator.endpoint());
//! # }
//! ```
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a fixture that cannot do its work fails the test that uses it"
)]

pub mod abuse;
pub mod alone;
pub mod audit;
pub mod binaries;
pub mod certificates;
pub mod cluster;
pub mod collector;
pub mod coordinator;
mod doc;
mod grpcurl;
pub mod hosts;
mod json;
pub mod latency;
pub mod load;
pub mod masters;
pub mod node;
pub mod ports;
mod preload;
pub mod process;
pub mod proxy;
pub mod python;
pub mod queue;
pub mod raw;
pub mod raw_bytes;
pub mod redis_proxy;
pub mod redis_server;
pub mod replicas;
pub mod resource;
pub mod sentinels;
pub mod soak;
pub mod stalls;
pub mod system_calls;
pub mod terminal;
pub mod usage;
pub mod wait;
pub mod wall_clock;
pub mod worker;

pub use abuse::Abuser;
pub use certificates::Authority;
pub use cluster::Cluster;
pub use coordinator::{Coordinator, CoordinatorProcess};
pub use doc::doc;
pub use grpcurl::path_with_grpcurl;
pub use hosts::{Host, Network};
pub use latency::{Latencies, report};
pub use masters::Masters;
pub use process::ChildProcess;
pub use proxy::FaultProxy;
pub use raw::{RawCandidate, RawObserver, RawSession};
pub use redis_proxy::RedisProxy;
pub use redis_server::RedisServer;
pub use replicas::Replicas;
pub use resource::FencedResource;
pub use sentinels::Sentinels;
pub use system_calls::SystemCalls;
pub use terminal::Terminal;
pub use wall_clock::WallClock;
pub use worker::Worker;

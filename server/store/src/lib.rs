//! Stores of locks.
//!
//! [`LockStore`] is the interface of a store for coordinators. [`Store`] is one of
//!
//! - [`memory::MemoryStore`]: the embedded default. Needs no server, serves one coordinator, and ends with it.
//! - [`redis::RedisStore`]: a Redis server (6.2 or later), any number of coordinators; or the master that sentinels
//!   name, followed through fail-overs; or a Redis Cluster.
//! - [`quorum::QuorumStore`]: several independent Redis servers, of which a majority has to agree.
//!
//! [`open`] chooses by URL. [`examine`](mod@examine) asks a store's servers how they are set up, for operators.

#![cfg_attr(
    test,
    expect(clippy::unwrap_used, clippy::panic, reason = "tests fail by panicking")
)]

mod cause;
pub mod certificates;
pub mod clock;
pub mod examine;
mod feed;
mod lane;
pub mod measure;
pub mod memory;
mod open;
pub mod quorum;
pub mod redis;
mod store;
mod watched_files;

/// Readers of what Redis replies and publishes, for the fuzz targets in `tests/fuzz`. No part of the API.
#[doc(hidden)]
pub mod fuzzing {
    pub use crate::{
        quorum::fuzzing::{read_record, read_reply as read_reply_of_quorum},
        redis::fuzzing::{read_cluster, read_published, read_reply},
    };
}

pub use crate::redis::{
    status::LinkStatus as Status,
    url::{StoreUrlError, TlsFiles},
};
pub use feed::{Feed, FeedItem, Subject, Told};
pub use leasehold_core::failure::StoreError;
pub use open::{check_url, open};
pub use store::{
    Acknowledgement, Answer, Answers, EndedSessions, Exchanged, Listed, LockStore, Marks, Observer,
    Options, Page, Stamped, Store, WakeUp,
};
pub use watched_files::WatchedFiles;

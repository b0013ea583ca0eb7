//! Embedded store.
//!
//! - `store`: the rules of `leasehold-core` behind a mutex.
//! - `feeds`: the feeds of changes.

mod feeds;
mod store;

pub use store::MemoryStore;

//! The embedded store.
//!
//! - `store`: the rules of `leasehold-core` behind a mutex.
//! - `feeds`: who is told of what happens.

mod feeds;
mod store;

pub use store::MemoryStore;

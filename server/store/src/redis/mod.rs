//! Locks in Redis.
//!
//! - [`store`]: the [`LockStore`](crate::LockStore) itself.
//! - [`keys`]: the one place where key strings are made.
//! - [`encode`] and [`decode`]: commands to script calls, and replies to answers. The scripts are in `lua/`.
//! - [`blocked`]: what coordinators tell one another for the detector of deadlocks.
//! - [`lanes`]: commands coalesced into few calls.
//! - `feed` and `telling`: what scripts publish of what happens to locks, and how it is read.
//! - [`link`]: connections to one server, ours because a lease service must know when one is dead.
//! - [`url`] and [`status`]: where a server is, and whether it can be reached.

pub mod blocked;
pub mod decode;
pub mod encode;
pub mod keys;
pub mod lanes;
pub mod link;
pub mod status;
pub mod store;
pub mod url;

mod dial;
mod feed;
mod handshake;
mod listening;
mod replies;
mod slot;
mod telling;
mod upkeep;

pub use store::RedisStore;

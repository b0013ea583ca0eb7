//! Locks in Redis.
//!
//! - [`store`]: the [`LockStore`](crate::LockStore) itself.
//! - [`keys`]: the one place where key strings are made.
//! - [`encode`] and [`decode`]: commands to script calls, and replies to answers (of `fields`). The scripts are in `lua/`.
//! - [`blocked`]: exchange of blocked waits between coordinators, for the detector of deadlocks.
//! - [`lanes`]: commands coalesced into few calls.
//! - [`acknowledge`]: has replicas acknowledge what was done, before anybody is told of it; `pending` is what waits for
//!   that.
//! - `feed` and `telling`: what scripts publish of what happens to locks, and how it is read.
//! - [`link`]: connections to one server, ours because a lease service must know when one is dead.
//! - `place` and `sentinel`: where a link leads, which may change.
//! - [`url`] and [`status`]: where a server is, and whether it can be reached.

pub mod acknowledge;
pub mod blocked;
pub mod cluster;
pub mod decode;
pub mod encode;
pub mod keys;
pub mod lanes;
pub mod link;
pub mod status;
pub mod store;
pub mod url;

mod batch;
mod call;
mod dial;
pub(crate) mod errors;
mod feed;
pub(crate) mod fields;
mod handshake;
mod listening;
mod pending;
mod place;
mod replies;
mod reroute;
mod sentinel;
mod server_clock;
mod slot;
mod telling;
mod upkeep;
mod wake_up;

pub use cluster::ClusterStore;
pub use store::RedisStore;

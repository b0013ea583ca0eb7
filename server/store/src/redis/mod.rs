//! Locks in Redis.
//!
//! - [`store`]: the [`LockStore`](crate::LockStore) itself.
//! - [`keys`]: makes all key strings.
//! - [`encode`] and [`decode`]: make script calls of commands (with `packed`), and answers of replies (with `fields`). The scripts are
//!   in `lua/`.
//! - [`blocked`]: exchange of blocked waits between coordinators, for the detector of deadlocks.
//! - [`ended`]: marks of sessions that operators have ended.
//! - `examine`: asks a server for what an operator judges it by.
//! - `lanes`: coalesces commands into few calls.
//! - `acknowledge`: waits for acknowledgements of replicas; `pending` has the answers that wait for that.
//! - `feed` and `telling`: the feed of changes that scripts publish, and its decoder.
//! - [`link`]: connections to one server. The Redis library's do not show when one is dead, which a lease service must know.
//! - `cluster`: the nodes of a cluster.
//! - `place` and `sentinel`: the server that a link leads to, which may change.
//! - [`url`], `address` and [`status`]: the address of a server, and whether it can be reached.

pub mod blocked;
pub mod decode;
pub mod encode;
pub mod ended;
pub mod keys;
pub mod link;
pub mod status;
pub mod store;
pub mod url;

mod acknowledge;
mod address;
mod batch;
pub(crate) mod call;
pub(crate) mod cluster;
mod dial;
pub(crate) mod errors;
pub(crate) mod examine;
mod feed;
pub(crate) mod fields;
pub(crate) mod fuzzing;
pub(crate) mod handshake;
mod lanes;
mod listening;
pub(crate) mod packed;
mod pending;
mod place;
#[cfg(feature = "planted")]
mod planted;
mod replies;
mod reroute;
pub(crate) mod sentinel;
pub(crate) mod server_clock;
mod slot;
mod telling;
mod upkeep;
pub(crate) mod wake_up;

pub use store::RedisStore;

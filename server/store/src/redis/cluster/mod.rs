//! Locks in a Redis Cluster, over a [`link`](super::link) to each master.
//!
//! - `store`: the [`LockStore`](crate::LockStore) itself.
//! - `router`: each command to the node that serves its slot, and on to another one where that did not carry it out.
//! - `keeper`, `ask`, `view`, `map`: which node that is, and whether the cluster can be used.
//! - `node`, `address`: one master.
//! - `wakes`: by what it wakes this coordinator.
//! - `feed`: what happens to locks, told by all of them.
//!
//! A command that was redirected may be overtaken by others of the same lock that were not: those name fewer keys, and can
//! be carried out while the lock is on its way to another node. Whatever order matters, the coordinator sees to it by waiting
//! for the answer; a release that overtakes the acquire of its own owner id is repeated until that can't arrive any more,
//! since what is sent on counts from when it was sent first.

mod address;
mod ask;
mod feed;
mod keeper;
mod map;
mod node;
mod router;
mod store;
mod view;
mod wakes;

pub use store::ClusterStore;

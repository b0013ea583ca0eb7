//! Locks in a Redis Cluster, over a [`link`](super::link) to each master.
//!
//! - `store`: the [`LockStore`](crate::LockStore) itself.
//! - `router`: sends each command to the node that serves its slot, and to another one if that did not carry it out.
//! - `keeper`, `ask`, `view`, `map`: determine that node, and whether the cluster can be used.
//! - `node`: one master.
//! - `wakes`: the wake-ups of one master.
//! - `feed`: the feed of changes from all masters.
//!
//! A redirected command may be overtaken by others of the same lock that were not redirected: those name fewer keys, and can be
//! executed while the lock moves to another node. If the order matters, the coordinator waits for the answer. It repeats a
//! release that overtakes the acquire of its own owner id until that acquire can no longer arrive, because a redirected command
//! keeps its first deadline.

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

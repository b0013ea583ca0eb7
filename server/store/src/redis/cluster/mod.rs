//! Locks in a Redis Cluster, over a [`link`](super::link) to each master.
//!
//! - `router`: sends each command to the node that serves its slot, and to another one if that did not carry it out.
//! - `keeper`, `ask`, `view`, `map`: determine that node, and whether the cluster can be used.
//! - `node`: one master.
//! - `wakes`: the wake-ups of one master.
//! - `examine`: asks all masters for what an operator judges them by.
//! - `feed`: the feed of changes from all masters; `list`: pages of names.
//!
//! A redirected command may be overtaken by others of the same lock that were not redirected: those name fewer keys, and can be
//! executed while the lock moves to another node. If the order matters, the coordinator waits for the answer. It repeats a
//! release that overtakes the acquire of its own owner id until that acquire can no longer arrive, because a redirected command
//! keeps its first deadline.

mod ask;
pub(crate) mod examine;
pub(super) mod feed;
pub(super) mod keeper;
pub(super) mod list;
mod map;
mod node;
pub(super) mod router;
mod view;
mod wakes;

use tokio::sync::mpsc;

use super::keys::Keys;
use crate::store::{Options, WakeUp};

/// Reads a view of the cluster from replies in the place of a node's. Returns the reason if it is refused.
pub(super) fn read_view(slots: &redis::Value, nodes: &redis::Value) -> Option<String> {
    let replies = [slots, nodes].map(|reply| super::replies::into_result(reply.clone()));
    let asked = super::address::Address::new("127.0.0.1", 6379);
    let fault = ask::read(replies.into(), &asked).err()?;
    Some(fault.reason.to_string())
}

/// Settings that all nodes share.
pub(super) struct Common {
    pub(super) options: Options,
    pub(super) keys: Keys,
    pub(super) wake_ups: mpsc::Sender<WakeUp>,
}

//! Registry of the owner ids that this coordinator knows, and of the tasks to notify of what happens to them.

use std::{
    collections::{HashMap, hash_map::Entry},
    sync::Arc,
};

use leasehold_core::{
    command::{Loss, ReleaseRequest},
    id::{FencingToken, OwnerId},
    session::RegistryEvent,
};
use parking_lot::{Mutex, MutexGuard};

use super::inbox::{Inbox, InboxEvent};

/// Number of parts of the registry, so that sessions seldom wait for each other.
const SHARDS: usize = 16;

/// Meaning of an owner id at this coordinator.
#[derive(Debug)]
enum OwnerState {
    /// An acquire that is in flight or waits.
    Waits(Arc<Inbox>),
    /// A grant on its way to whoever asked, or a release on its way to the store.
    Settling,
    /// A session's hold.
    Held(Arc<Inbox>),
}

/// The owner ids of every acquire in flight, waiter and session hold of this coordinator. An owner id is in it from
/// before its acquire is sent until its release was carried out, so that a grant to one that is not is nobody's.
#[derive(Debug, Default)]
pub struct Registry {
    shards: [Mutex<HashMap<OwnerId, OwnerState>>; SHARDS],
}

impl Registry {
    /// Notes an acquire that is about to be sent.
    pub fn wait(&self, owner: OwnerId, inbox: Arc<Inbox>) {
        self.shard(&owner).insert(owner, OwnerState::Waits(inbox));
    }

    /// Does the same for an owner id that a client made. Returns false, and notes nothing, if it is known already.
    pub fn claim(&self, owner: OwnerId, session: Arc<Inbox>) -> bool {
        match self.shard(&owner).entry(owner) {
            Entry::Occupied(_) => false,
            Entry::Vacant(free) => {
                free.insert(OwnerState::Waits(session));
                true
            }
        }
    }

    /// Notes that an owner id's fate is being settled: a grant to it is nobody's.
    pub fn settle(&self, owner: &OwnerId) {
        self.shard(owner).insert(*owner, OwnerState::Settling);
    }

    /// Notes a session's hold; the session hears if it is taken.
    pub fn hold(&self, owner: &OwnerId, session: Arc<Inbox>) {
        self.shard(owner).insert(*owner, OwnerState::Held(session));
    }

    /// Forgets an owner id.
    pub fn forget(&self, owner: &OwnerId) {
        self.shard(owner).remove(owner);
    }

    /// Returns whether the owner id is known at all.
    pub fn knows(&self, owner: &OwnerId) -> bool {
        self.shard(owner).contains_key(owner)
    }

    /// Returns whether the owner id waits, or may.
    pub fn waits(&self, owner: &OwnerId) -> bool {
        matches!(self.shard(owner).get(owner), Some(OwnerState::Waits(_)))
    }

    /// Gives the end of its wait to a waiter. Returns false if there is no such waiter any more.
    pub fn deliver(&self, owner: &OwnerId, event: RegistryEvent) -> bool {
        let mut shard = self.shard(owner);
        let Some(state @ OwnerState::Waits(_)) = shard.get_mut(owner) else {
            return false;
        };
        let OwnerState::Waits(inbox) = std::mem::replace(state, OwnerState::Settling) else {
            return false;
        };
        drop(shard);
        inbox.put(InboxEvent::Registry(*owner, event));
        true
    }

    /// Tells the session that holds the owner id that it was taken. Returns false if no session here does.
    pub fn take(&self, owner: &OwnerId, loss: Loss) -> bool {
        match self.shard(owner).get(owner) {
            Some(OwnerState::Held(session)) => {
                session.put(InboxEvent::Registry(*owner, RegistryEvent::Lost(loss)));
                true
            }
            _ => false,
        }
    }

    /// Tells the session that holds the owner id that an operator asks for the release of the grant with this token. Does nothing if
    /// no session here does.
    pub fn ask(&self, owner: &OwnerId, token: FencingToken, request: Arc<ReleaseRequest>) {
        if let Some(OwnerState::Held(session)) = self.shard(owner).get(owner) {
            session.ask(*owner, token, request);
        }
    }

    /// Tells whoever has the owner id here that another stream resumed it. A grant that is on its way to its session finds
    /// out at its first renewal. A waiter may be giving up just now: the release of an owner id that stands for nothing does
    /// nothing.
    pub fn moved(&self, owner: &OwnerId) {
        if !self.take(owner, Loss::Resumed) {
            self.deliver(owner, RegistryEvent::Moved);
        }
    }

    fn shard(&self, owner: &OwnerId) -> MutexGuard<'_, HashMap<OwnerId, OwnerState>> {
        let shard = usize::from(owner.as_bytes()[0]) % SHARDS;
        self.shards[shard].lock()
    }
}

#[cfg(test)]
mod tests;

//! Registry of the owner ids that this coordinator knows, and of the tasks to notify of what happens to them.

use std::{
    collections::{HashMap, hash_map::Entry},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use leasehold_core::{
    command::Loss,
    id::{FencingToken, OwnerId},
    name::LockName,
    time::Moment,
};
use leasehold_store::StoreError;
use tokio::sync::oneshot;

use super::inbox::{Inbox, News};

/// How many parts the registry is split into, so that sessions seldom wait for each other.
const SHARDS: usize = 16;

/// What ends a wait, on its way to the waiter.
#[derive(Debug)]
pub enum Delivery {
    /// A grant that was made for it.
    Granted {
        /// Its token.
        token: FencingToken,
        /// When the command that granted or confirmed it was sent: it stands at least its TTL from here.
        sent_at: Moment,
    },
    /// Another stream resumed its place.
    Moved,
    /// A grant was made for it and does not count: it is to be given back.
    Failed(StoreError),
}

/// A hold that was taken from its session.
#[derive(Debug)]
pub struct Taken {
    /// The lock.
    pub name: LockName,
    /// The hold.
    pub owner: OwnerId,
    /// Why.
    pub loss: Loss,
}

/// What an owner id stands for at this coordinator.
#[derive(Debug)]
enum Known {
    /// An acquire that is in flight.
    Asked,
    /// One that was handed the lock before it was known to wait.
    Delivered(Delivery),
    /// One that waits.
    Waiting(oneshot::Sender<Delivery>),
    /// A grant on its way to whoever asked, or a release on its way to the store.
    InFlight,
    /// A session's hold.
    Held(Arc<Inbox>),
}

/// The owner ids of every acquire in flight, waiter and session hold of this coordinator. An owner id is in it from
/// before its acquire is sent until its release was carried out, so that a grant to one that is not is nobody's.
#[derive(Debug, Default)]
pub struct Registry {
    shards: [Mutex<HashMap<OwnerId, Known>>; SHARDS],
}

impl Registry {
    /// Notes an acquire that is about to be sent.
    pub fn ask(&self, owner: OwnerId) {
        self.shard(&owner).insert(owner, Known::Asked);
    }

    /// The same of an owner id that a client made: false, and nothing is noted, if it is known already.
    pub fn claim(&self, owner: OwnerId) -> bool {
        match self.shard(&owner).entry(owner) {
            Entry::Occupied(_) => false,
            Entry::Vacant(free) => {
                free.insert(Known::Asked);
                true
            }
        }
    }

    /// Notes that an acquire waits; its grant arrives at the receiver, or has.
    pub fn wait(&self, owner: OwnerId) -> oneshot::Receiver<Delivery> {
        let (sender, receiver) = oneshot::channel();
        let mut shard = self.shard(&owner);
        if let Some(Known::Delivered(delivery)) = shard.remove(&owner) {
            shard.insert(owner, Known::InFlight);
            // The receiver is at hand.
            let _ = sender.send(delivery);
        } else {
            shard.insert(owner, Known::Waiting(sender));
        }
        receiver
    }

    /// Notes that an owner id's fate is being settled.
    pub fn in_flight(&self, owner: &OwnerId) {
        self.shard(owner).insert(*owner, Known::InFlight);
    }

    /// Notes a session's hold; the session hears if it is taken.
    pub fn held(&self, owner: &OwnerId, session: Arc<Inbox>) {
        self.shard(owner).insert(*owner, Known::Held(session));
    }

    /// Forgets an owner id.
    pub fn forget(&self, owner: &OwnerId) {
        self.shard(owner).remove(owner);
    }

    /// Whether the owner id is known at all.
    pub fn knows(&self, owner: &OwnerId) -> bool {
        self.shard(owner).contains_key(owner)
    }

    /// Whether the owner id waits, or may.
    pub fn waits(&self, owner: &OwnerId) -> bool {
        matches!(
            self.shard(owner).get(owner),
            Some(Known::Asked | Known::Waiting(_))
        )
    }

    /// Gives a grant to its waiter; false if there is no such waiter any more.
    pub fn deliver(&self, owner: &OwnerId, delivery: Delivery) -> bool {
        let mut shard = self.shard(owner);
        match shard.remove(owner) {
            Some(Known::Waiting(waiter)) => {
                shard.insert(*owner, Known::InFlight);
                drop(shard);
                waiter.send(delivery).is_ok()
            }
            Some(Known::Asked) => {
                shard.insert(*owner, Known::Delivered(delivery));
                true
            }
            Some(other) => {
                shard.insert(*owner, other);
                false
            }
            None => false,
        }
    }

    /// Tells the session that holds the owner id that it was taken; false if no session here does.
    pub fn take(&self, name: &LockName, owner: &OwnerId, loss: Loss) -> bool {
        match self.shard(owner).get(owner) {
            Some(Known::Held(session)) => {
                session.put(News::Taken(Taken {
                    name: name.clone(),
                    owner: *owner,
                    loss,
                }));
                true
            }
            _ => false,
        }
    }

    /// Another stream resumed what the owner id stood for: tells whoever has it here. A grant that is on its way to its
    /// session finds out at its first renewal.
    pub fn moved(&self, name: &LockName, owner: &OwnerId) {
        if !self.take(name, owner, Loss::Resumed) {
            let mut shard = self.shard(owner);
            if let Some(Known::Waiting(_)) = shard.get(owner)
                && let Some(Known::Waiting(waiter)) = shard.insert(*owner, Known::InFlight)
            {
                drop(shard);
                // It may be giving up just now: the release of an owner id that stands for nothing does nothing.
                let _ = waiter.send(Delivery::Moved);
            }
        }
    }

    fn shard(&self, owner: &OwnerId) -> MutexGuard<'_, HashMap<OwnerId, Known>> {
        let shard = usize::from(owner.as_bytes()[0]) % SHARDS;
        // A panic elsewhere can't leave the map torn: each use is one insert, look-up or removal.
        self.shards[shard]
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests;

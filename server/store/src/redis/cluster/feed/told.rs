//! Messages from the masters, made into the items of a feed.

use std::{
    collections::{HashMap, HashSet},
    sync::{Mutex, MutexGuard, PoisonError, Weak},
};

use leasehold_core::{id::FeedId, name::LockName};
use redis::{PushInfo, PushKind, Value};
use tokio::sync::{Notify, mpsc};

use super::super::{
    super::{
        address::Address,
        dial::Full,
        keys::{Channels, Keys, slot_of},
        listening::give,
        telling,
    },
    router::Router,
};
use crate::feed::{self, FeedItem, Subject};

/// Connection to a master.
#[derive(Clone, Debug)]
pub(super) struct Origin {
    pub(super) address: Address,
    /// Its number, unique within the feed.
    pub(super) connection: u64,
}

/// State that the connections of a feed share.
pub(super) struct Told {
    pub(super) id: FeedId,
    pub(super) router: Weak<Router>,
    pub(super) keys: Keys,
    pub(super) channels: Channels,
    pub(super) items: mpsc::Sender<FeedItem>,
    pub(super) state: Mutex<State>,
    /// Notified when a node has stopped reporting a slot.
    pub(super) slot_gone: Notify,
}

/// Progress of a round. The feed begins a new round whenever it may have missed something.
#[derive(Default)]
pub(super) struct State {
    /// The connections at its beginning; before that and after its end none, and the feed reports nothing.
    pub(super) nodes: HashSet<u64>,
    /// The connections over which everything is followed.
    pub(super) everything: HashSet<u64>,
    /// The slots to whose own channels it listens, with their connections. They outlast the round.
    pub(super) slots: HashMap<u16, u64>,
    /// The names that it follows over the channels of their slots.
    pub(super) names: HashMap<u16, HashSet<LockName>>,
}

impl State {
    /// Stops following anything.
    pub(super) fn end_round(&mut self) {
        self.nodes.clear();
        self.everything.clear();
        self.names.clear();
    }

    /// Forgets the slots of all other connections than these.
    pub(super) fn keep(&mut self, connections: &HashSet<u64>) {
        self.slots.retain(|_, by| connections.contains(by));
    }

    /// Notes that this connection does not listen to a slot any more. Returns whether it did.
    pub(super) fn forget(&mut self, slot: u16, connection: u64) -> bool {
        let listened = self.slots.get(&slot) == Some(&connection);
        if listened {
            self.slots.remove(&slot);
        }
        listened
    }

    fn follows_everything(&self) -> bool {
        !self.nodes.is_empty() && self.everything.len() == self.nodes.len()
    }

    fn follows(&self, slot: u16, name: &LockName) -> bool {
        self.names
            .get(&slot)
            .is_some_and(|names| names.contains(name))
    }
}

impl Told {
    /// Processes a node's message.
    pub(super) fn take(
        &self,
        PushInfo { kind, data }: PushInfo,
        from: &Origin,
    ) -> Result<(), Full> {
        // There is one for each slot, and the caller has the reply.
        if kind == PushKind::SSubscribe {
            return Ok(());
        }
        let mut data = data.into_iter();
        let Some(Value::BulkString(channel)) = data.next() else {
            return Ok(());
        };
        let mut state = self.state();
        if kind == PushKind::SUnsubscribe {
            // If the feed did not unsubscribe, the slot has moved to another node, and the map may be outdated.
            let slot = slot_of(&channel);
            if state.forget(slot, from.connection) && self.serves(slot, from) {
                self.slot_gone.notify_one();
            }
            return Ok(());
        }
        if !state.nodes.contains(&from.connection) {
            return Ok(());
        }
        let subject = telling::subject(&channel, &self.channels, &self.keys);
        let item = match (kind, subject, data.next()) {
            (PushKind::Subscribe, Some(Subject::Everything), _) => {
                let is_last = state.everything.insert(from.connection)
                    && state.everything.len() == state.nodes.len();
                is_last.then_some(FeedItem::Followed(Subject::Everything))
            }
            (PushKind::Unsubscribe, Some(Subject::Everything), _) => {
                let was_followed = state.follows_everything();
                state.everything.remove(&from.connection);
                was_followed.then_some(FeedItem::Unfollowed(Subject::Everything))
            }
            (PushKind::Subscribe, Some(subject), _) => Some(FeedItem::Followed(subject)),
            (PushKind::Unsubscribe, Some(subject), _) => Some(FeedItem::Unfollowed(subject)),
            (PushKind::Message, subject, Some(Value::BulkString(payload))) => {
                if matches!(subject, Some(Subject::Everything)) && !state.follows_everything() {
                    return Ok(());
                }
                self.message(&channel, subject, &payload, from)
            }
            (PushKind::SMessage, _, Some(Value::BulkString(payload))) => {
                return self.message_of_slot(&state, &payload, from);
            }
            _ => None,
        };
        // Sent under the lock, so that items of several connections have one order.
        item.map_or(Ok(()), |item| give(&self.items, item))
    }

    fn message(
        &self,
        channel: &[u8],
        subject: Option<Subject>,
        payload: &[u8],
        from: &Origin,
    ) -> Option<FeedItem> {
        if subject.is_none() && channel != Channels::of_feed(self.id) {
            return None;
        }
        self.slot_at(payload, from)?;
        telling::read(payload, subject, &self.keys).map(FeedItem::Told)
    }

    /// Sends a report on a lock of a slot once for each subject that it belongs to.
    fn message_of_slot(&self, state: &State, payload: &[u8], from: &Origin) -> Result<(), Full> {
        let is_for_us = telling::is_for_feed(payload, &Channels::of_feed(self.id));
        if is_for_us == Some(false) {
            return Ok(());
        }
        let Some(slot) = self.slot_at(payload, from) else {
            return Ok(());
        };
        let Some(told) = telling::read(payload, None, &self.keys) else {
            return Ok(());
        };
        if is_for_us == Some(true) {
            return give(&self.items, FeedItem::Told(told));
        }
        let name = Subject::Name(told.name.clone());
        let subjects = [
            (Subject::Everything, state.follows_everything()),
            (name, state.follows(slot, &told.name)),
        ];
        for (subject, is_followed) in subjects {
            if is_followed {
                let told = feed::Told {
                    subject: Some(subject),
                    ..told.clone()
                };
                give(&self.items, FeedItem::Told(told))?;
            }
        }
        Ok(())
    }

    /// Returns the slot of a message's lock, if this node serves it: a plain message comes over every connection.
    fn slot_at(&self, payload: &[u8], from: &Origin) -> Option<u16> {
        let slot = slot_of(telling::lock_of(payload)?);
        self.serves(slot, from).then_some(slot)
    }

    /// Returns whether a node serves a slot by the map.
    fn serves(&self, slot: u16, node: &Origin) -> bool {
        let serving = self.router.upgrade().and_then(|it| it.node_of(slot));
        serving.is_some_and(|serving| serving.address == node.address)
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

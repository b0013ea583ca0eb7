//! Router: sends each command to the node that serves its slot.

mod redirect;

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard, Weak,
        atomic::{AtomicU64, Ordering},
    },
};

use leasehold_core::command::{Command, Op, Reply};
use leasehold_core::failure::StoreError;
use tokio::sync::{Notify, watch};

use super::{
    super::{
        address::Address,
        batch::Item,
        keys::{LockKeys, SLOTS},
        lanes::SharedObserver,
        reroute::{Refusal, Reroute},
        status::{DownCause, Fault, LinkStatus},
        url::{ClusterUrl, RedisTarget},
    },
    Common,
    map::SlotMap,
    node::Node,
    view::View,
    wakes::Want,
};
use crate::store::{Answer, Stamped};

/// Router to the nodes of a cluster.
pub(in crate::redis) struct Router {
    /// Held for reading while a command is sent, so that a later one cannot overtake it on the way to the same node; held for
    /// writing while the map changes.
    state: RwLock<State>,
    /// The nodes to ask first.
    pub(super) url: ClusterUrl,
    pub(super) common: Common,
    observer: SharedObserver,
    me: Weak<Self>,
    /// Tasks of commands that pause.
    paused: Mutex<Vec<Item>>,
    /// Notified when a new map is needed, because a node does not serve what this one says.
    pub(super) stale: Notify,
    /// Number of times that a node came up.
    pub(super) ups: AtomicU64,
    /// Number of times that slots changed hands.
    pub(super) moves: watch::Sender<u64>,
    /// Whether the cluster can be used.
    pub(in crate::redis) status: watch::Sender<LinkStatus>,
}

struct State {
    map: SlotMap,
    nodes: HashMap<Address, Arc<Node>>,
    /// The node of each slot.
    serving: Vec<Option<Arc<Node>>>,
}

impl Router {
    /// Returns a router that knows no node yet. Its [`keeper`](super::keeper) makes them known.
    pub(in crate::redis) fn new(
        url: ClusterUrl,
        common: Common,
        observer: SharedObserver,
    ) -> Arc<Self> {
        let fault = Fault::new(
            DownCause::Connecting,
            "still connecting to the Redis Cluster",
        );
        Arc::new_cyclic(|me: &Weak<Self>| Self {
            state: RwLock::new(State {
                map: SlotMap::new(),
                nodes: HashMap::new(),
                serving: vec![None; usize::from(SLOTS)],
            }),
            url,
            common,
            observer,
            me: Weak::clone(me),
            paused: Mutex::default(),
            stale: Notify::new(),
            ups: AtomicU64::new(0),
            moves: watch::Sender::new(0),
            status: watch::Sender::new(fault.into()),
        })
    }

    /// Returns the nodes that serve slots, in the order of their addresses.
    pub(super) fn masters(&self) -> Vec<Arc<Node>> {
        let state = self.state();
        let masters = state.map.masters();
        let nodes = masters
            .iter()
            .filter_map(|address| state.nodes.get(address));
        nodes.cloned().collect()
    }

    /// Returns whether this is the one node that delivers the messages that reach every node: the first master that listens.
    fn is_home(&self, address: &Address) -> bool {
        let masters = self.masters();
        let home = masters.iter().find(|node| node.listens());
        home.is_some_and(|home| home.address == *address)
    }

    /// Returns the node of a slot.
    pub(super) fn node_of(&self, slot: u16) -> Option<Arc<Node>> {
        self.state().serving.get(usize::from(slot))?.clone()
    }

    /// Returns the slots that a node serves, in order.
    pub(super) fn slots_of(&self, node: &Address) -> Vec<u16> {
        let state = self.state();
        let serving = (0..SLOTS).zip(&state.serving);
        let here = serving.filter(|(_, by)| by.as_ref().is_some_and(|by| by.address == *node));
        here.map(|(slot, _)| slot).collect()
    }

    /// Sends a command.
    pub(in crate::redis) fn send(&self, command: Command, keys: LockKeys, answer: Answer) {
        if let Op::Refresh { .. } = command.op {
            let (slot, name) = (keys.slot, command.name.clone());
            self.want(slot, Want::Waits { slot, name });
        }
        self.forward(Item::new(command, keys, answer));
    }

    fn forward(&self, item: Item) {
        let state = self.state();
        if let Some(Some(node)) = state.serving.get(usize::from(item.keys.slot)) {
            return node.lanes.push(item);
        }
        drop(state);
        self.stale.notify_one();
        let error = self.nobody(&format!("hash slot {}", item.keys.slot));
        item.fail(error, &self.common.options.meter);
    }

    /// Returns why no node serves what is asked for.
    pub(super) fn nobody(&self, what: &str) -> StoreError {
        let reason = match &*self.status.borrow() {
            LinkStatus::Down { reason, .. } => reason.to_string(),
            LinkStatus::Up { .. } => {
                let words = format!("no master has {what}");
                let meter = &self.common.options.meter;
                meter.fails(DownCause::ClusterDown, &"the Redis Cluster", &words);
                format!("no node of the Redis Cluster serves {what}")
            }
        };
        StoreError::Unavailable { reason }
    }

    /// Subscribes to a slot's messages at its node.
    fn want(&self, slot: u16, want: Want) {
        if let Some(Some(node)) = self.state().serving.get(usize::from(slot)) {
            // It ends after the last node.
            let _ = node.wants.send(want);
        }
    }

    /// Updates the map from nodes' views. Drops nodes that serve no slot any more.
    pub(super) fn learn(&self, views: &[View], is_majority: bool) {
        let mut state = self.state_mut();
        let changed = state.map.learn(views, is_majority);
        for slot in &changed {
            self.serve(&mut state, *slot);
        }
        if !changed.is_empty() {
            let masters = state.map.masters();
            state
                .nodes
                .retain(|address, _| masters.binary_search(address).is_ok());
            drop(state);
            self.moves.send_modify(|moves| *moves += 1);
        }
    }

    /// Notes that a slot is another node's.
    fn moved(&self, slot: u16, to: &Address) {
        let mut state = self.state_mut();
        if state.map.moved(slot, to) {
            self.serve(&mut state, slot);
            drop(state);
            self.moves.send_modify(|moves| *moves += 1);
        }
        self.stale.notify_one();
    }

    /// Assigns a slot to its node in the map.
    fn serve(&self, state: &mut State, slot: u16) {
        let owner = state.map.owner(slot).cloned();
        let node = owner.and_then(|owner| self.add(state, &owner));
        if let Some(serving) = state.serving.get_mut(usize::from(slot)) {
            *serving = node;
        }
    }

    /// Returns the node at an address, a new one if it is unknown.
    fn node_at(&self, address: &Address) -> Option<Arc<Node>> {
        let known = self.state().nodes.get(address).cloned();
        known.or_else(|| self.add(&mut self.state_mut(), address))
    }

    fn add(&self, state: &mut State, address: &Address) -> Option<Arc<Node>> {
        if let Some(node) = state.nodes.get(address) {
            return Some(Arc::clone(node));
        }
        let target = self.target(address)?;
        let observer = Arc::clone(&self.observer);
        let me = Weak::clone(&self.me);
        let changed = move |is_up| {
            if let Some(router) = me.upgrade() {
                router.ups.fetch_add(u64::from(is_up), Ordering::Relaxed);
                router.stale.notify_one();
            }
        };
        let (me, of) = (Weak::clone(&self.me), address.clone());
        let is_home = move || me.upgrade().is_some_and(|router| router.is_home(&of));
        let me: Weak<dyn Reroute> = self.me.clone();
        let of = address.clone();
        let node = Node::start(of, target, me, &self.common, observer, is_home, changed);
        state.nodes.insert(address.clone(), Arc::clone(&node));
        Some(node)
    }

    /// Returns the target for an address, with the login and the encryption of the store URL.
    pub(super) fn target(&self, address: &Address) -> Option<RedisTarget> {
        match self.url.access.target(address) {
            Ok(target) => Some(target),
            Err(error) => {
                tracing::warn!("the Redis Cluster names the node {address}, but {error}");
                None
            }
        }
    }

    fn state(&self) -> RwLockReadGuard<'_, State> {
        self.state.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn state_mut(&self) -> RwLockWriteGuard<'_, State> {
        self.state.write().unwrap_or_else(PoisonError::into_inner)
    }

    fn paused(&self) -> MutexGuard<'_, Vec<Item>> {
        self.paused.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Reroute for Router {
    fn returned(&self, items: Vec<Item>, refusal: Refusal, by: &Address) {
        self.redirect(items, refusal, by);
    }

    fn answered(&self, item: &Item, stamped: &Stamped) {
        if let Reply::Queued { .. } | Reply::ResumedWait { .. } = stamped.executed.reply {
            let name = item.command.name.clone();
            let slot = item.keys.slot;
            self.want(slot, Want::Waits { slot, name });
        } else if let (Reply::Renewed, Op::Renew { ttl, .. }) =
            (&stamped.executed.reply, &item.command.op)
        {
            let (slot, lasts) = (item.keys.slot, *ttl);
            self.want(slot, Want::Holds { slot, lasts });
        }
    }
}

impl std::fmt::Debug for Router {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Router").finish_non_exhaustive()
    }
}

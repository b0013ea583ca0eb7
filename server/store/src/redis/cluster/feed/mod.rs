//! Feed from a cluster, over a connection to every master. From Redis 7 on, the feed listens to the channels of slots, each at
//! the master that serves the slot: that master alone hears what a script publishes there.
//!
//! Before version 7, a message reaches every node, and with it each connection of the feed; the feed takes a lock's messages
//! from the master that serves its slot, because there they come in order. The feed listens to those channels at newer masters
//! too: a master that is receiving a slot has no channel of it yet.

mod told;

use std::{
    collections::{BTreeSet, HashMap, HashSet},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use futures_util::{
    FutureExt,
    future::{join_all, select_all},
};
use leasehold_core::name::LockName;
use redis::Value;
use tokio::{
    select,
    sync::{Notify, mpsc, watch},
    time::{Instant, sleep_until, timeout_at},
};

use self::told::{Origin, Told};
use super::{
    super::{
        address::Address,
        keys::Channels,
        listening::{Heard, Listening},
        status::LinkStatus,
    },
    node::Node,
    router::Router,
};
use crate::feed::{self, Feed, FeedItem, FeedRequest, Subject};

/// Most requests that are processed together.
const AT_ONCE: usize = 256;
/// Shortest interval between two starts: during a resharding, slots move many times in a row.
const PAUSE: Duration = Duration::from_secs(1);
/// Time to wait for unreachable masters before it starts without them.
const PATIENCE: Duration = Duration::from_secs(1);

/// Opens a feed. It ends when it is dropped, or the router is.
pub(in crate::redis) fn open(router: &Arc<Router>) -> Feed {
    let (feed, requests, items) = feed::open();
    let server = Server {
        told: Arc::new(Told {
            id: feed.id(),
            router: Arc::downgrade(router),
            keys: router.common.keys.clone(),
            channels: Channels::of_database(0),
            items,
            state: Mutex::default(),
            slot_gone: Notify::new(),
        }),
        masters: Vec::new(),
        opened: 0,
    };
    tokio::spawn(server.run(requests, router.moves.subscribe()));
    feed
}

type Moves = watch::Receiver<u64>;

/// Server of a feed's requests.
struct Server {
    told: Arc<Told>,
    masters: Vec<Master>,
    /// Number of connections opened so far.
    opened: u64,
}

/// Master and the connection to it.
struct Master {
    origin: Origin,
    listening: Listening,
    /// The status of the connection at the beginning of its first round.
    begun: Option<LinkStatus>,
    /// Whether the master has channels of slots, as far as known.
    is_sharded: AtomicBool,
}

/// Error of a master that does not serve what the map says, or did not answer.
struct Outdated;

/// Reason why a round ended.
enum Ended {
    Anew,
    Gone,
}

impl Server {
    async fn run(mut self, mut requests: mpsc::UnboundedReceiver<FeedRequest>, mut moves: Moves) {
        loop {
            let begun = Instant::now();
            moves.mark_unchanged();
            let Some(router) = self.told.router.upgrade() else {
                return;
            };
            self.connect(&router);
            drop(router);
            let ended = self.round(&mut requests, &mut moves).await;
            self.told.state().end_round();
            if matches!(ended, Ended::Gone) {
                return;
            }
            sleep_until(begun + PAUSE).await;
        }
    }

    /// Connects to the masters. Keeps the connections that are still up, with the slots that they listen to: listening to
    /// thousands of slots anew whenever one of them has moved would delay everything else in this coordinator.
    fn connect(&mut self, router: &Router) {
        // If a slot has moved, the next subscription to it fails, unless the map knows of the move by then.
        let _ = self.told.slot_gone.notified().now_or_never();
        let kept = self.masters.drain(..).filter(Master::is_unchanged);
        let mut kept: HashMap<Address, Master> =
            kept.map(|it| (it.origin.address.clone(), it)).collect();
        for node in router.masters() {
            let master = kept.remove(&node.address).unwrap_or_else(|| {
                self.opened += 1;
                let origin = Origin {
                    address: node.address.clone(),
                    connection: self.opened,
                };
                Master::listen(&node, origin, &self.told)
            });
            self.masters.push(master);
        }
        let connections = self.masters.iter().map(|it| it.origin.connection);
        self.told.state().keep(&connections.collect());
    }

    /// Reports changes until it must start over.
    async fn round(
        &mut self,
        requests: &mut mpsc::UnboundedReceiver<FeedRequest>,
        moves: &mut Moves,
    ) -> Ended {
        let mut statuses: Vec<_> = self
            .masters
            .iter()
            .map(|it| it.listening.status())
            .collect();
        let waits = statuses.iter_mut().map(async |status| {
            let _ = status.wait_for(LinkStatus::is_up).await;
        });
        let _ = timeout_at(Instant::now() + PATIENCE, join_all(waits)).await;
        let masters = self.masters.iter_mut().zip(&statuses);
        let begun = masters.map(|(it, status)| {
            let begun = it.begun.get_or_insert_with(|| status.borrow().clone());
            begun.clone()
        });
        let begun: Vec<LinkStatus> = begun.collect();
        let up = self.masters.iter().zip(&begun).filter(|(_, it)| it.is_up());
        let up: HashSet<u64> = up.map(|(node, _)| node.origin.connection).collect();
        if !up.is_empty() {
            // Without room, the reader must make some first.
            if self.told.items.send(FeedItem::Started).await.is_err() {
                return Ended::Gone;
            }
            self.told.state().nodes.clone_from(&up);
        }
        let mut asked = Vec::new();
        // When the round ends although the map stays the same.
        let mut ends = None;
        loop {
            let end = async {
                match ends {
                    Some(at) => sleep_until(at).await,
                    None => std::future::pending().await,
                }
            };
            let changes = statuses.iter_mut().zip(&begun);
            let changes = changes.map(|(status, begun)| Box::pin(changed(status, begun)));
            let changed = first_of(changes.collect());
            select! {
                biased;
                moved = moves.changed() => {
                    return if moved.is_ok() { Ended::Anew } else { Ended::Gone };
                }
                () = changed => return Ended::Anew,
                () = end => return Ended::Anew,
                () = self.told.slot_gone.notified() => {
                    // The new map shows the slot's new node.
                    self.doubt();
                    ends.get_or_insert_with(|| Instant::now() + PAUSE);
                    continue;
                }
                number = requests.recv_many(&mut asked, AT_ONCE) => {
                    if number == 0 {
                        return Ended::Gone;
                    }
                }
            }
            if self.ask(&asked, &up).await.is_err() {
                self.doubt();
                return Ended::Anew;
            }
            asked.clear();
        }
    }

    fn doubt(&self) {
        if let Some(router) = self.told.router.upgrade() {
            router.stale.notify_one();
        }
    }

    /// Passes requests on. Drops those that fail, because subjects are requested again when the feed starts over.
    async fn ask(&self, requests: &[FeedRequest], up: &HashSet<u64>) -> Result<(), Outdated> {
        for (follows, alike) in feed::alike(requests) {
            let nodes = self
                .masters
                .iter()
                .filter(|node| up.contains(&node.origin.connection));
            let asked = nodes.map(async |node| {
                let wanted = self.wanted(alike, &node.origin.address);
                if follows {
                    self.follow(node, wanted).await
                } else {
                    self.unfollow(node, wanted).await
                }
            });
            join_all(asked)
                .await
                .into_iter()
                .collect::<Result<(), _>>()?;
        }
        Ok(())
    }

    /// Returns the subjects of requests that concern a node.
    fn wanted(&self, requests: &[FeedRequest], node: &Address) -> Wanted {
        let mut wanted = Wanted::default();
        let Some(router) = self.told.router.upgrade() else {
            return wanted;
        };
        for request in requests {
            match &request.subject {
                Subject::Everything => wanted.everything = Some(router.slots_of(node)),
                Subject::Name(name) => {
                    let slot = self.told.keys.of(name).slot;
                    if router.node_of(slot).is_some_and(|of| of.address == *node) {
                        wanted.names.push((slot, name.clone()));
                    }
                }
            }
        }
        wanted
    }

    async fn follow(&self, node: &Master, wanted: Wanted) -> Result<(), Outdated> {
        let Wanted { everything, names } = wanted;
        let slots = everything.iter().flatten().copied();
        let slots: BTreeSet<u16> = slots.chain(names.iter().map(|(slot, _)| *slot)).collect();
        let is_sharded = self.listen(node, slots).await?;
        if is_sharded {
            for (slot, name) in names {
                self.note(Subject::Name(name.clone()), true, |state| {
                    state.names.entry(slot).or_default().insert(name);
                })
                .await?;
            }
        } else {
            let channels = names.iter().map(|(_, name)| self.channel_of(name));
            let channels: Vec<_> = channels.collect();
            if !channels.is_empty() {
                node.listening.subscribe(&channels).await;
            }
        }
        if everything.is_some() {
            // The answer shows that everything is followed.
            let channels = [self.told.channels.everything()];
            node.listening.subscribe(&channels).await;
        }
        Ok(())
    }

    async fn unfollow(&self, node: &Master, wanted: Wanted) -> Result<(), Outdated> {
        let Wanted { everything, names } = wanted;
        if everything.is_some() {
            let channels = [self.told.channels.everything()];
            node.listening.unsubscribe(&channels).await;
        }
        if !node.is_sharded.load(Ordering::Relaxed) {
            let channels = names.iter().map(|(_, name)| self.channel_of(name));
            let channels: Vec<_> = channels.collect();
            if !channels.is_empty() {
                node.listening.unsubscribe(&channels).await;
            }
            return Ok(());
        }
        let is_all = everything.is_some();
        let mut slots: BTreeSet<u16> = everything.into_iter().flatten().collect();
        for (slot, name) in names {
            slots.insert(slot);
            self.note(Subject::Name(name.clone()), false, |state| {
                if let Some(names) = state.names.get_mut(&slot) {
                    names.remove(&name);
                    if names.is_empty() {
                        state.names.remove(&slot);
                    }
                }
            })
            .await?;
        }
        let idle: Vec<u16> = {
            let mut state = self.told.state();
            let connection = node.origin.connection;
            let all_are_used = !is_all && state.everything.contains(&connection);
            slots.retain(|slot| !all_are_used && !state.names.contains_key(slot));
            slots
                .into_iter()
                .filter(|slot| state.forget(*slot, connection))
                .collect()
        };
        for slots in idle.chunks(AT_ONCE) {
            let channels: Vec<_> = slots.iter().map(|slot| Channels::of_slot(*slot)).collect();
            node.listening.ask_of_slots("SUNSUBSCRIBE", &channels).await;
        }
        Ok(())
    }

    /// Subscribes to slots at a node. Returns whether the node has channels of them.
    async fn listen(&self, node: &Master, slots: BTreeSet<u16>) -> Result<bool, Outdated> {
        let connection = node.origin.connection;
        let new: Vec<u16> = {
            let state = self.told.state();
            let new = slots.into_iter();
            new.filter(|slot| state.slots.get(slot) != Some(&connection))
                .collect()
        };
        for slots in new.chunks(AT_ONCE) {
            if !node.is_sharded.load(Ordering::Relaxed) {
                break;
            }
            let channels: Vec<_> = slots.iter().map(|slot| Channels::of_slot(*slot)).collect();
            // Before the command, because the node may give the slot away before the reply is read here.
            let listened_to = slots.iter().map(|slot| (*slot, connection));
            self.told.state().slots.extend(listened_to);
            let asked = node.listening.ask_of_slots("SSUBSCRIBE", &channels).await;
            let mut is_outdated = false;
            for (slot, reply) in slots.iter().zip(asked.ok_or(Outdated)?) {
                let Value::ServerError(error) = reply else {
                    continue;
                };
                self.told.state().forget(*slot, connection);
                if matches!(error.code(), "ERR" | "NOPERM") {
                    // An unknown command before version 7, or one that the user may not use.
                    node.is_sharded.store(false, Ordering::Relaxed);
                } else {
                    is_outdated = true;
                }
            }
            if is_outdated {
                return Err(Outdated);
            }
        }
        Ok(node.is_sharded.load(Ordering::Relaxed))
    }

    /// Follows or unfollows a subject from here on, and reports this in order with the other items.
    async fn note(
        &self,
        subject: Subject,
        is_followed: bool,
        change: impl FnOnce(&mut told::State),
    ) -> Result<(), Outdated> {
        // Without room, the reader must make some first.
        let room = self.told.items.reserve().await.map_err(|_| Outdated)?;
        let mut state = self.told.state();
        change(&mut state);
        room.send(FeedItem::confirm(subject, is_followed));
        Ok(())
    }

    fn channel_of(&self, name: &LockName) -> Vec<u8> {
        self.told.channels.of_lock(&self.told.keys.of(name))
    }
}

impl Master {
    fn listen(node: &Node, origin: Origin, told: &Arc<Told>) -> Self {
        let gate = told.channels.gate();
        let heard = Heard {
            channels: vec![Channels::of_feed(told.id), gate.clone()],
            patterns: vec![gate],
        };
        let reader = (Arc::clone(told), origin.clone());
        let listener = Arc::new(move |push| reader.0.take(push, &reader.1));
        let listening = node.lanes.link().listen("the feed from", heard, listener);
        Self {
            origin,
            listening,
            begun: None,
            is_sharded: AtomicBool::new(true),
        }
    }

    /// Returns whether the connection has been up all the time, and listens to nothing but channels of slots and everything.
    fn is_unchanged(&self) -> bool {
        let begun = self.begun.as_ref().filter(|begun| begun.is_up());
        let is_same = begun.is_some_and(|begun| *self.listening.status().borrow() == *begun);
        is_same && self.is_sharded.load(Ordering::Relaxed)
    }
}

/// Subjects of some requests, as far as they concern a node.
#[derive(Default)]
struct Wanted {
    /// All slots of the node, if everything is among them.
    everything: Option<Vec<u16>>,
    names: Vec<(u16, LockName)>,
}

/// Waits until a connection that was up is gone or was replaced, or one that was down is up.
async fn changed(status: &mut watch::Receiver<LinkStatus>, begun: &LinkStatus) {
    let changed = status.wait_for(|now| now != begun && (begun.is_up() || now.is_up()));
    let _ = changed.await;
}

/// Waits for the first of these to end; for ever without any.
async fn first_of<F: Future + Unpin>(changes: Vec<F>) -> F::Output {
    if changes.is_empty() {
        return std::future::pending().await;
    }
    select_all(changes).await.0
}

//! Feed from a cluster, over a connection to every master. From Redis 7 on, the feed listens to the channels of slots, each at
//! the master that serves the slot: that master alone hears what a script publishes there.
//!
//! Before version 7, a message reaches every node, and with it each connection of the feed; the feed takes what is told of a
//! lock from the master that serves its slot, because there it comes in order. The feed listens to those channels at newer
//! masters too: a master that is being given a slot has no channel of it yet.

mod told;

use std::{
    collections::{BTreeSet, HashSet},
    sync::{
        Arc, Mutex, Weak,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use futures_util::future::{join_all, select_all};
use leasehold_core::{id::FeedId, name::LockName};
use redis::Value;
use tokio::{
    select,
    sync::{Notify, mpsc, watch},
    time::{Instant, sleep_until, timeout_at},
};

use self::told::Told;
use super::{
    super::{
        keys::{Channels, Keys},
        listening::{Heard, Listening},
        status::LinkStatus,
    },
    address::Address,
    router::Router,
};
use crate::feed::{self, Feed, FeedItem, FeedRequest, Subject};

/// Most requests that are seen to together.
const AT_ONCE: usize = 256;
/// How often it begins anew at most: slots that are moved change hands many times in a row.
const PAUSE: Duration = Duration::from_secs(1);
/// How long it waits for masters that can't be reached before it begins without them.
const PATIENCE: Duration = Duration::from_secs(1);

/// Opens a feed. It ends when it is dropped, or the router is.
pub(super) fn open(router: &Arc<Router>) -> Feed {
    let (feed, requests, items) = feed::open();
    let server = Server {
        id: feed.id(),
        router: Arc::downgrade(router),
        keys: router.common().keys.clone(),
        channels: Channels::of_database(0),
        items,
    };
    let mut moves = router.moves();
    tokio::spawn(async move { server.run(requests, &mut moves).await });
    feed
}

type Moves = watch::Receiver<u64>;

/// Sees to a feed's requests.
struct Server {
    id: FeedId,
    router: Weak<Router>,
    keys: Keys,
    channels: Channels,
    items: mpsc::Sender<FeedItem>,
}

/// From one beginning to the next: the connections, and what is told by them.
struct Round {
    nodes: Vec<Master>,
    told: Arc<Told>,
}

/// A master and the connection to it.
struct Master {
    address: Address,
    listening: Listening,
    /// Whether it has channels of slots, as far as was heard.
    is_sharded: AtomicBool,
}

/// A master does not serve what the map says, or did not answer.
struct Outdated;

/// Why a round ended.
enum Ended {
    Anew,
    Gone,
}

impl Server {
    async fn run(self, mut requests: mpsc::UnboundedReceiver<FeedRequest>, moves: &mut Moves) {
        loop {
            let begun = Instant::now();
            moves.mark_unchanged();
            let Some(router) = self.router.upgrade() else {
                return;
            };
            let round = self.begin(&router);
            drop(router);
            let ended = round.run(&mut requests, moves).await;
            round.told.state().nodes.clear();
            drop(round);
            if matches!(ended, Ended::Gone) {
                return;
            }
            sleep_until(begun + PAUSE).await;
        }
    }

    fn begin(&self, router: &Router) -> Round {
        let told = Arc::new(Told {
            id: self.id,
            router: Weak::clone(&self.router),
            keys: self.keys.clone(),
            channels: self.channels.clone(),
            items: self.items.clone(),
            state: Mutex::default(),
            slot_gone: Notify::new(),
        });
        let nodes = router.masters().into_iter().map(|node| {
            let reader = (Arc::clone(&told), node.address.clone());
            let gate = self.channels.gate();
            let heard = Heard {
                channels: vec![Channels::of_feed(self.id), gate.clone()],
                patterns: vec![gate],
            };
            let listener = Arc::new(move |push| reader.0.take(push, &reader.1));
            let link = node.lanes.link();
            Master {
                address: node.address.clone(),
                listening: link.listen("the feed from", heard, listener),
                is_sharded: AtomicBool::new(true),
            }
        });
        Round {
            nodes: nodes.collect(),
            told,
        }
    }
}

impl Round {
    async fn run(
        &self,
        requests: &mut mpsc::UnboundedReceiver<FeedRequest>,
        moves: &mut Moves,
    ) -> Ended {
        let mut statuses: Vec<_> = self.nodes.iter().map(|it| it.listening.status()).collect();
        let waits = statuses.iter_mut().map(async |status| {
            let _ = status.wait_for(LinkStatus::is_up).await;
        });
        let _ = timeout_at(Instant::now() + PATIENCE, join_all(waits)).await;
        let begun: Vec<LinkStatus> = statuses.iter().map(|it| it.borrow().clone()).collect();
        let up = self.nodes.iter().zip(&begun).filter(|(_, it)| it.is_up());
        let up: HashSet<Address> = up.map(|(node, _)| node.address.clone()).collect();
        if !up.is_empty() {
            // Where there is no room, the reader has to make some first.
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
                    // Where the slot has gone, the new map tells.
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
            router.doubt();
        }
    }

    /// Passes requests on. What can't be asked for is forgotten, since it is asked for again when the feed begins anew.
    async fn ask(&self, requests: &[FeedRequest], up: &HashSet<Address>) -> Result<(), Outdated> {
        let follows = |request: &FeedRequest| matches!(request, FeedRequest::Follow(_));
        for alike in requests.chunk_by(|one, other| follows(one) == follows(other)) {
            let is_follow = alike.first().is_some_and(follows);
            let nodes = self.nodes.iter().filter(|node| up.contains(&node.address));
            let asked = nodes.map(async |node| {
                let wanted = self.wanted(alike, &node.address);
                if is_follow {
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

    /// The subjects of requests that concern a node.
    fn wanted(&self, requests: &[FeedRequest], node: &Address) -> Wanted {
        let mut wanted = Wanted::default();
        let Some(router) = self.told.router.upgrade() else {
            return wanted;
        };
        for FeedRequest::Follow(subject) | FeedRequest::Unfollow(subject) in requests {
            match subject {
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
            // The answer tells that everything is followed.
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
            let all_are_used = !is_all && state.everything.contains(&node.address);
            slots.retain(|slot| !all_are_used && !state.names.contains_key(slot));
            slots
                .into_iter()
                .filter(|slot| state.slots.remove(slot))
                .collect()
        };
        for slots in idle.chunks(AT_ONCE) {
            let channels: Vec<_> = slots.iter().map(|slot| Channels::of_slot(*slot)).collect();
            node.listening.ask_of_slots("SUNSUBSCRIBE", &channels).await;
        }
        Ok(())
    }

    /// Has a node tell of slots. Returns whether it has channels of them.
    async fn listen(&self, node: &Master, slots: BTreeSet<u16>) -> Result<bool, Outdated> {
        let new: Vec<u16> = {
            let state = self.told.state();
            let new = slots.into_iter().filter(|slot| !state.slots.contains(slot));
            new.collect()
        };
        for slots in new.chunks(AT_ONCE) {
            if !node.is_sharded.load(Ordering::Relaxed) {
                break;
            }
            let channels: Vec<_> = slots.iter().map(|slot| Channels::of_slot(*slot)).collect();
            let asked = node.listening.ask_of_slots("SSUBSCRIBE", &channels).await;
            for (slot, reply) in slots.iter().zip(asked.ok_or(Outdated)?) {
                match reply {
                    Value::ServerError(error) if matches!(error.code(), "ERR" | "NOPERM") => {
                        // An unknown command before version 7, or one that the user may not use.
                        node.is_sharded.store(false, Ordering::Relaxed);
                    }
                    Value::ServerError(_) => return Err(Outdated),
                    _ => {
                        self.told.state().slots.insert(*slot);
                    }
                }
            }
        }
        Ok(node.is_sharded.load(Ordering::Relaxed))
    }

    /// Follows a subject from here on, or no more, and says so at that place among what is told.
    async fn note(
        &self,
        subject: Subject,
        is_followed: bool,
        change: impl FnOnce(&mut told::State),
    ) -> Result<(), Outdated> {
        // Where there is no room, the reader has to make some first.
        let room = self.told.items.reserve().await.map_err(|_| Outdated)?;
        let mut state = self.told.state();
        change(&mut state);
        room.send(if is_followed {
            FeedItem::Followed(subject)
        } else {
            FeedItem::Unfollowed(subject)
        });
        Ok(())
    }

    fn channel_of(&self, name: &LockName) -> Vec<u8> {
        self.told.channels.of_lock(&self.told.keys.of(name))
    }
}

/// The subjects of some requests, as far as they concern a node.
#[derive(Default)]
struct Wanted {
    /// All slots of the node, if everything is among them.
    everything: Option<Vec<u16>>,
    names: Vec<(u16, LockName)>,
}

/// Waits until a connection that was there is gone, or has come up again as another one, or one that was not there is.
async fn changed(status: &mut watch::Receiver<LinkStatus>, begun: &LinkStatus) {
    let changed = status.wait_for(|now| now != begun && (begun.is_up() || now.is_up()));
    let _ = changed.await;
}

/// The first of these to end; never, where there are none.
async fn first_of<F: Future + Unpin>(changes: Vec<F>) -> F::Output {
    if changes.is_empty() {
        return std::future::pending().await;
    }
    select_all(changes).await.0
}

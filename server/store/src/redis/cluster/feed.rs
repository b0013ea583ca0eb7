//! The feed from a cluster. What a script publishes reaches every node, and with it each connection of the feed; but
//! whether anybody listens is asked of the node alone where the script runs. So the feed listens at every master, and
//! takes what is told of a lock from the one that serves its slot: there it comes in order.

use std::{
    collections::HashSet,
    sync::{Arc, Mutex, PoisonError, Weak},
    time::Duration,
};

use futures_util::future::{join_all, select_all};
use leasehold_core::id::FeedId;
use redis::{PushInfo, PushKind, Value};
use tokio::{
    select,
    sync::{mpsc, watch},
    time::{Instant, sleep_until, timeout_at},
};
use tracing::warn;

use super::{
    super::{
        keys::{Channels, Keys, slot_of},
        listening::{Full, Heard, Listening},
        status::LinkStatus,
        telling,
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
    nodes: Vec<(Address, Listening)>,
    told: Arc<Told>,
}

/// What the connections of a round have in common.
struct Told {
    id: FeedId,
    router: Weak<Router>,
    keys: Keys,
    channels: Channels,
    items: mpsc::Sender<FeedItem>,
    state: Mutex<State>,
}

/// How far a round is.
#[derive(Default)]
struct State {
    /// Those that were there at its beginning; before that and after its end none, and nothing is told.
    nodes: HashSet<Address>,
    /// Those of them by which everything is followed.
    everything: HashSet<Address>,
}

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
            let listening = link.listen("the feed from", heard, listener);
            (node.address.clone(), listening)
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
        let mut statuses: Vec<_> = self.nodes.iter().map(|(_, it)| it.status()).collect();
        let waits = statuses.iter_mut().map(async |status| {
            let _ = status.wait_for(LinkStatus::is_up).await;
        });
        let _ = timeout_at(Instant::now() + PATIENCE, join_all(waits)).await;
        let begun: Vec<LinkStatus> = statuses.iter().map(|it| it.borrow().clone()).collect();
        let up = self.nodes.iter().zip(&begun).filter(|(_, it)| it.is_up());
        let up: HashSet<Address> = up.map(|((address, _), _)| address.clone()).collect();
        if !up.is_empty() {
            // Where there is no room, the reader has to make some first.
            if self.told.items.send(FeedItem::Started).await.is_err() {
                return Ended::Gone;
            }
            self.told.state().nodes.clone_from(&up);
        }
        let mut asked = Vec::new();
        loop {
            let changes = statuses.iter_mut().zip(&begun);
            let changes = changes.map(|(status, begun)| Box::pin(changed(status, begun)));
            let changed = first_of(changes.collect());
            select! {
                biased;
                moved = moves.changed() => {
                    return if moved.is_ok() { Ended::Anew } else { Ended::Gone };
                }
                () = changed => return Ended::Anew,
                number = requests.recv_many(&mut asked, AT_ONCE) => {
                    if number == 0 {
                        return Ended::Gone;
                    }
                }
            }
            self.ask(&asked, &up).await;
            asked.clear();
        }
    }

    /// Passes requests on. What can't be asked for is forgotten, since it is asked for again when the feed begins anew.
    async fn ask(&self, requests: &[FeedRequest], up: &HashSet<Address>) {
        let Some(router) = self.told.router.upgrade() else {
            return;
        };
        let follows = |request: &FeedRequest| matches!(request, FeedRequest::Follow(_));
        for alike in requests.chunk_by(|one, other| follows(one) == follows(other)) {
            let is_follow = alike.first().is_some_and(follows);
            let asked = self.nodes.iter().map(|(address, listening)| {
                let channels = alike.iter().filter_map(|request| {
                    let (FeedRequest::Follow(subject) | FeedRequest::Unfollow(subject)) = request;
                    match subject {
                        Subject::Everything => Some(self.told.channels.everything()),
                        Subject::Name(name) => {
                            let keys = self.told.keys.of(name);
                            let node = router.node_of(keys.slot)?;
                            (node.address == *address).then(|| self.told.channels.of_lock(&keys))
                        }
                    }
                });
                let channels: Vec<Vec<u8>> = channels.collect();
                async move {
                    if channels.is_empty() || !up.contains(address) {
                    } else if is_follow {
                        listening.subscribe(&channels).await;
                    } else {
                        listening.unsubscribe(&channels).await;
                    }
                }
            });
            join_all(asked).await;
        }
    }
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

impl Told {
    /// Takes in what a node sends.
    fn take(&self, PushInfo { kind, data }: PushInfo, from: &Address) -> Result<(), Full> {
        let mut data = data.into_iter();
        let Some(Value::BulkString(channel)) = data.next() else {
            return Ok(());
        };
        let mut state = self.state();
        if !state.nodes.contains(from) {
            return Ok(());
        }
        let subject = self.subject(&channel);
        let item = match (kind, subject, data.next()) {
            (PushKind::Subscribe, Some(Subject::Everything), _) => {
                let is_last = state.everything.insert(from.clone())
                    && state.everything.len() == state.nodes.len();
                is_last.then_some(FeedItem::Followed(Subject::Everything))
            }
            (PushKind::Unsubscribe, Some(Subject::Everything), _) => {
                let was_followed = state.follows_everything();
                state.everything.remove(from);
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
            _ => None,
        };
        // Sent under the lock, so that what is told by several connections has one order.
        match item.map(|item| self.items.try_send(item)) {
            Some(Err(mpsc::error::TrySendError::Full(_))) => Err(Full),
            // Where nobody reads any more, the connection is about to be closed.
            _ => Ok(()),
        }
    }

    fn message(
        &self,
        channel: &[u8],
        subject: Option<Subject>,
        payload: &[u8],
        from: &Address,
    ) -> Option<FeedItem> {
        if subject.is_none() && channel != Channels::of_feed(self.id) {
            return None;
        }
        // Every connection is told of every lock.
        let slot = slot_of(telling::lock_of(payload)?);
        let node = self.router.upgrade()?.node_of(slot)?;
        if node.address != *from {
            return None;
        }
        match telling::decode(payload, subject, &self.keys) {
            Ok(told) => told.map(FeedItem::Told),
            Err(_) => {
                warn!("something was published that does not tell of locks as this version does");
                None
            }
        }
    }

    fn subject(&self, channel: &[u8]) -> Option<Subject> {
        if channel == self.channels.everything() {
            return Some(Subject::Everything);
        }
        let key = self.channels.lock_of(channel)?;
        self.keys.name_of(key).map(Subject::Name)
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn follows_everything(&self) -> bool {
        !self.nodes.is_empty() && self.everything.len() == self.nodes.len()
    }
}

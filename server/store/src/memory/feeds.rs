//! Feeds of the store in memory.

use std::{
    collections::HashSet,
    sync::{Arc, Weak},
};

use leasehold_core::{
    command::{Command, Op},
    id::FeedId,
    name::LockName,
    time::StoreTime,
    watch::Telling,
};
use tokio::{
    select,
    sync::{Notify, mpsc},
};

use super::store::Inner;
use crate::feed::{self, Feed, FeedItem, FeedRequest, Subject, Told};

/// Feeds of a store, under its mutex, so that their items have one order.
#[derive(Debug, Default)]
pub(super) struct Feeds(Vec<Follower>);

/// Feed, and the subjects that it follows.
#[derive(Debug)]
struct Follower {
    id: FeedId,
    items: mpsc::Sender<FeedItem>,
    everything: bool,
    names: HashSet<LockName>,
    /// Whether it missed items: it receives none until it has started over.
    is_behind: bool,
    fell_behind: Arc<Notify>,
}

impl Feeds {
    /// Returns whether any feed receives a report of a command.
    pub(super) fn hear_of(&self, command: &Command) -> bool {
        matches!(command.op, Op::Look { .. })
            || self
                .0
                .iter()
                .any(|feed| feed.everything || feed.names.contains(&command.name))
    }

    /// Sends the changes of a command to all feeds that follow its lock, and a view to the feed that looked.
    pub(super) fn tell(&mut self, command: &Command, at: StoreTime, mut telling: Telling) {
        let looked = telling.looked.take();
        let told = |subject, telling| {
            FeedItem::Told(Told {
                subject,
                name: command.name.clone(),
                at,
                telling,
            })
        };
        let seen = Telling {
            waiter_count: telling.waiter_count,
            looked,
            ..Telling::default()
        };
        for feed in self.0.iter_mut().filter(|_| !telling.changes.is_empty()) {
            if feed.everything {
                feed.push(told(Some(Subject::Everything), telling.clone()));
            }
            if feed.names.contains(&command.name) {
                let subject = Subject::Name(command.name.clone());
                feed.push(told(Some(subject), telling.clone()));
            }
        }
        if let Op::Look { feed: id } = command.op
            && let Some(feed) = self.feed(id)
        {
            feed.push(told(None, seen));
        }
    }

    fn feed(&mut self, id: FeedId) -> Option<&mut Follower> {
        self.0.iter_mut().find(|feed| feed.id == id)
    }

    fn request(&mut self, id: FeedId, request: FeedRequest) {
        let Some(feed) = self.feed(id).filter(|feed| !feed.is_behind) else {
            return;
        };
        let FeedRequest { subject, follows } = request;
        match &subject {
            Subject::Everything => feed.everything = follows,
            Subject::Name(name) if follows => {
                feed.names.insert(name.clone());
            }
            Subject::Name(name) => {
                feed.names.remove(name);
            }
        }
        feed.push(FeedItem::confirm(subject, follows));
    }

    fn remove(&mut self, id: FeedId) {
        self.0.retain(|feed| feed.id != id);
    }
}

impl Follower {
    fn push(&mut self, item: FeedItem) {
        if self.is_behind {
            return;
        }
        // A feed whose reader is gone is about to be removed.
        if let Err(mpsc::error::TrySendError::Full(_)) = self.items.try_send(item) {
            self.is_behind = true;
            self.everything = false;
            self.names.clear();
            self.fell_behind.notify_one();
        }
    }
}

/// Opens a feed of a store.
pub(super) fn open(inner: &Arc<Inner>) -> Feed {
    let (feed, requests, items) = feed::open();
    let fell_behind = Arc::new(Notify::new());
    let mut follower = Follower {
        id: feed.id(),
        items: items.clone(),
        everything: false,
        names: HashSet::new(),
        is_behind: false,
        fell_behind: Arc::clone(&fell_behind),
    };
    follower.push(FeedItem::Started);
    inner.shelf().feeds.0.push(follower);
    let server = Server {
        id: feed.id(),
        store: Arc::downgrade(inner),
        // The store has the strong one, so that the feed ends with the store.
        items: items.downgrade(),
        fell_behind,
    };
    tokio::spawn(server.run(requests));
    feed
}

/// Server of a feed's requests.
struct Server {
    id: FeedId,
    store: Weak<Inner>,
    items: mpsc::WeakSender<FeedItem>,
    fell_behind: Arc<Notify>,
}

impl Server {
    async fn run(self, mut requests: mpsc::UnboundedReceiver<FeedRequest>) {
        while self.step(&mut requests).await.is_some() {}
        if let Some(store) = self.store.upgrade() {
            store.shelf().feeds.remove(self.id);
        }
    }

    /// Serves one request. Returns `None` when the feed or the store is gone.
    async fn step(&self, requests: &mut mpsc::UnboundedReceiver<FeedRequest>) -> Option<()> {
        select! {
            biased;
            () = self.fell_behind.notified() => self.start_anew().await,
            request = requests.recv() => {
                let store = self.store.upgrade()?;
                store.shelf().feeds.request(self.id, request?);
                Some(())
            }
        }
    }

    /// Starts the feed over when it has room again.
    async fn start_anew(&self) -> Option<()> {
        let items = self.items.upgrade()?;
        let room = items.reserve().await.ok()?;
        let store = self.store.upgrade()?;
        let mut shelf = store.shelf();
        shelf.feeds.feed(self.id)?.is_behind = false;
        room.send(FeedItem::Started);
        Some(())
    }
}

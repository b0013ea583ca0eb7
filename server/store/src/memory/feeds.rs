//! Feeds of the store in memory.

use std::{
    collections::HashSet,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
};

use leasehold_core::{
    command::{Command, Executed, Op},
    ended::EndedSessions,
    id::FeedId,
    table::LockTable,
    time::StoreTime,
    watch::Telling,
};
use tokio::{
    select,
    sync::{Notify, mpsc},
};

use crate::feed::{self, Feed, FeedItem, FeedRequest, Subject, Told};

/// Locks, and the feeds of their changes, under one mutex, so that the items of the feeds have one order.
#[derive(Debug, Default)]
pub(super) struct Shelf(Mutex<Contents>);

#[derive(Debug, Default)]
pub(super) struct Contents {
    pub(super) table: LockTable,
    pub(super) ended: EndedSessions,
    feeds: Vec<Follower>,
}

/// Feed, and the subjects that it follows.
#[derive(Debug)]
struct Follower {
    id: FeedId,
    items: mpsc::Sender<FeedItem>,
    subjects: HashSet<Subject>,
    /// Whether it missed items: it receives none until it has started over.
    is_behind: bool,
    fell_behind: Arc<Notify>,
}

impl Shelf {
    pub(super) fn lock(&self) -> MutexGuard<'_, Contents> {
        // Nothing panics while it is held; even then the table would be consistent, because `apply` replaces single fields.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Contents {
    /// Carries a command out, and reports its changes to the feeds that follow its lock.
    pub(super) fn run(&mut self, command: &Command, now: StoreTime) -> Executed {
        let looks = matches!(command.op, Op::Look { .. });
        let subjects = [Subject::Everything, Subject::Name(command.name.clone())];
        let follows = |feed: &Follower| subjects.iter().any(|of| feed.subjects.contains(of));
        if !looks && !self.feeds.iter().any(follows) {
            return self.table.apply(command, now);
        }
        let (executed, telling) = self.table.apply_and_tell(command, now);
        self.tell(command, &subjects, now, telling);
        executed
    }

    /// Sends the changes of a command to all feeds that follow its lock, and a view to the feed that looked.
    fn tell(
        &mut self,
        command: &Command,
        subjects: &[Subject],
        at: StoreTime,
        mut telling: Telling,
    ) {
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
        for feed in self
            .feeds
            .iter_mut()
            .filter(|_| !telling.changes.is_empty())
        {
            for subject in subjects {
                if feed.subjects.contains(subject) {
                    feed.push(told(Some(subject.clone()), telling.clone()));
                }
            }
        }
        if let Op::Look { feed: id } = command.op
            && let Some(feed) = self.feed(id)
        {
            feed.push(told(None, seen));
        }
    }

    fn feed(&mut self, id: FeedId) -> Option<&mut Follower> {
        self.feeds.iter_mut().find(|feed| feed.id == id)
    }

    fn request(&mut self, id: FeedId, request: FeedRequest) {
        let Some(feed) = self.feed(id).filter(|feed| !feed.is_behind) else {
            return;
        };
        let FeedRequest { subject, follows } = request;
        if follows {
            feed.subjects.insert(subject.clone());
        } else {
            feed.subjects.remove(&subject);
        }
        feed.push(FeedItem::confirm(subject, follows));
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
            self.subjects.clear();
            self.fell_behind.notify_one();
        }
    }
}

/// Opens a feed of a store.
pub(super) fn open(shelf: &Arc<Shelf>) -> Feed {
    let (feed, requests, items) = feed::open();
    let fell_behind = Arc::new(Notify::new());
    let mut follower = Follower {
        id: feed.id(),
        items: items.clone(),
        subjects: HashSet::new(),
        is_behind: false,
        fell_behind: Arc::clone(&fell_behind),
    };
    follower.push(FeedItem::Started);
    shelf.lock().feeds.push(follower);
    let server = Server {
        id: feed.id(),
        shelf: Arc::downgrade(shelf),
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
    shelf: Weak<Shelf>,
    items: mpsc::WeakSender<FeedItem>,
    fell_behind: Arc<Notify>,
}

impl Server {
    async fn run(self, mut requests: mpsc::UnboundedReceiver<FeedRequest>) {
        while self.step(&mut requests).await.is_some() {}
        if let Some(shelf) = self.shelf.upgrade() {
            shelf.lock().feeds.retain(|feed| feed.id != self.id);
        }
    }

    /// Serves one request. Returns `None` when the feed or the store is gone.
    async fn step(&self, requests: &mut mpsc::UnboundedReceiver<FeedRequest>) -> Option<()> {
        select! {
            biased;
            () = self.fell_behind.notified() => self.start_anew().await,
            request = requests.recv() => {
                self.shelf.upgrade()?.lock().request(self.id, request?);
                Some(())
            }
        }
    }

    /// Starts the feed over when it has room again.
    async fn start_anew(&self) -> Option<()> {
        let items = self.items.upgrade()?;
        let room = items.reserve().await.ok()?;
        let shelf = self.shelf.upgrade()?;
        let mut contents = shelf.lock();
        contents.feed(self.id)?.is_behind = false;
        room.send(FeedItem::Started);
        Some(())
    }
}

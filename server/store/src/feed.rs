//! Feed of changes to locks, in the order in which they happened.

use leasehold_core::{id::FeedId, name::LockName, time::StoreTime, watch::Telling};
use tokio::sync::mpsc;

/// What a feed can follow.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Subject {
    /// Every lock.
    Everything,
    /// One lock.
    Name(LockName),
}

/// What a feed tells.
#[derive(Clone, Debug, PartialEq)]
pub enum FeedItem {
    /// Begins anew, the first time and whenever something may have been missed: it follows nothing from here on.
    Started,
    /// From here on, all that happens to the subject is told.
    Followed(Subject),
    /// From here on, it is told no more.
    Unfollowed(Subject),
    /// An operation changed something.
    Told(Told),
}

/// What an operation told.
#[derive(Clone, Debug, PartialEq)]
pub struct Told {
    /// What was followed that this is told for: where a name and everything are followed, each tells it. `None` for the
    /// answer to a look of this feed's, which is told to nobody else.
    pub subject: Option<Subject>,
    /// The lock.
    pub name: LockName,
    /// When, by the store's clock.
    pub at: StoreTime,
    /// What.
    pub telling: Telling,
}

/// Most items that wait to be taken out of a feed: if there would be more, it begins anew.
const ITEMS: usize = 16_384;

/// A request to a feed.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum FeedRequest {
    Follow(Subject),
    Unfollow(Subject),
}

/// A feed: what happens to locks, whichever coordinator or session does it, in one order. Closed when dropped.
///
/// [`Op::Look`](leasehold_core::command::Op::Look) with its id has the store tell how a lock stands, in its place among
/// all else that is told.
#[derive(Debug)]
pub struct Feed {
    id: FeedId,
    requests: mpsc::UnboundedSender<FeedRequest>,
    items: mpsc::Receiver<FeedItem>,
}

/// A new feed, and the other ends of it. Its id is like no other's, of this coordinator or another.
pub(crate) fn open() -> (
    Feed,
    mpsc::UnboundedReceiver<FeedRequest>,
    mpsc::Sender<FeedItem>,
) {
    let (requests, asked) = mpsc::unbounded_channel();
    let (given, items) = mpsc::channel(ITEMS);
    let feed = Feed {
        id: FeedId::new(fastrand::u64(..)),
        requests,
        items,
    };
    (feed, asked, given)
}

impl Feed {
    /// Names it in looks.
    pub fn id(&self) -> FeedId {
        self.id
    }

    /// Asks to follow something. [`FeedItem::Followed`] tells from when on it does; it has to be asked for again after
    /// [`FeedItem::Started`].
    pub fn follow(&self, subject: Subject) {
        // It is over when the store is.
        let _ = self.requests.send(FeedRequest::Follow(subject));
    }

    /// Asks to follow something no more.
    pub fn unfollow(&self, subject: Subject) {
        let _ = self.requests.send(FeedRequest::Unfollow(subject));
    }

    /// The next item; waits while the store can't be reached. `None` when the store is gone.
    ///
    /// # Cancel safety
    ///
    /// An item is given or still there.
    pub async fn next(&mut self) -> Option<FeedItem> {
        self.items.recv().await
    }
}

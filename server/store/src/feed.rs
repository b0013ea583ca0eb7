//! Feed of changes to locks, in the order in which they happened.

use leasehold_core::{id::FeedId, name::LockName, time::StoreTime, watch::Telling};
use tokio::sync::mpsc;

/// Subject that a feed can follow.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Subject {
    /// Every lock.
    Everything,
    /// One lock.
    Name(LockName),
}

/// Item of a feed.
#[derive(Clone, Debug, PartialEq)]
pub enum FeedItem {
    /// The feed starts, or starts over because it may have missed something: it follows nothing from here on.
    Started,
    /// From here on, the feed reports all changes of the subject.
    Followed(Subject),
    /// From here on, the feed no longer reports the subject.
    Unfollowed(Subject),
    /// An operation changed a lock.
    Told(Told),
}

/// Report of an operation.
#[derive(Clone, Debug, PartialEq)]
pub struct Told {
    /// The followed subject that this is for: a feed that follows a name and everything gets it for each. `None` for the
    /// answer to a look of this feed, which no other feed receives.
    pub subject: Option<Subject>,
    /// The lock.
    pub name: LockName,
    /// The time of it, by the store's clock.
    pub at: StoreTime,
    /// The report.
    pub telling: Telling,
}

/// Most unread items of a feed: with more, it starts over.
const ITEMS: usize = 16_384;

/// Request to a feed: to follow a subject, or to follow it no longer.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct FeedRequest {
    pub(crate) subject: Subject,
    pub(crate) follows: bool,
}

/// Splits requests into runs of alike ones.
pub(crate) fn alike(requests: &[FeedRequest]) -> impl Iterator<Item = (bool, &[FeedRequest])> {
    let runs = requests.chunk_by(|one, other| one.follows == other.follows);
    runs.filter_map(|run| Some((run.first()?.follows, run)))
}

impl FeedItem {
    /// Returns the confirmation of a request.
    pub(crate) fn confirm(subject: Subject, follows: bool) -> Self {
        if follows {
            Self::Followed(subject)
        } else {
            Self::Unfollowed(subject)
        }
    }
}

/// Feed of changes to locks by all coordinators and sessions, in one order. Closed when dropped.
///
/// On [`Op::Look`](leasehold_core::command::Op::Look) with the feed's id, the store reports a lock's state, in order with
/// all other items.
#[derive(Debug)]
pub struct Feed {
    id: FeedId,
    requests: mpsc::UnboundedSender<FeedRequest>,
    items: mpsc::Receiver<FeedItem>,
}

/// Returns a new feed, and its other ends. Its id is unique over all coordinators.
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
    /// Returns its id for looks.
    pub fn id(&self) -> FeedId {
        self.id
    }

    /// Asks to follow a subject. [`FeedItem::Followed`] marks from when on it does; ask again after [`FeedItem::Started`].
    pub fn follow(&self, subject: Subject) {
        self.request(subject, true);
    }

    /// Asks to no longer follow a subject.
    pub fn unfollow(&self, subject: Subject) {
        self.request(subject, false);
    }

    fn request(&self, subject: Subject, follows: bool) {
        // Fails only if the store is gone.
        let _ = self.requests.send(FeedRequest { subject, follows });
    }

    /// Waits for the next item, also while the store can't be reached. Returns `None` when the store is gone.
    ///
    /// # Cancel safety
    ///
    /// If it is cancelled, no item is lost.
    pub async fn next(&mut self) -> Option<FeedItem> {
        self.items.recv().await
    }
}

//! Feed of the changes that scripts publish, over a connection of its own so that a flood of them delays no wake-ups.

use std::sync::Arc;

use leasehold_core::id::FeedId;
use redis::{PushInfo, PushKind, Value};
use tokio::{
    select,
    sync::{mpsc, watch},
};

use super::{
    dial::Full,
    keys::{Channels, Keys},
    link::Link,
    listening::{self, Heard, Listening},
    status::LinkStatus,
    telling,
};
use crate::feed::{self, Feed, FeedItem, FeedRequest, Subject};

/// Most channels in one command.
const AT_ONCE: usize = 256;

/// Opens a feed. Its connection is closed when the feed is dropped, or the link is.
pub(super) fn open(link: &Link, keys: &Keys) -> Feed {
    let (feed, requests, items) = feed::open();
    let channels = Channels::of_database(link.database());
    let reader = Reader {
        id: feed.id(),
        keys: keys.clone(),
        channels: channels.clone(),
        items: items.clone(),
    };
    let listening = link.listen(
        "the feed from",
        Heard {
            channels: vec![Channels::of_feed(feed.id()), channels.gate()],
            patterns: vec![channels.gate()],
        },
        Arc::new(move |push| reader.take(push)),
    );
    let server = Server {
        listening,
        keys: keys.clone(),
        channels,
        items,
    };
    tokio::spawn(server.run(requests, link.status()));
    feed
}

/// Server of a feed's requests.
struct Server {
    listening: Listening,
    keys: Keys,
    channels: Channels,
    items: mpsc::Sender<FeedItem>,
}

impl Server {
    async fn run(
        self,
        mut requests: mpsc::UnboundedReceiver<FeedRequest>,
        mut link: watch::Receiver<LinkStatus>,
    ) {
        let mut status = self.listening.status();
        status.mark_changed();
        let link_gone = async { while link.changed().await.is_ok() {} };
        tokio::pin!(link_gone);
        let mut asked = Vec::new();
        loop {
            select! {
                biased;
                () = &mut link_gone => return,
                changed = status.changed() => {
                    let is_up = changed.is_ok() && status.borrow_and_update().is_up();
                    // The feed follows nothing before this is read, so it comes before all items of the new connection except
                    // looks. Without room, the reader must make some first.
                    if is_up && self.items.send(FeedItem::Started).await.is_err() {
                        return;
                    }
                }
                number = requests.recv_many(&mut asked, AT_ONCE) => {
                    if number == 0 {
                        return;
                    }
                    self.ask(&asked).await;
                    asked.clear();
                }
            }
        }
    }

    /// Passes requests on. Drops them while the connection is down, because subjects are requested again after the feed has
    /// started over.
    async fn ask(&self, requests: &[FeedRequest]) {
        for (follows, alike) in feed::alike(requests) {
            let channels = alike.iter().map(|request| match &request.subject {
                Subject::Everything => self.channels.everything(),
                Subject::Name(name) => self.channels.of_lock(&self.keys.of(name)),
            });
            let channels: Vec<_> = channels.collect();
            if follows {
                self.listening.subscribe(&channels).await;
            } else {
                self.listening.unsubscribe(&channels).await;
            }
        }
    }
}

/// Reader that makes items of Redis's messages.
struct Reader {
    id: FeedId,
    keys: Keys,
    channels: Channels,
    items: mpsc::Sender<FeedItem>,
}

impl Reader {
    fn take(&self, PushInfo { kind, data }: PushInfo) -> Result<(), Full> {
        let mut data = data.into_iter();
        let Some(Value::BulkString(channel)) = data.next() else {
            return Ok(());
        };
        let subject = telling::subject(&channel, &self.channels, &self.keys);
        let item = match (kind, subject, data.next()) {
            (PushKind::Subscribe, Some(subject), _) => Some(FeedItem::Followed(subject)),
            (PushKind::Unsubscribe, Some(subject), _) => Some(FeedItem::Unfollowed(subject)),
            (PushKind::Message, subject, Some(Value::BulkString(payload)))
                if subject.is_some() || channel == Channels::of_feed(self.id) =>
            {
                telling::read(&payload, subject, &self.keys).map(FeedItem::Told)
            }
            _ => None,
        };
        item.map_or(Ok(()), |item| listening::give(&self.items, item))
    }
}

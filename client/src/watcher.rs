//! Watcher of locks.

use std::{
    future::poll_fn,
    pin::Pin,
    task::{Context, Poll, ready},
};

use futures_util::Stream;

use crate::{
    calls::Calls,
    error::Failure,
    feed::{Feed, News},
    proto::v1::{self, admin_service_client::AdminServiceClient},
    view::LockWatchEvent,
};

/// Longest message, in bytes: a snapshot shows up to a hundred holders with values of 4 KiB in one.
const LONGEST: usize = 16 << 20;

/// Stream of what happens to locks: first a snapshot of the present locks, then every event. Made by
/// [`Admin::watch_locks`](crate::Admin::watch_locks).
///
/// If the connection breaks or the coordinator goes away, the watcher yields a gap and asks again, with the client's
/// pauses, for as long as it takes. An error ends the stream: the coordinator refuses to be watched, or does not know
/// how.
///
/// Read the watcher continuously. The coordinator keeps back what is not read, and drops it after a while, which is a
/// gap. Dropping the watcher ends the call.
///
/// ```
/// # leasehold_tests::doc(async |client| {
/// use futures_util::{StreamExt, TryStreamExt, future};
/// use leasehold_client::LockWatchEvent;
///
/// let _guard = client.lock("orders/42").await?;
/// let watcher = client.admin().watch_locks("orders/");
/// let snapshot: Vec<_> = watcher
///     .try_take_while(|event| future::ok(*event != LockWatchEvent::Ready))
///     .try_collect()
///     .await?;
/// assert_eq!(snapshot.len(), 1);
/// # Ok(()) });
/// ```
#[derive(Debug)]
#[must_use = "nothing is asked for before it is polled"]
pub struct LockWatcher {
    feed: Feed<v1::WatchLocksResponse>,
    /// Set once an item has come since the watcher began, or since the last gap.
    told: bool,
}

impl LockWatcher {
    pub(crate) fn new(calls: &Calls, prefix: String) -> Self {
        let feed = Feed::new(calls, move |channel| {
            let prefix = prefix.clone();
            let mut stub = AdminServiceClient::new(channel).max_decoding_message_size(LONGEST);
            async move { stub.watch_locks(v1::WatchLocksRequest { prefix }).await }
        });
        Self { feed, told: false }
    }

    /// Waits for the next item; none after an error.
    ///
    /// # Cancel safety
    ///
    /// The future may be dropped and `next` called again without missing an item.
    pub async fn next(&mut self) -> Option<Result<LockWatchEvent, Failure>> {
        poll_fn(|cx| self.poll_told(cx)).await
    }

    /// Returns why no item comes at present, while the watcher tries to reach a coordinator; none while there is a
    /// connection, and before the first attempt has failed. Polling the watcher brings this up to date.
    ///
    /// ```
    /// # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use std::time::Duration;
    /// use leasehold_client::Admin;
    ///
    /// let mut watcher = Admin::connect("http://127.0.0.1:1")?.watch_locks("");
    /// let nothing = tokio::time::timeout(Duration::from_millis(100), watcher.next());
    /// assert!(nothing.await.is_err());
    /// assert!(watcher.interruption().is_some());
    /// # Ok(()) }
    /// ```
    pub fn interruption(&self) -> Option<&Failure> {
        self.feed.interruption()
    }

    fn poll_told(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<LockWatchEvent, Failure>>> {
        loop {
            let news = match ready!(self.feed.poll_news(cx)) {
                Some(News::Message(message)) => LockWatchEvent::from_proto(message),
                // One gap for each outage: there is nothing to forget twice.
                Some(News::Broken(failure)) if self.told => {
                    Some(LockWatchEvent::Gap(format!("the stream broke: {failure}")))
                }
                Some(News::Broken(_)) => None,
                Some(News::Refused(failure)) => return Poll::Ready(Some(Err(failure))),
                None => return Poll::Ready(None),
            };
            // A message that this version does not know is skipped.
            let Some(news) = news else { continue };
            self.told = !matches!(news, LockWatchEvent::Gap(_));
            return Poll::Ready(Some(Ok(news)));
        }
    }
}

impl Stream for LockWatcher {
    type Item = Result<LockWatchEvent, Failure>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.get_mut().poll_told(cx)
    }
}

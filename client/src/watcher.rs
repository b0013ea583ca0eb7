//! Watching what happens to locks.

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
    proto::v1::{
        self, admin_service_client::AdminServiceClient, watch_locks_response::Response as Told,
    },
};

/// How long one message may be, in bytes: a snapshot shows up to a hundred holders with values of 4 KiB in one.
const LONGEST: usize = 16 << 20;

/// What a [`LockWatcher`] tells.
///
/// ```
/// # leasehold_tests::doc(async |client| {
/// use leasehold_client::LockNews;
///
/// let _guard = client.lock("orders/42").acquire().await?;
/// let mut watcher = client.admin().watch_locks("orders/");
/// let mut held = 0;
/// loop {
///     match watcher.next().await.expect("it goes on")? {
///         LockNews::Lock(lock) => held += lock.holders.len(),
///         LockNews::Ready => break,
///         LockNews::Event(event) => println!("{:?} {}", event.kind(), event.name),
///         LockNews::Gap(why) => held = 0, // A new snapshot follows.
///         _ => {}
///     }
/// }
/// assert_eq!(held, 1);
/// # Ok(()) });
/// ```
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
#[expect(
    clippy::large_enum_variant,
    reason = "nearly all of them are events, which would have to be allocated one by one"
)]
pub enum LockNews {
    /// Part of a snapshot: a lock that is held, closed or waited for. It replaces whatever was known of its name.
    Lock(v1::LockView),
    /// The snapshot is complete: locks that were not in it are free.
    Ready,
    /// Something happened.
    Event(v1::LockEvent),
    /// Events were missed, for the reason given: forget what was known of all locks. A snapshot follows.
    Gap(String),
}

/// Tells what happens to locks: first a snapshot of what there is, then every event. Made by
/// [`Admin::watch_locks`](crate::Admin::watch_locks).
///
/// Where the connection breaks or the coordinator goes away, it tells of the gap and asks again, with the client's
/// pauses, for as long as it takes. An error is told once, and is its end: the coordinator refuses to be watched, or does
/// not know how.
///
/// Read it all the time. What is not read is kept back by the coordinator, and after a while dropped, which is a gap.
/// Dropping the watcher ends the call.
///
/// ```
/// # leasehold_tests::doc(async |client| {
/// use futures_util::{StreamExt, TryStreamExt, future};
/// use leasehold_client::LockNews;
///
/// let _guard = client.lock("orders/42").acquire().await?;
/// let watcher = client.admin().watch_locks("orders/");
/// let snapshot: Vec<_> = watcher
///     .try_take_while(|news| future::ok(*news != LockNews::Ready))
///     .try_collect()
///     .await?;
/// assert_eq!(snapshot.len(), 1);
/// # Ok(()) });
/// ```
#[derive(Debug)]
#[must_use = "nothing is asked for before it is polled"]
pub struct LockWatcher {
    feed: Feed<v1::WatchLocksResponse>,
    /// Something was told since it began, or since the last gap.
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

    /// What is told next; none after an error. May be dropped and called again without missing anything.
    pub async fn next(&mut self) -> Option<Result<LockNews, Failure>> {
        poll_fn(|cx| self.poll_told(cx)).await
    }

    /// Why nothing is told at present, while it tries to reach a coordinator; none while there is a connection, and
    /// before the first attempt has failed. It is brought up to date by polling.
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

    fn poll_told(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<LockNews, Failure>>> {
        loop {
            let news = match ready!(self.feed.poll_news(cx)) {
                Some(News::Message(message)) => message.response.map(|told| match told {
                    Told::Lock(lock) => LockNews::Lock(lock),
                    Told::Ready(_) => LockNews::Ready,
                    Told::Event(event) => LockNews::Event(event),
                    Told::Gap(gap) => LockNews::Gap(gap.message),
                }),
                // Once for each: there is nothing to be forgotten twice.
                Some(News::Broken(failure)) if self.told => {
                    Some(LockNews::Gap(format!("the stream broke: {failure}")))
                }
                Some(News::Broken(_)) => None,
                Some(News::Refused(failure)) => return Poll::Ready(Some(Err(failure))),
                None => return Poll::Ready(None),
            };
            // What this version has no words for is passed over.
            let Some(news) = news else { continue };
            self.told = !matches!(news, LockNews::Gap(_));
            return Poll::Ready(Some(Ok(news)));
        }
    }
}

impl Stream for LockWatcher {
    type Item = Result<LockNews, Failure>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.get_mut().poll_told(cx)
    }
}

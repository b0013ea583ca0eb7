//! Waiters that give up: by a cancel, by the end of their wait, by the end of their stream. Each leaves Redis's queue while
//! the lock is still held, and the others are served in their order.

use std::time::Duration;

use leasehold_proto::v1::AcquireOutcome;
use leasehold_tests::{RawSession, Site, queue::queue_order, raw::PROMPT, wait};
use redis::aio::MultiplexedConnection;

const NAME: &str = "left";
const WAIT: Duration = Duration::from_millis(300);

/// A waiter, its request, and the owner id under which it is queued.
struct Waiter {
    session: RawSession,
    request: u64,
    ticket: Vec<u8>,
}

impl Waiter {
    async fn queue(site: &Site, at: usize, wait: Option<Duration>) -> Self {
        let mut session = site.session(at).await;
        let request = session.ask(NAME, wait).await;
        let ticket = session.ticket(request).await.ticket;
        Self {
            session,
            request,
            ticket,
        }
    }

    /// Asserts how its acquire ended.
    async fn ends_with(&mut self, outcome: AcquireOutcome) {
        let ended = self.session.not_granted(self.request, PROMPT).await;
        assert_eq!(ended.outcome(), outcome);
    }
}

/// Waits until Redis has just these in the queue, in this order.
async fn queued(redis: &MultiplexedConnection, wanted: &[&Waiter]) {
    let wanted: Vec<_> = wanted.iter().map(|waiter| waiter.ticket.clone()).collect();
    wait::until("only those that still wait to be queued", PROMPT, || {
        let mut redis = redis.clone();
        let wanted = wanted.clone();
        async move {
            let queue = queue_order(&mut redis, NAME).await;
            if queue == wanted { Ok(()) } else { Err(queue) }
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_waiter_that_gives_up_leaves_the_queue_and_the_others_keep_their_order() {
    let site = Site::redis(2).await;
    let connection = site.plain().await;
    let mut holder = site.session(0).await;
    let held = holder.acquire(NAME).await.lock;

    let mut first = Waiter::queue(&site, 0, None).await;
    let mut cancelled = Waiter::queue(&site, 0, None).await;
    let abandoned = Waiter::queue(&site, 1, None).await;
    let mut second = Waiter::queue(&site, 1, None).await;
    let mut overdue = Waiter::queue(&site, 1, Some(WAIT)).await;
    let mut last = Waiter::queue(&site, 0, None).await;

    overdue.ends_with(AcquireOutcome::TimedOut).await;
    queued(
        &connection,
        &[&first, &cancelled, &abandoned, &second, &last],
    )
    .await;
    let request = cancelled.request;
    cancelled.session.cancel(request).await;
    cancelled.ends_with(AcquireOutcome::Cancelled).await;
    queued(&connection, &[&first, &abandoned, &second, &last]).await;
    drop(abandoned);
    queued(&connection, &[&first, &second, &last]).await;

    let mut token = held.fencing_token;
    assert!(holder.release(&held).await);
    for waiter in [&mut first, &mut second, &mut last] {
        let lock = waiter.session.granted(waiter.request, PROMPT).await.lock;
        assert_eq!(lock.owner_id, waiter.ticket);
        assert!(lock.fencing_token > token);
        token = lock.fencing_token;
        assert!(waiter.session.release(&lock).await);
    }
    // Whoever gave up was granted nothing on the way, and its session goes on.
    for mut waiter in [cancelled, overdue] {
        waiter.session.heartbeat().await;
        assert!(waiter.session.unread_unasked().is_empty());
        waiter.session.close().await;
    }
    for session in [holder, first.session, second.session, last.session] {
        session.close().await;
    }
    site.nothing_is_left().await;
}

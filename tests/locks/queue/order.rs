//! Order of grants while all clients live: that in which Redis saw the acquires.

use std::collections::HashMap;

use futures_util::future::join_all;
use leasehold_tests::{RawSession, Site, queue::queue_order, raw::PROMPT, site::TTL};

const NAME: &str = "crowded";
const WAITERS: usize = 60;
/// So many ask at the same time: their order is that of Redis, in which the coordinators mix.
const AT_ONCE: usize = 4;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn waiters_of_two_coordinators_are_served_in_the_order_of_redis() {
    let site = Site::redis(2).await;
    let mut holder = site.session(0).await;
    let held = holder.acquire(NAME).await.lock;
    let mut waiting = HashMap::new();
    for first in (0..WAITERS).step_by(AT_ONCE) {
        let asking = (first..first + AT_ONCE).map(async |at| {
            let mut session = RawSession::open_on(site.channel(at), TTL).await;
            session.keep_alive(TTL / 5);
            let request = session.ask(NAME, None).await;
            let queued = session.ticket(request).await;
            (queued.ticket, (queued.position, at % 2, session, request))
        });
        waiting.extend(join_all(asking).await);
    }
    let mut redis = site.plain().await;
    let order = queue_order(&mut redis, NAME).await;
    assert_eq!(order.len(), WAITERS);
    assert!(holder.release(&held).await);
    let (mut token, mut coordinators) = (held.fencing_token, Vec::new());
    for (place, ticket) in (1..).zip(order) {
        let waiter = waiting.remove(&ticket);
        let (told, at, mut session, request) = waiter.expect("a ticket of ours, once");
        // Nobody had left when it was told.
        assert_eq!(told, place);
        coordinators.push(at);
        let lock = session.granted(request, PROMPT).await.lock;
        assert_eq!(lock.owner_id, ticket);
        assert!(lock.fencing_token > token);
        token = lock.fencing_token;
        // Of those behind it, none was served.
        assert_eq!(queue_order(&mut redis, NAME).await.len(), waiting.len());
        assert!(session.release(&lock).await);
        session.close().await;
    }
    let crossings = coordinators.windows(2).filter(|two| two[0] != two[1]);
    assert!(
        crossings.count() >= WAITERS / AT_ONCE,
        "hand-offs went from one to the other"
    );
    holder.close().await;
    site.nothing_is_left().await;
}

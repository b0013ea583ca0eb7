//! Cases of waiters.

use std::time::Duration;

use leasehold_proto::v1::{AcquireOutcome, session_response::Response};
use leasehold_tests::raw::{by, exclusive, for_at_most};

use crate::conformance::site::{LATE, Site};

pub(crate) async fn are_first_come_first_served(site: &Site) {
    let mut holder = site.session(0).await;
    let mut lock = holder.take_one(exclusive("queues/one")).await;
    let mut waiters = Vec::new();
    for place in 1..=4 {
        let mut waiter = site.session(0).await;
        let id = waiter.ask("queues/one", None).await;
        assert_eq!(waiter.queued(id).await, place);
        waiters.push((waiter, id));
    }
    let mut releases = holder;
    for (mut waiter, id) in waiters {
        assert!(releases.release(&lock).await);
        let next = waiter.granted_all(id, LATE).await.remove(0);
        assert!(next.fencing_token > lock.fencing_token);
        lock = next;
        releases.close().await;
        releases = waiter;
    }
    assert!(releases.release(&lock).await);
    releases.close().await;
}

/// Checks that each waiter is served; in the order of arrival, if there is one queue.
pub(crate) async fn of_several_coordinators(site: &Site) {
    let mut holder = site.session(0).await;
    let lock = holder.take_one(exclusive("queues/all")).await;
    let mut waiters = Vec::new();
    for place in 1..=4_u64 {
        let mut waiter = site.session(usize::try_from(place).unwrap()).await;
        let id = waiter.ask("queues/all", None).await;
        let told = waiter.queued(id).await;
        if site.offers().one_queue {
            assert_eq!(told, place);
        }
        waiters.push((waiter, id));
    }
    assert!(holder.release(&lock).await);
    holder.close().await;
    let mut tokens = Vec::new();
    let served = waiters.into_iter().map(async |(mut waiter, id)| {
        let lock = waiter.granted_all(id, LATE * 4).await.remove(0);
        assert!(waiter.release(&lock).await);
        waiter.close().await;
        lock.fencing_token
    });
    for token in futures_util::future::join_all(served).await {
        tokens.push(token);
    }
    if site.offers().one_queue {
        assert!(tokens.is_sorted(), "{tokens:?}");
    }
    tokens.sort_unstable();
    tokens.dedup();
    assert_eq!(tokens.len(), 4, "each grant has a token of its own");
    assert!(tokens[0] > lock.fencing_token);
}

pub(crate) async fn hand_on_when_a_stream_ends(site: &Site) {
    for at in [0, 1] {
        let mut holder = site.session(0).await;
        holder.take_one(exclusive("queues/dropped")).await;
        let mut next = site.session(at).await;
        let id = next.ask("queues/dropped", None).await;
        next.queued(id).await;
        drop(holder);
        let lock = next.granted_all(id, LATE).await.remove(0);
        assert!(next.release(&lock).await);
        next.close().await;
    }
}

pub(crate) async fn are_left_after_the_wait_or_by_a_cancel(site: &Site) {
    let mut holder = site.session(0).await;
    let lock = holder.take_one(exclusive("queues/left")).await;
    let mut waiter = site.session(1).await;
    let soon = Duration::from_millis(200);
    let id = waiter
        .ask_for(for_at_most(soon, exclusive("queues/left")))
        .await;
    let outcome = waiter.not_granted(id, LATE).await;
    assert_eq!(outcome.outcome(), AcquireOutcome::TimedOut);
    let id = waiter.wait_for(exclusive("queues/left")).await;
    waiter.cancel(id).await;
    let outcome = waiter.not_granted(id, LATE).await;
    assert_eq!(outcome.outcome(), AcquireOutcome::Cancelled);
    site.seen(0, "queues/left", "no waiter", |view| view.waiter_count == 0)
        .await;
    assert!(holder.release(&lock).await);
    let lock = waiter.take_one(exclusive("queues/left")).await;
    assert!(waiter.release(&lock).await);
    holder.close().await;
    waiter.close().await;
}

/// Checks that of two actors that wait for each other at one coordinator, the younger wait ends.
pub(crate) async fn of_deadlocked_actors_move_on(site: &Site) {
    let mut session = site.session(0).await;
    session.take_one(by(1, exclusive("queues/circle/a"))).await;
    session.take_one(by(2, exclusive("queues/circle/b"))).await;
    let older = session.wait_for(by(1, exclusive("queues/circle/b"))).await;
    let younger = session.wait_for(by(2, exclusive("queues/circle/a"))).await;
    let refusal = session.refusal(younger, LATE).await;
    assert_eq!(refusal.reason, "DEADLOCK", "{refusal:?}");
    session.cancel(older).await;
    match session.outcome(older, LATE).await {
        Response::NotGranted(outcome) => {
            assert_eq!(outcome.outcome(), AcquireOutcome::Cancelled);
        }
        other => panic!("{other:?}"),
    }
    session.close().await;
}

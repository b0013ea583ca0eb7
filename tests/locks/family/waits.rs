//! Waits that end without a grant, in every mode: by time, by a cancel, by the end of the session.

use std::time::{Duration, Instant};

use futures_util::future::join_all;
use leasehold_proto::v1::AcquireOutcome;
use leasehold_tests::{
    Site,
    raw::{PROMPT, for_at_most},
    site::everywhere,
};

use crate::family::want::{Pair, pairs};

/// Time that a request waits.
const WAIT: Duration = Duration::from_millis(600);

#[tokio::test(flavor = "multi_thread")]
async fn a_wait_ends_in_time_in_every_mode_and_leaves_no_trace() {
    everywhere(async |site| {
        let cases = pairs("timed");
        join_all(cases.iter().map(|pair| timed_out(site, pair))).await;
    })
    .await;
}

async fn timed_out(site: &Site, pair: &Pair) {
    let (mut holder, mut waiter) = (site.session(0).await, site.session(1).await);
    let held = holder.take(pair.held.acquire()).await;
    let token = held
        .iter()
        .find(|lock| lock.name == pair.contended)
        .map(|lock| lock.fencing_token);

    for (wait, outcome) in [
        (Duration::ZERO, AcquireOutcome::Busy),
        (WAIT, AcquireOutcome::TimedOut),
    ] {
        let asked = Instant::now();
        let id = waiter
            .ask_for(for_at_most(wait, pair.wanted.acquire()))
            .await;
        let answer = waiter.not_granted(id, PROMPT).await;
        assert!(asked.elapsed() >= wait, "{}", pair.what);
        assert_eq!(answer.outcome(), outcome, "{}", pair.what);
        let by = answer.holder.as_ref().map(|holder| holder.fencing_token);
        assert_eq!(by, token, "{}", pair.what);
        // What it had taken by then was given back before it was told so.
        for name in pair.wanted.names() {
            let view = site.view(1, name).await;
            assert_eq!(view.waiter_count, 0, "{}: {view:?}", pair.what);
            let expected = u64::from(pair.held.names().contains(name));
            assert_eq!(view.holder_count, expected, "{}: {view:?}", pair.what);
        }
    }
    for lock in &held {
        assert!(holder.release(lock).await);
    }
    let granted = waiter.take(pair.wanted.acquire()).await;
    assert_eq!(granted.len(), pair.wanted.names().len());
    waiter.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancelled_wait_is_passed_over_in_every_mode() {
    everywhere(async |site| {
        let cases = pairs("cancelled");
        join_all(cases.iter().map(|pair| cancelled(site, pair))).await;
    })
    .await;
}

async fn cancelled(site: &Site, pair: &Pair) {
    let (mut holder, mut waiter) = (site.session(0).await, site.session(1).await);
    let held = holder.take(pair.held.acquire()).await;
    let first = waiter.wait_for(pair.wanted.acquire()).await;
    // Whoever comes behind is of another session, at the other coordinator.
    let mut behind = site.session(0).await;
    let second = behind.ask_for(pair.wanted.acquire()).await;
    behind.queued(second).await;

    waiter.cancel(first).await;
    let answer = waiter.not_granted(first, PROMPT).await;
    assert_eq!(answer.outcome(), AcquireOutcome::Cancelled, "{}", pair.what);
    let view = site
        .seen(0, &pair.contended, "one waiter", |view| {
            view.waiter_count == 1
        })
        .await;
    assert_eq!(view.holder_count, 1, "{}: {view:?}", pair.what);
    // A cancel of what has been answered does nothing.
    waiter.cancel(first).await;

    for lock in &held {
        assert!(holder.release(lock).await);
    }
    let granted = behind.granted_all(second, PROMPT).await;
    assert_eq!(granted.len(), pair.wanted.names().len(), "{}", pair.what);
    behind.close().await;
}

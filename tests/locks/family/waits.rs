//! Waits that end without a grant, in every mode: by time, by a cancel, by the end of the session.

use std::time::{Duration, Instant};

use futures_util::future::join_all;
use leasehold_proto::v1::{AcquireOutcome, SessionAcquire};
use leasehold_tests::{
    RawSession, Site,
    raw::{PROMPT, exclusive, for_at_most, semaphore, shared},
    site::everywhere,
};

use crate::LATE;
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
        let took = asked.elapsed();
        assert_eq!(answer.outcome(), outcome, "{}", pair.what);
        let by = answer.holder.as_ref().map(|holder| holder.fencing_token);
        assert_eq!(by, token, "{}", pair.what);
        assert!(
            took >= wait && took <= wait + LATE,
            "{} {took:?}",
            pair.what
        );
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

/// The waiters behind one that leaves are granted the lock at once if they fit, though no holder has released it.
#[tokio::test(flavor = "multi_thread")]
async fn waiters_behind_one_that_leaves_are_granted_at_once() {
    everywhere(async |site| {
        let leaves = [
            Leaves::Cancels,
            Leaves::TimesOut,
            Leaves::Closes,
            Leaves::Dies,
        ];
        join_all(leaves.map(|how| async move {
            let (read, permits) = (
                format!("left/{how:?}/read"),
                format!("left/{how:?}/permits"),
            );
            tokio::join!(
                left(site, how, shared(&read), exclusive(&read)),
                left(
                    site,
                    how,
                    semaphore(&permits, 1, 3),
                    semaphore(&permits, 3, 3)
                ),
            );
        }))
        .await;
    })
    .await;
}

#[derive(Clone, Copy, Debug)]
enum Leaves {
    Cancels,
    TimesOut,
    Closes,
    Dies,
}

async fn left(site: &Site, how: Leaves, small: SessionAcquire, big: SessionAcquire) {
    let mut holder = site.session(0).await;
    holder.take(small.clone()).await;
    let mut leaving = site.session(1).await;
    let wait = match how {
        Leaves::TimesOut => WAIT * 4,
        _ => PROMPT * 4,
    };
    let asked = Instant::now();
    let id = leaving.wait_for(for_at_most(wait, big)).await;
    let mut behind: Vec<(RawSession, u64)> = Vec::new();
    for at in 0..2 {
        let mut session = site.session(at).await;
        let id = session.wait_for(small.clone()).await;
        behind.push((session, id));
    }
    // Kept open here, where it only asks no more.
    let mut leaving = Some(leaving);
    let left = match how {
        Leaves::Cancels => {
            leaving.as_mut().unwrap().cancel(id).await;
            Instant::now()
        }
        Leaves::TimesOut => asked + wait,
        Leaves::Closes => {
            leaving.take().unwrap().close().await;
            Instant::now()
        }
        Leaves::Dies => {
            drop(leaving.take());
            Instant::now()
        }
    };
    for (session, id) in &mut behind {
        session.granted_all(*id, PROMPT).await;
        let took = left.elapsed();
        assert!(took <= LATE, "{how:?} {small:?}: {took:?}");
    }
    let view = site.view(0, &small.name).await;
    assert_eq!((view.holder_count, view.waiter_count), (3, 0), "{view:?}");
}

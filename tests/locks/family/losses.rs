//! Locks that are taken from their holders: every holder is notified, in every mode.

use std::time::Duration;

use futures_util::future::join_all;
use leasehold_proto::v1::{GrantedLock, LostReason};
use leasehold_tests::{
    RawSession, Site,
    raw::{PROMPT, exclusive},
    site::{delete, everywhere, on_redis, set_nx},
};

use crate::family::want::Want;

/// Of sessions whose renewals are to find a loss: those come every third of it.
const TTL: Duration = Duration::from_secs(3);

/// Requests that hold a name together, and one that waits behind them.
struct Case {
    name: String,
    held: Vec<Want>,
    wanted: Want,
}

fn cases(prefix: &str) -> Vec<Case> {
    let name = |name: &str| format!("{prefix}/{name}");
    let (alone, read, permits, one) = (
        name("exclusive"),
        name("shared"),
        name("semaphore"),
        name("b"),
    );
    vec![
        Case {
            held: vec![Want::Exclusive(alone.clone())],
            wanted: Want::Exclusive(alone.clone()),
            name: alone,
        },
        Case {
            held: vec![Want::Shared(read.clone()); 4],
            wanted: Want::Exclusive(read.clone()),
            name: read,
        },
        Case {
            held: [3, 1, 1, 1]
                .map(|number| Want::Permits(permits.clone(), number, 7))
                .to_vec(),
            wanted: Want::Permits(permits.clone(), 2, 7),
            name: permits,
        },
        Case {
            held: vec![Want::All(vec![name("c"), one.clone(), name("a")])],
            wanted: Want::All(vec![name("e"), one.clone(), name("d")]),
            name: one,
        },
    ]
}

/// The holders, at the coordinators in turn, each with a lock beside that nothing happens to; and who waits.
struct Held {
    holders: Vec<(RawSession, Vec<GrantedLock>, GrantedLock)>,
    waiter: RawSession,
    waiting: u64,
    newest: i64,
}

async fn hold(site: &Site, case: &Case, ttl: Duration) -> Held {
    let mut holders = Vec::new();
    let mut newest = 0;
    for (at, want) in case.held.iter().enumerate() {
        let mut session = site.session_of(at, ttl).await;
        let locks = session.take(want.acquire()).await;
        let kept = exclusive(&format!("{}/kept/{at}", case.name));
        let kept = session.take_one(kept).await;
        newest = site.view(at, &case.name).await.fencing_token;
        holders.push((session, locks, kept));
    }
    let mut waiter = site.session(1).await;
    let waiting = waiter.wait_for(case.wanted.acquire()).await;
    Held {
        holders,
        waiter,
        waiting,
        newest,
    }
}

/// Checks that every holder gets one message, for this name alone, and still has the rest.
async fn told(case: &Case, reason: LostReason, held: &mut Held) {
    for (session, locks, kept) in &mut held.holders {
        let lost = session.lost(PROMPT).await;
        let (gone, rest): (Vec<&GrantedLock>, Vec<_>) =
            locks.iter().partition(|lock| lock.name == case.name);
        assert_eq!(lost.len(), 1, "{}: {lost:?}", case.name);
        assert_eq!(lost[0].name, case.name);
        assert_eq!(lost[0].owner_id, gone[0].owner_id);
        assert_eq!(lost[0].reason(), reason, "{}", case.name);
        assert!(!session.release(gone[0]).await);
        for lock in rest.into_iter().chain([&*kept]) {
            assert!(session.release(lock).await, "{}", lock.name);
        }
        session.heartbeat().await;
        let news = session.unread_unasked();
        assert!(news.is_empty(), "{}: {news:?}", case.name);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_force_release_is_told_to_every_holder_and_lets_the_next_in() {
    everywhere(async |site| {
        let cases = cases("forced");
        join_all(cases.iter().map(|case| async {
            // No renewal comes first, and finds nothing there.
            let mut held = hold(site, case, TTL * 10).await;
            let token = site.force(0, &case.name).await;
            assert!(token > held.newest, "{}", case.name);
            told(case, LostReason::Forced, &mut held).await;
            let granted = held.waiter.granted_all(held.waiting, PROMPT).await;
            let lock = granted.iter().find(|lock| lock.name == case.name).unwrap();
            assert!(lock.fencing_token > held.newest);
            let view = site.view(0, &case.name).await;
            assert_eq!((view.holder_count, view.waiter_count), (1, 0), "{view:?}");
            held.waiter.close().await;
        }))
        .await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_taken_by_a_stranger_is_told_to_every_holder_and_left_to_the_stranger() {
    on_redis(async |site| {
        let cases = cases("taken");
        join_all(cases.iter().map(|case| async {
            let mut redis = site.plain().await;
            let mut held = hold(site, case, TTL).await;
            held.waiter.cancel(held.waiting).await;
            held.waiter.not_granted(held.waiting, PROMPT).await;
            assert!(delete(&mut redis, &case.name).await);
            assert!(set_nx(&mut redis, &case.name).await, "nobody was faster");
            told(case, LostReason::Taken, &mut held).await;
            let view = site.view(0, &case.name).await;
            assert_eq!(view.holder_count, 1, "{view:?}");
            assert!(view.holders[0].foreign, "{view:?}");
            assert!(delete(&mut redis, &case.name).await);
        }))
        .await;
    })
    .await;
}
